//! Captures that hold only a part: most bytes missed, packets cut with their length lost, a start
//! in the middle, an end in mid-recovery.

use crate::bytes::{header, ipv4};
use crate::conversation::{Bulk, By, MS, SIZE, Script, US, check, has};
use diagnose::{Follower, Limit, Options, Report, Way};
use record::{Instant, Realtime};
use wire::{Flags, Frame, LinkType, Packet, Reassembly, Segment, dissect};

fn download() -> Script {
    let mut script = Script::new();
    (script.client.stamps, script.server.stamps) = (false, false);
    Bulk { segments: 1_000, lost: vec![300, 301, 700], ..Bulk::default() }.run(&mut script);
    script
}

fn report<'a>(segments: impl Iterator<Item = &'a Segment>) -> Report {
    let mut follower = Follower::new(Options::default());
    segments.for_each(|s| follower.take(s));
    let report = follower.report(1).unwrap();
    check(&report);
    report
}

#[test]
fn a_capture_that_misses_most_bytes_says_so_and_claims_no_limit() {
    let script = download();
    let data = |s: &Segment| s.payload > 1_000;
    let thinned = report(script.segments.iter().filter(|s| !data(s) || s.number % 5 == 0));
    assert!(thinned.vantage.missed_share() > 0.5, "{}", thinned.vantage.missed_share());
    assert_eq!(thinned.limits.largest(), Limit::Unknown);
    assert!(thinned.verdict.to_string().contains("of the acknowledged bytes are not in it"), "{}", thinned.verdict);
    assert!(thinned.verdict.to_string().contains("much of the connection is missing"), "{}", thinned.verdict);
    for kind in ["receive_window", "send_buffer", "congestion_window", "bufferbloat"] {
        assert!(has(&thinned, kind).is_none() && thinned.withheld.iter().any(|w| w.kind.name() == kind), "{kind}");
    }
}

/// A display filter leaves out what it does not ask for: without the ACKs, everything looks like
/// losses and pauses. A side that sends little has nothing to put its ACKs on.
#[test]
fn a_capture_without_pure_acks_was_filtered_and_claims_no_limit() {
    let script = download();
    let pure = |s: &Segment| s.payload == 0 && !s.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST);
    let filtered = report(script.segments.iter().filter(|s| !pure(s)));
    assert_eq!(filtered.limits.largest(), Limit::Unknown);
    assert!(filtered.verdict.to_string().contains("no ACK without data"), "{}", filtered.verdict);
    assert!(filtered.findings.iter().all(|f| f.saves_ns.is_none()), "{:?}", filtered.findings);
    let data = report(script.segments.iter().filter(|s| s.payload > 0));
    assert_eq!(data.limits.largest(), Limit::Unknown, "{}", data.verdict);
    assert_ne!(script.report().limits.largest(), Limit::Unknown);
}

/// A subflow is shown less than its applications do: what it is not given may go by another one.
#[test]
fn a_subflow_of_mptcp_is_not_said_to_wait_for_its_applications() {
    let windowed = |receive_window, window_limit, restart_after| Bulk {
        receive_window,
        window_limit,
        restart_after,
        rtt: 25 * MS,
        segments: 4_000,
        initial_window: 40,
        ..Bulk::default()
    };
    let cases = [
        ("receive_window", windowed(100_000, 1_000, None)),
        ("send_buffer", windowed(4_000_000, 40, None)),
        ("sender_application", windowed(4_000_000, 40, Some((1_500, 3_000 * MS)))),
    ];
    for (kind, bulk) in cases {
        let mut script = Script::new();
        bulk.run(&mut script);
        assert!(has(&script.report(), kind).is_some(), "{kind}: {:?}", script.report().findings);
        // Asked for, and not answered: it is plain TCP.
        script.segments[0].options.mptcp = Some(0);
        assert!(has(&script.report(), kind).is_some(), "{kind}");
        let from_the_middle = |report: &Report| report.vantage.from_the_middle;
        for first in [0, 10] {
            // Each segment tells where its data stand in the connection (DSS).
            let mut segments = script.segments[first..].to_vec();
            segments.iter_mut().for_each(|s| s.options.mptcp = Some(2 * u8::from(!s.flags.contains(Flags::SYN))));
            let report = report(segments.iter());
            assert_eq!(from_the_middle(&report), first > 0);
            assert!(has(&report, kind).is_none(), "{kind}: {:?}", report.findings);
            let withheld =
                report.withheld.iter().find(|w| w.kind.name() == kind && w.direction != Some(Way::ToServer)).unwrap();
            assert!(withheld.reason.contains("subflow of MPTCP"), "{withheld:?}");
            assert_eq!(report.limits.of(Limit::Application), record::Nanos::ZERO, "{:?}", report.limits);
            assert!(report.verdict.to_string().contains("MPTCP"), "{}", report.verdict);
        }
    }
}

/// The packet of a segment, from its IP header on.
fn packet(s: &Segment) -> Vec<u8> {
    let mut tcp = header(s);
    tcp.resize(tcp.len() + s.payload as usize, 0);
    let (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) = (s.source.ip(), s.destination.ip()) else {
        unreachable!()
    };
    let mut out = Vec::new();
    ipv4(s, source, destination).emit(tcp.len(), &mut out);
    [&[0; 12][..], &[8, 0], &out, &tcp].concat()
}

#[test]
fn packets_cut_short_with_their_length_lost_are_as_long_as_ip_says() {
    let script = download();
    let read = |most: usize| {
        let segments: Vec<Segment> = script
            .segments
            .iter()
            .map(|s| {
                let bytes = packet(s);
                // What was kept is all that the record speaks of.
                let kept = &bytes[..bytes.len().min(most)];
                let frame = Frame::new(s.number, s.at, LinkType::ETHERNET, kept);
                match dissect(&frame, &mut Reassembly::new()) {
                    Ok(Packet::Tcp(segment)) => segment,
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        report(segments.iter())
    };
    let (whole, cut) = (read(usize::MAX), read(120));
    assert_eq!(cut.to_client.unique_bytes, 1_000 * SIZE);
    assert_eq!(cut.to_client.unseen_bytes, 0);
    assert_eq!(cut.verdict, whole.verdict);
    let kinds = |r: &Report| r.findings.iter().map(|f| f.kind.name()).collect::<Vec<_>>();
    assert_eq!(kinds(&cut), kinds(&whole));
    assert!(has(&cut, "nagle_delayed_ack").is_none() && has(&cut, "capture_incomplete").is_none());
}

#[test]
fn a_window_of_unknown_scale_is_at_least_what_was_in_flight() {
    let script = download();
    let late = report(script.segments.iter().skip(200));
    let d = &late.to_client;
    assert!(late.vantage.from_the_middle && late.to_server.window_scale_in_use.is_none());
    assert!(late.to_server.window_scale_inferred.is_some_and(|scale| scale <= 7), "{:?}", late.to_server);
    assert!(late.to_server.max_window + SIZE >= u64::from(d.max_in_flight), "{late:?}");
    for kind in ["receive_window", "window_scaling_missing"] {
        assert!(has(&late, kind).is_none() && late.withheld.iter().any(|w| w.kind.name() == kind), "{kind}");
    }
}

#[test]
fn a_recovery_that_the_capture_does_not_see_the_end_of_is_said() {
    let mut s = Script::new();
    let mut t = s.open(0, 40 * MS);
    for _ in 0..6 {
        s.data(t, By::Server, SIZE as u32);
        s.ack(t + 40 * MS, By::Client);
        t += 41 * MS;
    }
    let from = s.server.next;
    s.data(t, By::Server, SIZE as u32);
    for wait in [300, 900, 2_100] {
        s.raw(t + wait * MS, By::Server, Flags::ACK, from, SIZE as u32);
    }
    let report = s.report();
    let loss = has(&report, "loss").unwrap();
    assert!(loss.text.contains("was not finished: nothing more came from the client"), "{}", loss.text);
    assert_eq!(report.limits.largest(), Limit::LossRecovery);
}

/// A file that was appended to itself, or two files of the same packets merged one after the other.
#[test]
fn the_same_packets_a_second_time_change_nothing() {
    let script = download();
    let once = report(script.segments.iter());
    let mut twice = script.segments.clone();
    twice.extend(script.segments.iter().copied());
    (1..).zip(&mut twice).for_each(|(number, segment)| segment.number = number);
    let twice = report(twice.iter());
    assert_eq!((twice.duration_ns, twice.limits, twice.backwards), (once.duration_ns, once.limits, 0));
    assert_eq!(twice.verdict.to_string(), once.verdict.to_string());
    let copies = twice.to_server.capture_copies + twice.to_client.capture_copies;
    assert_eq!(copies, script.segments.len() as u64);
}

/// Two interfaces, or a tap of each direction, whose clocks differ.
#[test]
fn acks_that_stand_before_their_data_show_no_order() {
    let script = download();
    let mut segments = script.segments.clone();
    let is_data = |s: &Segment| s.payload > 0;
    let later = |at: Instant<Realtime>| Instant::from_nanos(at.as_nanos() + 50 * MS);
    segments.iter_mut().filter(|s| is_data(s)).for_each(|s| s.at = later(s.at));
    segments.sort_by_key(|s| s.at);
    let late = report(segments.iter());
    assert_eq!(late.limits.largest(), Limit::Unknown, "{}", late.verdict);
    assert!(late.findings.is_empty(), "{:?}", late.findings);
    assert!(late.verdict.to_string().contains("ACKs stand before the data"), "{}", late.verdict);
}

/// Embedded stacks: each segment fills the whole window.
#[test]
fn a_window_of_one_segment_is_the_limit() {
    let mut script = Script::new();
    (script.client.scale, script.server.scale, script.client.window) = (None, None, 1_448);
    let mut at = script.open(0, 100 * MS) + 100 * MS;
    for _ in 0..20 {
        script.data(at, By::Server, 1_448);
        script.ack(at + 10 * US, By::Client);
        at += 100 * MS;
    }
    let report = script.report();
    assert_eq!(report.limits.largest(), Limit::ReceiveWindow, "{}", report.verdict);
    assert!(has(&report, "receive_window").is_some(), "{:?}", report.findings);
}

/// The last file of a rotated capture: a queue of what was sent before drains.
#[test]
fn who_has_closed_makes_no_pause_while_earlier_data_are_acknowledged() {
    let mut script = Script::new();
    let sent = 100 * 1_448;
    script.server.next = sent;
    script.raw(0, By::Server, Flags::ACK, sent - 2 * 1_448, 1_448);
    script.raw(MS, By::Server, Flags::ACK | Flags::PSH | Flags::FIN, sent - 1_448, 1_000);
    for n in 1..=98 {
        script.client.expects = n * 1_448;
        script.raw_ack(MS + n * 10 * MS, By::Client);
    }
    let report = script.report();
    assert!(report.limits.of(Limit::Application).0 < report.duration_ns.0 / 10, "{}", report.verdict);
}
