//! A capture of aioquic 1.3 over a path of 40 ms: each field is tshark's, and each cause is named.
//!
//! `tests/captures/quic.pcap.zst` was recorded at the client, but for the connection whose client
//! moves, at the server; what is encrypted was then written over with zeros. One connection each:
//! plain; Retry; version 2; a server that goes on in version 2; a lost first datagram; UDP blocked,
//! and TCP after 2 s; a version that the server does not speak; a certificate of 8 KB; a NAT that
//! forgets the client; twenty requests; an application protocol that the server does not know;
//! one with a session, and one that goes on with it (0-RTT); a server that thinks for 300 ms.

use record::Nanos;
use record::conversation::Side;
use record::quic::{Outcome, QuicFindingKind as Kind, Spin};
use record::transaction::Certainty;

use super::{Read, file, read};

fn recorded() -> Read {
    read(&file())
}

/// A connection as tshark 4.0.17 gives it: `frame.number` of the client's first packet and of the
/// server's hello, `quic.version`, `quic.dcid` and `quic.scid` of the first, `quic.scid` of the
/// second, `tls.handshake.extensions_alpn_str`, microseconds from the first to the second, and
/// datagrams and bytes (`udp.length` less 8 for each) of both sides.
type Theirs = (u64, Option<u64>, &'static str, [&'static str; 3], &'static str, u64, [u64; 4]);

const V1: &str = "QUIC v1";
const V2: &str = "QUIC v2";

const TSHARK: [Theirs; 13] = [
    (
        3,
        Some(4),
        V1,
        ["fb4b6678412469a9", "d3c8bb1e34d49149", "c2f5f104288897d3"],
        "h3",
        60_419,
        [23, 3_393, 32, 26_721],
    ),
    (
        60,
        Some(63),
        V1,
        ["b492e7205033f748", "d600e63956cbba38", "a887f03342f603b9"],
        "h3",
        97_553,
        [22, 4_527, 33, 26_831],
    ),
    (
        117,
        Some(118),
        V2,
        ["4d4908f2b6e22d54", "40a0dec3b94dbb5e", "a17016f32c753bb9"],
        "h3",
        53_904,
        [23, 3_393, 32, 26_721],
    ),
    (
        174,
        Some(175),
        V1,
        ["42d44ce0a893f231", "bbe9aac455f9a5e7", "14e49a301a8d9bc3"],
        "h3",
        57_037,
        [23, 3_393, 32, 26_721],
    ),
    (
        231,
        Some(233),
        V1,
        ["cb07dbfacfe84f6a", "8a7a727947404568", "1a9a08a4fec7a09e"],
        "h3",
        250_597,
        [22, 4_527, 32, 26_721],
    ),
    (287, None, V1, ["cb031a366d327233", "95b9f2334911618d", ""], "h3", 0, [4, 4_800, 0, 0]),
    (
        368,
        Some(369),
        V1,
        ["79eeab2a5ed6fd0e", "55997578a4bbc856", "191d09a73ed1168b"],
        "h3",
        52_932,
        [27, 3_616, 38, 34_669],
    ),
    (
        433,
        Some(434),
        V1,
        ["71c906f8a85daa8f", "81eade8cf501f83e", "e75afe667d7aa727"],
        "h3",
        2_416,
        [25, 4_626, 34, 26_853],
    ),
    (
        494,
        Some(495),
        V1,
        ["16b8fac9e96a46a3", "1d7116bed1741528", "d946634b49cedf98"],
        "h3",
        53_239,
        [62, 4_713, 72, 34_011],
    ),
    (630, None, V1, ["1bb5b8c65437fe23", "45b0d5ca4dbe3e2b", ""], "nothing", 0, [1, 1_200, 1, 73]),
    (
        634,
        Some(635),
        V1,
        ["d85a8b64487ed326", "7647d2002e035f4b", "a8f11eb14eaf0959"],
        "h3",
        52_427,
        [6, 2_825, 5, 2_921],
    ),
    (
        645,
        Some(647),
        V1,
        ["530c5525a8e4f9fe", "a07528d72185f27e", "9597297eae672be4"],
        "h3",
        47_842,
        [25, 4_349, 33, 28_219],
    ),
    (
        705,
        Some(706),
        V1,
        ["70d12cd68054c025", "a93b9158a67713b7", "770c8229efb796d5"],
        "h3",
        49_766,
        [23, 3_393, 33, 26_748],
    ),
];

#[test]
fn every_field_in_clear_view_is_that_of_tshark() {
    let read = recorded();
    // What the client says behind a version that it does not know, tshark does not read.
    let (others, ours): (Vec<_>, Vec<_>) = read.connections.iter().partition(|c| c.first_version == "0x1a2a3a4a");
    assert_eq!((others.len(), ours.len()), (1, TSHARK.len()), "{read:#?}");
    for (c, (first, hello, version, [original, client, server], protocols, took, flows)) in ours.into_iter().zip(TSHARK)
    {
        let packets: Vec<u64> = c.packets.split(' ').map(|n| n.parse().unwrap()).collect();
        assert_eq!((packets[0], hello.is_none_or(|hello| packets.contains(&hello))), (first, true), "{c:#?}");
        assert_eq!((c.version.as_str(), c.name.as_deref()), (version, Some("www.example.com")), "{c:#?}");
        assert_eq!((c.original_id.as_str(), c.client_id.as_str()), (original, client), "{c:#?}");
        assert_eq!(c.offered_protocols, protocols, "{c:#?}");
        if hello.is_some() {
            let ours = c.retry_ns + c.hello_ns.unwrap();
            assert_eq!((ours, c.server_id.as_deref()), (Nanos(took * 1_000), Some(server)), "{c:#?}");
            assert_eq!(
                (c.outcome, c.cipher, c.idle_timeout_ns),
                (Outcome::Done, Some(0x1302), Some(Nanos(20_000_000_000)))
            );
        }
        assert_eq!([c.client_datagrams, c.client_bytes, c.server_datagrams, c.server_bytes], flows, "{c:#?}");
        let parts = [c.hello_ns, c.flight_ns, c.client_ns].into_iter().flatten().sum::<Nanos>();
        assert!(c.took_ns.is_none_or(|took| took == parts + c.retry_ns), "{c:#?}");
    }
    assert_eq!(read.totals.without_beginning + read.totals.other + read.totals.beyond_limit, 0, "{:?}", read.totals);
}

#[test]
fn each_cause_is_named() {
    let read = recorded();
    let wanted = [
        (
            Kind::Unanswered,
            287,
            "did not answer QUIC (4 hellos in 1.41 s): the client went on with TCP, connection 1, 2.06 s after",
        ),
        (Kind::Probes, 231, "answered only after the client had sent its hello again (1 time): that cost 203 ms"),
        (Kind::Retry, 60, "answered with a Retry, which cost a round trip: 51.8 ms"),
        (
            Kind::Protocol,
            630,
            "the server takes none of the application protocols that the client offers: nothing (no_application_protocol)",
        ),
        (Kind::Version, 311, "does not speak 0x1a2a3a4a, with which the client began, and named QUIC v1, QUIC v2"),
        (Kind::Limit, 368, "before it knows the client's address, and waited 49.1 ms within its flight of 9.27 KiB"),
        (Kind::Pause, 705, "nothing passed for 305 ms after the QUIC handshake"),
        (Kind::Moved, 433, "the client's port changed from 203.0.113.5:49878 to 203.0.113.5:36979"),
    ];
    for (kind, first, words) in wanted {
        let found = read.findings.iter().find(|f| f.kind == kind).unwrap_or_else(|| panic!("{kind:?}: {read:#?}"));
        let c = &read.connections[found.shown_by as usize - 1];
        assert!(found.text.contains(words) && c.packets.starts_with(&format!("{first} ")), "{kind:?}: {found:#?}");
    }
    assert_eq!(read.findings.len(), wanted.len(), "{:#?}", read.findings);
    let failed = read.connections.iter().find(|c| c.outcome == Outcome::Failed).unwrap();
    assert_eq!((failed.error.as_deref(), failed.closed_by), (Some("no_application_protocol"), Some(Side::Server)));
}

#[test]
fn the_spin_bit_shows_the_round_trip_of_the_path() {
    let read = recorded();
    let spinning: Vec<_> = read.connections.iter().filter(|c| c.spin == Spin::Spins).collect();
    assert_eq!(spinning.len(), 11, "{read:#?}");
    for c in spinning {
        let (shortest, median) = (c.spin_min_ns.unwrap(), c.spin_median_ns.unwrap());
        assert!((40_000_000..60_000_000).contains(&shortest.0) && median >= shortest, "{c:#?}");
        // Both parts of the path, of which one is next to nothing.
        let trip = c.to_server_ns.unwrap() + c.to_client_ns.unwrap();
        assert!((40_000_000..56_000_000).contains(&trip.0), "{c:#?}");
    }
}

#[test]
fn early_packets_are_counted_and_refused_only_where_it_shows() {
    let read = recorded();
    let early: Vec<_> = read.connections.iter().filter(|c| c.early_packets > 0).collect();
    assert_eq!(early.len(), 1);
    // The server went on with the session, so that it may have taken them.
    assert_eq!((early[0].early_packets, early[0].early_accepted), (1, None));
}

#[test]
fn a_name_is_joined_to_its_connection_and_to_what_it_fell_back_from() {
    let read = recorded();
    let plain = &read.transactions[0];
    assert_eq!((plain.quic, plain.connection, plain.certainty), (Some(1), 0, Certainty::Named));
    // From the question to the server's first protected packet, as tshark's times have it.
    assert_eq!((plain.name_ns, plain.took_ns), (Nanos(30_442_000), Nanos(142_051_000)), "{plain:#?}");
    assert!(plain.withheld.as_ref().is_some_and(|why| why.contains("encrypts")), "{plain:#?}");
    let by_tcp: Vec<_> = read.transactions.iter().filter(|t| t.quic.is_none()).collect();
    let [fell_back] = by_tcp[..] else { panic!("{read:#?}") };
    assert_eq!((fell_back.connection, fell_back.earlier_attempts, fell_back.quic_attempts), (1, 1, 1));
    assert_eq!((fell_back.attempts_ns, fell_back.name_ns), (Nanos(2_058_714_000), Nanos(36_197_000)), "{fell_back:#?}");
    assert_eq!(fell_back.parts().into_iter().map(|(_, took)| took).sum::<Nanos>(), fell_back.took_ns);
}

/// The first 30 packets at a client whose time-out ended before an answer could come: the path
/// takes 200 ms there and back, or the server waited 600 ms before it answered (40 ms there and
/// back). The first answer acknowledges the first hello.
#[test]
fn a_hello_that_the_first_answer_acknowledges_was_not_lost() {
    let at = |name: &str| {
        read(&std::fs::read(format!("{}/tests/captures/quic_{name}.pcap.zst", env!("CARGO_MANIFEST_DIR"))).unwrap())
    };
    let far = at("far");
    assert_eq!((far.only().probes, far.kinds()), (1, vec![]), "{far:#?}");
    assert!(far.only().server_wait_ns.is_some_and(|wait| wait < Nanos(10_000_000)), "{far:#?}");
    let slow = at("slow_hello");
    assert_eq!((slow.only().probes, slow.kinds()), (2, vec![Kind::Server]), "{slow:#?}");
    assert!(slow.findings[0].cost_ns.0.abs_diff(604_000_000) < 5_000_000, "{slow:#?}");
}
