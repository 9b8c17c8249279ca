//! A capture of openssl, curl and Python's ssl over a path of 40 ms: each field is tshark's, and
//! each cause is named.
//!
//! `tests/captures/tls.pcap.zst` was recorded at the client; what is encrypted was then written
//! over with zeros. Among the servers, one takes P-384 only, one has a certificate of 20 KB, two
//! speak TLS 1.2, of which one forgets sessions, one accepts 300 ms late, and one closes. Two
//! clients wait 250 ms for nothing, and two trust nobody. `lost.example.com` is answered on the
//! second try, an address of `dual.example.com` is dead, and 10.77.0.2:5005 thinks for 400 ms.

use record::Nanos;
use record::tls::{Outcome, TlsFindingKind as Kind};
use record::transaction::Certainty;

use super::made::{Read, read};

fn recorded() -> Read {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures/tls.pcap.zst");
    read(&std::fs::read(path).unwrap())
}

/// Number of the server's hello, version, cipher suite, nanoseconds since the client's last hello.
type Chosen = (u64, &'static str, u64, u64);

/// What tshark 4.0.17 gives for each connection: `frame.number` of the first hello,
/// `tls.handshake.extensions_server_name`, `tls.handshake.extensions_alpn_str`, and of the server's
/// last hello what it chose.
const TSHARK: [(u64, &str, &str, Option<Chosen>); 21] = [
    (4, "www.example.com", "h2 http/1.1", Some((6, "TLS 1.3", 0x1302, 44_730_615))),
    (25, "www.example.com", "", Some((27, "TLS 1.3", 0x1302, 40_550_916))),
    (45, "early.example.com", "", Some((47, "TLS 1.3", 0x1302, 52_619_542))),
    (62, "early.example.com", "", Some((64, "TLS 1.3", 0x1302, 40_498_588))),
    (77, "retry.example.com", "", Some((82, "TLS 1.3", 0x1302, 42_029_791))),
    (101, "big.example.com", "", Some((103, "TLS 1.3", 0x1302, 40_877_483))),
    (142, "old.example.com", "http/1.1", Some((144, "TLS 1.2", 0xc02c, 40_635_732))),
    (162, "old.example.com", "", Some((164, "TLS 1.2", 0xc02c, 40_261_149))),
    (181, "forgets.example.com", "", Some((183, "TLS 1.2", 0xc02c, 46_436_774))),
    (201, "forgets.example.com", "", Some((203, "TLS 1.2", 0xc02c, 40_606_168))),
    (221, "www.example.com", "", Some((223, "TLS 1.3", 0x1302, 40_597_666))),
    (232, "old.example.com", "", Some((234, "TLS 1.2", 0xc02c, 40_474_602))),
    (243, "", "", Some((245, "TLS 1.3", 0x1302, 40_842_376))),
    (264, "refuses.example.com", "", None),
    (274, "slow.example.com", "h2 http/1.1", Some((276, "TLS 1.3", 0x1302, 340_968_014))),
    (293, "shut.example.com", "h2 http/1.1", None),
    (301, "waits.example.com", "http/1.1", Some((303, "TLS 1.3", 0x1302, 40_607_791))),
    (320, "waits.example.com", "http/1.1", Some((322, "TLS 1.2", 0xc02c, 40_675_196))),
    (344, "lost.example.com", "h2 http/1.1", Some((346, "TLS 1.3", 0x1302, 40_573_109))),
    (365, "www.example.com", "h2 http/1.1", Some((367, "TLS 1.3", 0x1302, 46_188_695))),
    (389, "dual.example.com", "h2 http/1.1", Some((391, "TLS 1.3", 0x1302, 45_603_732))),
];

#[test]
fn every_field_in_clear_view_is_that_of_tshark() {
    let read = recorded();
    assert_eq!(read.handshakes.len(), TSHARK.len(), "{read:#?}");
    for (h, (hello, name, protocols, chosen)) in read.handshakes.iter().zip(TSHARK) {
        let packets: Vec<u64> = h.packets.split(' ').map(|n| n.parse().unwrap()).collect();
        assert_eq!(packets[0], hello);
        assert_eq!((h.name.as_deref().unwrap_or_default(), h.offered_protocols.as_str()), (name, protocols), "{h:#?}");
        match chosen {
            Some((answer, version, cipher, took)) => {
                assert!(packets.contains(&answer), "{h:#?}");
                assert_eq!(
                    (h.version.as_deref(), h.cipher, h.hello_ns),
                    (Some(version), Some(cipher), Some(Nanos(took)))
                );
            }
            None => assert_eq!((&h.version, h.outcome), (&None, Outcome::Failed), "{h:#?}"),
        }
        // Each part is known, or why it is not.
        assert!(h.outcome != Outcome::Done || h.path_wait_ns.is_some_and(|path| path.0 > 39_000_000), "{h:#?}");
    }
}

#[test]
fn each_cause_is_named_with_its_server() {
    let read = recorded();
    let wanted = [
        (Kind::Server, "slow.example.com", "waiting for the server"),
        (Kind::Client, "waits.example.com", "waiting for the client"),
        (Kind::Retry, "retry.example.com", "a key of the group secp384r1; the client had sent a key of x25519"),
        (Kind::Flight, "big.example.com", "it sent 13.9 KiB, and waited"),
        (Kind::Version, "old.example.com", "chose TLS 1.2 although the client offers TLS 1.3"),
        (Kind::NotResumed, "forgets.example.com", "did not go on with the session"),
        (Kind::Failed, "www.example.com", "the client ended it with the alert unknown_ca"),
        (Kind::Failed, "old.example.com", "the client ended it with the alert unknown_ca"),
        (Kind::Failed, "refuses.example.com", "the server ended it with the alert protocol_version"),
        (Kind::Failed, "shut.example.com", "the server closed the connection in the middle of it"),
    ];
    for (kind, name, words) in wanted {
        let is_it = |f: &&record::tls::TlsFinding| f.kind == kind && f.text.contains(name) && f.text.contains(words);
        assert!(read.findings.iter().any(|f| is_it(&f)), "{kind:?} {name}: {:#?}", read.findings);
    }
    let resumed: Vec<u64> = read.handshakes.iter().filter(|h| h.resumed == Some(true)).map(|h| h.connection).collect();
    assert_eq!(resumed, [2, 4, 8]);
}

#[test]
fn the_time_of_each_name_is_that_of_curl() {
    let read = recorded();
    let of = |name: &str| read.transactions.iter().rfind(|t| t.name == name).unwrap_or_else(|| panic!("{read:#?}"));
    // Milliseconds of `time_namelookup`, `time_starttransfer` and `time_total`.
    for (name, certainty, [looked_up, started, total]) in [
        ("lost.example.com", Certainty::Named, [5044, 5219, 5236]),
        ("www.example.com", Certainty::Named, [50, 581, 581]),
        ("dual.example.com", Certainty::Named, [43, 413, 413]),
        ("plain.example.com", Certainty::LatestName, [47, 152, 152]),
    ] {
        let t = of(name);
        let near = |ours: Nanos, theirs: u64, by: u64| ours.0.abs_diff(theirs * 1_000_000) < by * 1_000_000;
        let to_the_answer = Nanos(t.took_ns.0 - t.answer_ns.0);
        assert_eq!(t.certainty, certainty, "{t:#?}");
        // curl has the first byte once a record is there whole, and Nagle's algorithm keeps the end
        // of it back for a round trip.
        assert!(near(t.name_ns, looked_up, 25) && near(to_the_answer, started, 60), "{t:#?}");
        assert!(t.withheld.is_some() || near(t.took_ns, total, 25), "{t:#?}");
    }
    assert_eq!((of("lost.example.com").tries, of("dual.example.com").earlier_attempts), (2, 1));
}
