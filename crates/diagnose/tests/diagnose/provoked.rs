//! Causes provoked between two hosts, recorded at the client, on the way and at the server: each is
//! named at all of these places, and no other one with it.
//!
//! `tests/captures/provoked/CAUSE.PLACE.pcap.zst` were recorded by `crates/truth/others/draw.py`,
//! with getaddrinfo of glibc 2.36, Python's ssl over OpenSSL 3.0, and aioquic.

use diagnose::Follower;
use wire::PacketReader;

use crate::dns::made::follow;

/// What `analyze` finds beside TCP's conversations, by the words of the output, sorted.
fn findings(follower: &Follower) -> Vec<String> {
    let (dns, tls, quic) = (follower.dns.analysis(), follower.tls_analysis(), follower.quic_analysis());
    let udp = follower.udp_analysis(&quic);
    let network = follower.network_analysis(&udp);
    let all = dns.findings().iter().map(|f| f.kind.name().to_owned());
    let all = all.chain(tls.findings().iter().map(|f| f.kind.name().to_owned()));
    let all = all.chain(quic.findings().iter().map(|f| f.kind.name().to_owned()));
    let all = all.chain(udp.findings().iter().map(|f| f.kind.name().to_owned()));
    let mut all: Vec<String> = all.chain(network.findings().iter().map(|f| f.kind.name().to_owned())).collect();
    all.sort();
    all
}

#[test]
fn each_cause_is_named_at_every_place() {
    let causes: [(&str, &[&str]); 21] = [
        ("answer_cut_short", &["dns_truncated"]),
        ("answer_cut_short_TCP_refused", &["dns_truncated"]),
        ("resolver_too_late", &["dns_too_late"]),
        ("accepts_late", &["tls_server"]),
        ("looks_for_a_certificate", &["tls_server", "tls_version"]),
        ("client_thinks", &["tls_client"]),
        ("hello_again", &["tls_retry"]),
        ("long_certificate", &["tls_flight", "tls_version"]),
        ("old_version", &["tls_version"]),
        ("goes_on_1.2", &[]),
        ("goes_on_1.3", &[]),
        ("does_not_go_on", &["tls_not_resumed"]),
        ("unknown_issuer", &["tls_failed"]),
        ("no_common_version", &["tls_failed"]),
        ("closes_in_the_middle", &["tls_failed"]),
        ("clients_certificate", &[]),
        ("no_clients_certificate", &["tls_failed"]),
        ("QUIC_held_by_its_limit", &["quic_limit"]),
        ("QUIC_blocked", &["quic_unanswered"]),
        ("QUIC_hello_lost", &["quic_probes"]),
        ("slow_answer_of_QUIC", &["quic_pause"]),
    ];
    for (cause, wanted) in causes {
        for place in ["client", "middle", "server"] {
            let path = format!("{}/tests/captures/provoked/{cause}.{place}.pcap.zst", env!("CARGO_MANIFEST_DIR"));
            let file = std::fs::read(&path).unwrap();
            let found = findings(&follow(PacketReader::from_bytes(&file).unwrap(), diagnose::Options::default()));
            assert_eq!(found, wanted, "{cause} at the {place}");
        }
    }
}
