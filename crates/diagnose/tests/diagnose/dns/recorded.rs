//! A capture of glibc's resolver that asks dnsmasq through a server that drops, delays, refuses and
//! truncates: each cause is named, and times are tshark's.
//!
//! `tests/captures/dns.pcap.zst` was recorded at the client: 192.0.2.53 drops the first question
//! for `lost.example.com`, answers `slow` after 2 s and `late` after 6.5 s (the client gives up
//! after two tries of 2 s), and no AAAA for `six`; 192.0.2.54 is silent, 192.0.2.55 refuses, on
//! 192.0.2.56 nothing listens.

use std::collections::BTreeMap;

use diagnose::Options;
use record::dns::DnsFindingKind as Kind;

use super::made::{Read, read};

fn recorded() -> Read {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures/dns.pcap.zst");
    read(&std::fs::read(path).unwrap(), Options::default())
}

/// What tshark 4.0.17 gives for questions with one try: `dns.response_to`, `frame.number` and
/// `dns.time` in microseconds.
const TIMES: [(u64, u64, u64); 17] = [
    (8, 10, 2_833),
    (9, 11, 1_944),
    (54, 57, 2_002_308),
    (53, 58, 2_002_507),
    (63, 65, 12_223),
    (64, 66, 1_043),
    (67, 69, 272),
    (68, 70, 373),
    (71, 73, 170),
    (72, 74, 2_746),
    (75, 77, 492),
    (76, 78, 497),
    (79, 81, 4_000),
    (80, 82, 4_183),
    (83, 85, 5_248),
    (94, 95, 496),
    (98, 99, 454),
];

#[test]
fn times_are_those_of_tshark() {
    let read = recorded();
    let ours: BTreeMap<&str, u64> = read
        .lookups
        .iter()
        .filter(|l| l.tries == 1)
        .map(|l| (l.packets.as_str(), l.took_ns.map_or(0, |took| took.0 / 1_000)))
        .collect();
    let theirs: Vec<(String, u64)> =
        TIMES.iter().map(|(asked, said, took)| (format!("{asked} {said}"), *took)).collect();
    let theirs: BTreeMap<&str, u64> = theirs.iter().map(|(packets, took)| (packets.as_str(), *took)).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn each_cause_is_named_with_its_name_and_its_server() {
    let read = recorded();
    let wanted = [
        (Kind::LateAaaa, "six.example.com", "asked for again for 10.0 s"),
        (Kind::Silent, "dead.example.com", "192.0.2.54 answered none of 2 questions"),
        (Kind::Retries, "lost.example.com", "192.0.2.53 answered 454 µs after the second try, 5.00 s after the first"),
        (Kind::Slow, "slow.example.com", "192.0.2.53 took 2.00 s to answer"),
        (Kind::TooLate, "late.example.com", "6.50 s after the first question"),
        (Kind::Search, "redis.data.svc.cluster.local", "by the fifth question"),
        (Kind::Failed, "refuse.example.com", "192.0.2.55 answered with REFUSED (all of its 2 answers)"),
        (Kind::Truncated, "big.example.com", "into the 1232 bytes that the client takes: over TCP it took"),
        (Kind::Unreachable, "192.0.2.56", "nothing listens on its port"),
    ];
    for (kind, name, words) in wanted {
        let text = &read.finding(kind).text;
        assert!(text.contains(name) && text.contains(words), "{kind:?}: {text}");
    }
    assert_eq!(read.findings.len(), wanted.len(), "{:#?}", read.findings);
    let costs: Vec<_> = read.findings.iter().map(|f| f.cost_ns).collect();
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
}
