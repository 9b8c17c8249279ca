//! One connection captured at both its ends: what was lost, delayed and changed between them.

use crate::files;
use diagnose::{Follower, Keep, Options, Report, compare};

fn report(name: &str, end: char) -> Report {
    let path = format!("{}/tests/captures/{name}.{end}.pcap.zst", env!("CARGO_MANIFEST_DIR"));
    let mut follower = Follower::new(Options { keep: Keep::First(8, 200_000), ..Options::default() });
    files::segments(&path).iter().for_each(|s| follower.take(s));
    follower.reports().max_by_key(|r| r.to_server.unique_bytes + r.to_client.unique_bytes).unwrap()
}

#[test]
fn what_the_lab_lost_is_lost_between() {
    let (a, b) = (report("loss_1_percent", 'a'), report("loss_1_percent", 'b'));
    let between = compare(&a, &b).between.expect("one connection");
    assert!(between.first_near_client);
    // The path takes 20 ms each way.
    let rtt = between.round_trip_ns.unwrap().0;
    assert!((39_500_000..44_000_000).contains(&rtt), "{rtt}");
    let [there, back] = &between.crossings;
    // What did not arrive was retransmitted, and nothing else was.
    let retransmitted: u64 = a.to_server.retransmitted_bytes;
    assert!(there.lost > 0 && there.lost_bytes.abs_diff(retransmitted) <= 3 * 1_448, "{there:?} {retransmitted}");
    assert_eq!((back.lost, there.unsent, back.unsent), (0, 0, 0));
    assert!(there.changed.is_empty(), "{:?}", there.changed);
    // The other way round it is the same.
    let turned = compare(&b, &a).between.unwrap();
    assert!(!turned.first_near_client);
    assert_eq!(turned.crossings[0].lost, there.lost);
}

#[test]
fn a_queue_delays_between() {
    let between = compare(&report("bufferbloat", 'a'), &report("bufferbloat", 'b')).between.unwrap();
    let there = &between.crossings[0];
    assert_eq!(there.lost, 0);
    assert!(there.delay_max_ns.unwrap().0 > 100_000_000, "{there:?}");
}

#[test]
fn marks_are_set_between() {
    let between = compare(&report("ecn_queue", 'a'), &report("ecn_queue", 'b')).between.unwrap();
    assert!(between.crossings[0].changed["ECN mark"] > 0);
}

#[test]
fn two_connections_are_not_one() {
    assert!(compare(&report("nagle", 'a'), &report("reset", 'a')).between.is_none());
}
