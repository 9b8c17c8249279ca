//! Claims on real captures that were read packet by packet (the table in `docs/analyze.md`) and
//! found wrong, each with what is so: on a capture of our own that shows the same, and on the
//! foreign one where it is.

use crate::files;
use diagnose::{Follower, Options, Report};
use record::Nanos;

/// The connections of a capture in `../shared/captures`.
macro_rules! read {
    ($name:literal) => {{
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures/", $name);
        tier::needs!(tier::Need::Path(path));
        reports(path)
    }};
}

fn reports(path: &str) -> Vec<Report> {
    let mut follower = Follower::new(Options::default());
    files::segments(path).iter().for_each(|s| follower.take(s));
    follower.reports().collect()
}

/// A capture of our own, with what it shows in the folder's README.
fn own(name: &str) -> Vec<Report> {
    reports(&format!("{}/../wire/tests/recorded/{name}", env!("CARGO_MANIFEST_DIR")))
}

#[test]
fn a_probe_of_a_window_that_we_closed_begins_nothing_anew() {
    let findings: Vec<_> = own("closed-window.pcap").into_iter().flat_map(|r| r.findings).collect();
    assert!(findings.iter().any(|f| f.kind.name() == "zero_window"));
    assert!(findings.iter().all(|f| f.kind.name() != "slow_start_after_idle"), "{findings:?}");
}

/// 9 and 10 are the duplicate ACKs that 7 and 8 brought about, one round trip of 400 ms later; 11
/// repairs what was lost of 6.
#[test]
fn a_duplicate_ack_one_round_trip_later_is_no_pause_of_the_server() {
    let reports = own("lost-one.pcap");
    let idle = &reports[0].idle;
    assert!(idle.longest.iter().all(|p| !(9..=11).contains(&p.to_packet)), "{idle:?}");
    assert!(idle.longest.iter().any(|p| p.to_packet == 6 && p.ns == Nanos(641_446_000)), "{idle:?}");
    // Its FIN answers the client's a round trip later, and it did not pause for that.
    assert!(idle.server_pausing_ns < Nanos(1_000_000) && idle.round_trips_ns > Nanos(400_000_000), "{idle:?}");
    // From the first duplicate ACK, 9, or what came before it on, to the ACK of all, 12.
    let recovery = reports[0].limits.of(diagnose::Limit::LossRecovery);
    assert!(recovery >= Nanos(406 * 1_000 + 50_378_000 + 400_078_000), "{recovery:?}");
}

/// The client sends its request (4) 5.5 ms after the handshake (3); the server thinks for 12.3 ms,
/// and its reset (7) ends no pause.
#[test]
fn a_server_that_resets_did_not_pause() {
    let reports = own("refused.pcap");
    let idle = &reports[0].idle;
    assert_eq!((idle.client_pausing_ns, idle.server_pausing_ns), (Nanos(5_511_000), Nanos::ZERO), "{idle:?}");
    assert_eq!(idle.server_thinking_ns, Nanos(12_277_000), "{idle:?}");
}

/// 18,432 is a probe of a window that is closed, not the first data after a pause.
#[test]
fn a_probe_of_a_closed_window_begins_nothing_anew() {
    let reports = read!("T_zwnd.dmp");
    assert!(reports[0].findings.iter().any(|f| f.kind.name() == "zero_window"));
    assert!(reports[0].findings.iter().all(|f| f.kind.name() != "slow_start_after_idle"), "{:?}", reports[0].findings);
}

/// 44 is the duplicate ACK that 42 brought about, one round trip of 411 ms later; 46 repairs what
/// was lost.
#[test]
fn an_ack_that_took_a_round_trip_is_no_pause_of_who_sent_it() {
    let reports = read!("Z_pppoe-over-qinq.pcap");
    let idle = &reports[0].idle;
    assert!(idle.longest.iter().all(|p| p.to_packet != 44), "{idle:?}");
    // 40 was lost, and what follows 43 is its recovery.
    let recovery = reports[0].limits.of(diagnose::Limit::LossRecovery);
    assert!(recovery > Nanos::from_millis(9_372 + 411), "{recovery:?}");
}

/// The client sends its request (4) 5.3 ms after the handshake (3); the server's wait before its
/// RST (7) is not known to be a pause.
#[test]
fn the_wait_for_a_reset_is_taken_from_who_sent_it() {
    let reports = read!("Z_http_get-to-ssh-server.pcap");
    let idle = &reports[0].idle;
    assert_eq!((idle.client_pausing_ns, idle.server_pausing_ns), (Nanos(5_301_000), Nanos::ZERO), "{idle:?}");
}

/// A pause that no packet ended is named by none.
#[test]
fn every_pause_that_is_named_has_the_packet_that_ended_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures/stalls.a.pcap.zst");
    let longest = reports(path)[0].idle.longest;
    assert!(longest.iter().all(|p| p.to_packet > 0), "{longest:?}");
}

/// No figure on a capture that somebody asked about is impossible: each claim lies within its
/// bounds.
#[test]
fn every_claim_on_the_captures_of_strangers_lies_within_its_bounds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/strangers");
    tier::needs!(tier::Need::Path(folder));
    let entries = |folder: &std::path::Path| std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
    let cases = entries(folder.as_ref()).filter(|case| case.is_dir());
    let captures: Vec<_> =
        cases.flat_map(|case| entries(&case)).filter(|f| f.extension().is_some_and(|e| e == "pcap")).collect();
    assert!(captures.len() >= 10, "{captures:?}");
    for capture in captures {
        let reports = reports(capture.to_str().unwrap());
        assert!(!reports.is_empty(), "{}", capture.display());
        for r in reports {
            assert_eq!((r.broken_claims, r.contradiction()), (0, None), "{} {}", capture.display(), r.number);
        }
    }
}
