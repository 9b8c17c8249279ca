//! Single packets that the way to the capture holds up: a radio link that repeats or collects
//! frames, a busy machine. What left in time is nobody's delay, whatever kind of clock the
//! timestamps have; and where they do not show it, nothing is claimed.

use crate::conversation;
use crate::conversation::{By, MS, SIZE, Script, US, has};
use crate::files;
use diagnose::{Limit, Report, Side};
use record::Nanos;
use wire::Flags;

/// Ticks: of Linux today, of most systems, and of kernels that count their own.
const TICKS: [u64; 4] = [US, MS, 4 * MS, 10 * MS];
const PATH: u64 = 20 * MS;

/// Where an ACK is late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Receiver,
    Path,
}

/// The last segment left `earlier` than it came, by a clock with this tick; none for 0.
fn stamp(s: &mut Script, tick: u64, earlier: u64) {
    let segment = s.segments.last_mut().unwrap();
    let at = segment.at.as_nanos() - earlier;
    segment.options.timestamps = (tick > 0).then(|| (Some((at / tick) as u32), None));
}

/// 60 times, seen at the client: 100 bytes, their ACK a path later, and 50 bytes that leave right
/// behind it; the answer to them. `late` says by how much the ACK of each turn is late.
fn two_writes(tick: u64, path: u64, at: At, late: impl Fn(u64) -> u64) -> Report {
    let mut s = Script::new();
    let way_back = path / 2;
    let mut t = s.open(0, path);
    for n in 0..60 {
        s.data(t, By::Client, 100);
        stamp(&mut s, tick, 0);
        t += path + late(n);
        s.ack(t, By::Server);
        stamp(&mut s, tick, way_back + if at == At::Path { late(n) } else { 0 });
        t += 50 * US;
        s.data(t, By::Client, 50);
        stamp(&mut s, tick, 0);
        t += path;
        s.server.expects = s.client.next;
        s.data(t, By::Server, 30);
        stamp(&mut s, tick, way_back);
        s.client.expects = s.server.next;
        t += 3_700 * US;
    }
    s.report()
}

fn claims(report: &Report) -> Vec<&str> {
    let about_acks = |kind: &&str| ["nagle_delayed_ack", "delayed_ack_stall"].contains(kind);
    report.findings.iter().map(|f| f.kind.name()).filter(about_acks).collect()
}

fn withheld(report: &Report) -> bool {
    report
        .withheld
        .iter()
        .any(|w| w.kind.name() == "nagle_delayed_ack" && w.reason.starts_with("away from the receiver"))
}

#[test]
fn an_ack_that_left_in_time_is_no_delayed_one() {
    for tick in TICKS {
        for late in [11_200 * US, 25 * MS, 40 * MS, 200 * MS] {
            let report = two_writes(tick, PATH, At::Path, |n| if n == 40 { late } else { 0 });
            let delayed = report.to_client.acknowledging.delayed.samples;
            assert!(claims(&report).is_empty(), "{tick} {late}: {:?}", report.findings);
            // A clock of 10 ms a tick does not decide about 11.2 ms.
            assert!(delayed == 0 && !withheld(&report) || late < 4 * tick && withheld(&report), "{tick} {late}");
            // Every ACK so late is no timer either.
            let always = two_writes(tick, PATH, At::Path, |n| if n % 3 == 2 { late } else { 0 });
            assert!(claims(&always).is_empty() || late < 4 * tick, "{tick} {late}: {:?}", always.findings);
        }
    }
}

#[test]
fn a_receiver_with_a_timer_is_named_by_every_clock_and_without() {
    for tick in TICKS.into_iter().chain([0]) {
        for late in [40 * MS, 200 * MS] {
            let report = two_writes(tick, PATH, At::Receiver, |n| if n > 10 { late + n % 5 * MS } else { 0 });
            let stall = has(&report, "nagle_delayed_ack").expect("a timer");
            assert_eq!(stall.count, 49, "{tick} {late}");
            let each = stall.cost_ns.0 / stall.count;
            assert!((late..late + 5 * MS).contains(&each), "{tick} {late}: {each}");
        }
    }
}

#[test]
fn away_from_the_receiver_a_single_late_ack_is_withheld_and_near_it_named() {
    for tick in TICKS.into_iter().chain([0]) {
        for late in [11_200 * US, 40 * MS] {
            // The way there may have held up what is acknowledged.
            let far = two_writes(tick, PATH, At::Receiver, |n| if n == 40 { late } else { 0 });
            assert!(claims(&far).is_empty() && withheld(&far), "{tick} {late}: {:?}", far.findings);
            assert!(far.limits.of(Limit::AckWaiting) >= Nanos(late), "{:?}", far.limits);
            let near = two_writes(tick, 300 * US, At::Receiver, |n| if n == 40 { late } else { 0 });
            assert!(!claims(&near).is_empty(), "{tick} {late}");
        }
    }
}

#[test]
fn jitter_is_no_timer() {
    // Delays of 0 to 32 ms and a few of more, by a linear congruential generator.
    for seed in 1..20u64 {
        let late = |n: u64| {
            let x = (n + seed * 101).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 40) % 32 * MS + if x >> 33 & 7 == 0 { 30 * MS } else { 0 }
        };
        for tick in TICKS.into_iter().chain([0]) {
            for at in [At::Path, At::Receiver] {
                let report = two_writes(tick, PATH, at, late);
                assert!(claims(&report).is_empty(), "{seed} {tick}: {:?}", report.findings);
            }
        }
    }
}

#[test]
fn what_the_path_holds_up_is_no_thinking_and_no_pause() {
    // Questions and answers seen at the client; one answer is under way 25 ms longer.
    let run = |tick: u64, thought: u64, held_up: u64| {
        let mut s = Script::new();
        let mut t = s.open(0, PATH);
        for n in 0..40 {
            s.data(t, By::Client, 100);
            stamp(&mut s, tick, 0);
            let (thought, held_up) = if n == 30 { (thought, held_up) } else { (0, 0) };
            t += PATH + thought + held_up;
            s.server.expects = s.client.next;
            s.data(t, By::Server, 30);
            stamp(&mut s, tick, PATH / 2 + held_up);
            s.client.expects = s.server.next;
            t += 370 * US;
        }
        s.report().idle.server_thinking_ns.0
    };
    for tick in [US, MS, 4 * MS] {
        assert!(run(tick, 25 * MS, 0) >= 25 * MS, "{tick}");
        assert!(run(tick, 0, 25 * MS) <= 2 * tick + MS, "{tick}: {}", run(tick, 0, 25 * MS));
        assert!((100 * MS..=101 * MS + 2 * tick).contains(&run(tick, 100 * MS, 25 * MS)), "{tick}");
    }
}

#[test]
fn a_closed_window_is_not_closed_for_longer_because_its_opening_was_held_up() {
    let run = |held_up: u64| {
        let mut s = Script::new();
        let mut t = s.open(0, PATH);
        for n in 0..40 {
            s.data(t, By::Client, SIZE as u32);
            stamp(&mut s, MS, 0);
            t += PATH;
            s.server.window = if n == 30 { 0 } else { 65_535 };
            s.ack(t, By::Server);
            stamp(&mut s, MS, PATH / 2);
            if n == 30 {
                t += 15 * MS + held_up;
                s.server.window = 65_535;
                s.raw_ack(t, By::Server);
                stamp(&mut s, MS, PATH / 2 + held_up);
            }
            t += 3_300 * US;
        }
        has(&s.report(), "zero_window").expect("a closed window").cost_ns.0
    };
    assert_eq!(run(0), 15 * MS);
    assert!((15 * MS..=18 * MS).contains(&run(30 * MS)), "{}", run(30 * MS));
}

#[test]
fn in_an_upload_the_server_is_not_asked() {
    // Each piece is acknowledged late and in two: the receiver's window follows when its
    // application has read.
    let mut s = Script::new();
    let mut t = s.open(0, PATH);
    for _ in 0..20 {
        s.data(t, By::Client, 900);
        t += PATH + 45 * MS;
        s.ack(t, By::Server);
        s.server.window -= 10;
        t += 30 * MS;
        s.raw_ack(t, By::Server);
        t += 100 * MS;
    }
    s.send(t, By::Client, Flags::FIN | Flags::ACK, 0);
    s.server.expects = s.client.next;
    s.send(t + PATH, By::Server, Flags::FIN | Flags::ACK, 0);
    s.ack(t + PATH + US, By::Client);
    let idle = s.report().idle;
    assert_eq!(idle.server_thinking_ns, Nanos::ZERO, "{idle:?}");
    assert!(idle.client_pausing_ns > Nanos(20 * 130 * MS), "{idle:?}");
    assert!(idle.longest.iter().all(|p| p.who == Side::Client), "{idle:?}");
}

#[test]
fn a_second_tap_behind_a_router_repeats_no_syn() {
    // Every packet again 400 µs later with a TTL one lower; identifications are 0, as many hosts
    // leave them.
    let mut s = Script::new();
    let mut t = s.open(0, PATH);
    for _ in 0..10 {
        s.data(t, By::Client, 100);
        t += PATH;
        s.ack(t, By::Server);
        s.data(t + US, By::Server, 200);
        s.ack(t + 30 * US, By::Client);
        t += 3 * MS;
    }
    let mut all = Vec::new();
    for mut first in s.segments.clone() {
        first.network.id = Some(0);
        let mut second = first;
        second.network.ttl -= 1;
        second.at = record::Instant::from_nanos(first.at.as_nanos() + 400 * US);
        all.extend([first, second]);
    }
    all.sort_by_key(|s| s.at.as_nanos());
    (1..).zip(&mut all).for_each(|(n, s)| s.number = n);
    s.segments = all;
    let report = s.report();
    assert!(report.findings.iter().all(|f| !["syn_retries", "loss"].contains(&f.kind.name())), "{:?}", report.findings);
    assert_eq!((report.to_server.retransmitted_packets, report.to_client.retransmitted_packets), (0, 0));
}

/// Set forward once, in the middle of a transfer: with timestamps that shows, and without them the
/// finding says that nothing shows it.
#[test]
fn a_clock_that_is_set_forward_makes_no_stall_and_no_pause() {
    let run = |stamps: bool, step: u64| {
        let mut s = Script::new();
        (s.client.stamps, s.server.stamps) = (stamps, stamps);
        conversation::Bulk { rtt: PATH, segment_time: 200 * US, window_limit: 60, ..Default::default() }.run(&mut s);
        let from = s.segments.len() * 2 / 3;
        for segment in &mut s.segments[from..] {
            segment.at = record::Instant::from_nanos(segment.at.as_nanos() + step);
        }
        s.report()
    };
    for step in [60 * MS, 300 * MS] {
        let stepped = run(true, step);
        let claims = ["path_stalls", "nagle_delayed_ack", "delayed_ack_stall"];
        assert!(stepped.findings.iter().all(|f| !claims.contains(&f.kind.name())), "{:?}", stepped.findings);
        assert!(stepped.withheld.iter().any(|w| w.kind.name() == "path_stalls" && w.reason.contains("set forward")));
        assert!(stepped.idle.longest.iter().all(|p| p.ns.0 < step / 2), "{:?}", stepped.idle);
        let unstamped = run(false, step);
        let stalls = unstamped.findings.iter().find(|f| f.kind.name() == "path_stalls");
        assert!(stalls.is_none_or(|f| f.text.contains("clock was set forward")), "{:?}", unstamped.findings);
    }
    assert!(run(true, 0).withheld.iter().all(|w| !w.reason.contains("clock")));
}

/// The same in recordings of causes that are no standstill, at four places: also where the hosts'
/// clocks were not known yet.
#[test]
fn a_clock_that_is_set_forward_makes_no_stall_in_recordings() {
    for name in
        ["send_buffer.a", "send_buffer.b", "client_thinks.a", "idle_restart.b", "outage.a", "duplicates.b", "jitter.a"]
    {
        let path = format!("{}/tests/captures/{name}.pcap.zst", env!("CARGO_MANIFEST_DIR"));
        let segments = files::segments(&path);
        for (tenths, step) in [(3, 200), (5, 60), (5, 300), (8, 120)] {
            let mut follower = diagnose::Follower::new(diagnose::Options::default());
            for (n, segment) in segments.iter().enumerate() {
                let mut segment = *segment;
                if n >= segments.len() * tenths / 10 {
                    segment.at = record::Instant::from_nanos(segment.at.as_nanos() + step * MS);
                }
                follower.take(&segment);
            }
            for report in follower.reports() {
                let stalls = report.findings.iter().find(|f| f.kind.name() == "path_stalls");
                assert!(stalls.is_none(), "{name}, {step} ms at {tenths} tenths: {stalls:?}");
            }
        }
    }
}

#[test]
fn a_clock_that_steps_makes_no_stall() {
    let run = |steps: bool| {
        let mut s = Script::new();
        conversation::Bulk { rtt: PATH, segment_time: 200 * US, window_limit: 60, ..Default::default() }.run(&mut s);
        for (n, segment) in s.segments.iter_mut().enumerate() {
            let on = if steps && n / 150 % 2 == 1 { 300 * MS } else { 0 };
            segment.at = record::Instant::from_nanos(segment.at.as_nanos() + on);
        }
        s.report()
    };
    let stepped = run(true);
    let claims = ["path_stalls", "nagle_delayed_ack", "delayed_ack_stall"];
    assert!(stepped.findings.iter().all(|f| !claims.contains(&f.kind.name())), "{:?}", stepped.findings);
    assert!(stepped.withheld.iter().any(|w| w.kind.name() == "path_stalls" && w.reason.contains("clock")));
    assert!(run(false).withheld.iter().all(|w| !w.reason.contains("clock")));
}

/// 20 answers of three segments, seen at the client, of which the last comes `late` after the
/// others; its sender has sent `skipped` packets before it that the client has not, and where
/// `owed` it had not acknowledged the question before.
fn late_ends(late: u64, skipped: u16, owed: bool) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, PATH);
    for _ in 0..20 {
        s.data(t, By::Client, 100);
        t += PATH;
        s.server.expects = if owed { s.server.expects } else { s.client.next };
        for _ in 0..2 {
            s.data(t, By::Server, SIZE as u32);
            t += 100 * US;
            s.ack(t, By::Client);
        }
        t += late;
        s.server.id += skipped;
        s.server.expects = s.client.next;
        s.data(t, By::Server, 400);
        s.ack(t + 20 * US, By::Client);
        t += 5 * MS;
    }
    s.report()
}

#[test]
fn what_was_lost_before_the_receiver_is_no_pause_of_its_sender() {
    let lost = late_ends(220 * MS, 1, false);
    assert!(lost.limits.of(Limit::LossRecovery) >= Nanos(18 * 200 * MS), "{:?}", lost.limits);
    let found = has(&lost, "loss").expect("losses before the capture");
    assert!((18..=20).contains(&found.count) && found.cost_ns >= Nanos(18 * 200 * MS), "{found:?}");
    // Twice the timer is not enough for a second; nor did the timer act three times for so long.
    assert!(late_ends(640 * MS, 2, false).limits.of(Limit::LossRecovery) >= Nanos(18 * 600 * MS));
    let longer = late_ends(640 * MS, 1, false);
    assert_eq!(longer.limits.of(Limit::LossRecovery), Nanos::ZERO);
    assert!(longer.limits.of(Limit::Unknown) >= Nanos(18 * 600 * MS), "{:?}", longer.limits);
    // What is missing may have been the ACK that was owed.
    assert_eq!(late_ends(220 * MS, 1, true).limits.of(Limit::LossRecovery), Nanos::ZERO);
    let paused = late_ends(220 * MS, 0, false);
    assert_eq!(paused.limits.of(Limit::LossRecovery), Nanos::ZERO);
    assert!(paused.limits.of(Limit::Application) >= Nanos(20 * 200 * MS), "{:?}", paused.limits);
}

/// Ten questions, each sent at once when all of the answer before is there, seen at the server: a
/// burst of 20 segments that the path lets through at one in `each`.
fn bursts(each: u64, thinks: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, PATH) + PATH;
    for _ in 0..10 {
        s.data(t, By::Client, 100);
        s.server.expects = s.client.next;
        for n in 0..20 {
            s.data(t + 50 * US + n * 4 * US, By::Server, if n == 19 { 700 } else { SIZE as u32 });
        }
        for n in 1..10 {
            s.client.expects = s.server.next - 700 - (19 - 2 * n) * SIZE;
            s.raw_ack(t + PATH + 2 * n * each, By::Client);
        }
        t += PATH + 20 * each;
        s.client.expects = s.server.next;
        if thinks > 0 {
            s.raw_ack(t, By::Client);
        }
        t += thinks;
    }
    s.report()
}

#[test]
fn a_question_that_waits_for_the_end_of_an_answer_is_no_pause() {
    let queued = bursts(2 * MS, 0);
    assert!(queued.limits.of(Limit::PathRate) >= Nanos(8 * 38 * MS), "{:?}", queued.limits);
    assert!(queued.limits.of(Limit::Application) <= Nanos(12 * PATH), "{:?}", queued.limits);
    let at_once = bursts(4 * US, 40 * MS);
    assert!(at_once.limits.of(Limit::PathRate) < Nanos(MS), "{:?}", at_once.limits);
}

/// A dialogue of answers that come at once, but for some that come `late` after `skipped` packets
/// that the client has not, on their question's ACK, too.
fn late_answers(late: u64, skipped: u16) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, PATH);
    for n in 0..100 {
        s.data(t, By::Client, 100);
        let is_late = n % 10 == 9;
        t += PATH + if is_late { late } else { 0 };
        s.server.id += if is_late { skipped } else { 0 };
        s.server.expects = s.client.next;
        s.data(t, By::Server, 400);
        t += 20 * US;
        s.ack(t, By::Client);
    }
    s.report()
}

#[test]
fn an_answer_that_the_timer_repeated_was_lost_where_others_come_at_once() {
    let lost = late_answers(220 * MS, 1);
    assert!(lost.limits.of(Limit::LossRecovery) >= Nanos(9 * 200 * MS), "{:?}", lost.limits);
    assert!(has(&lost, "loss").is_some(), "{:?}", lost.findings);
    for (late, skipped) in [(220 * MS, 0), (120 * MS, 1), (600 * MS, 1)] {
        let thought = late_answers(late, skipped);
        assert_eq!(thought.limits.of(Limit::LossRecovery), Nanos::ZERO, "{late} {skipped}");
    }
}

/// 30 times, seen at the client: it fills the receive window, the server acknowledges the first two
/// segments at once, a timer sends the last one anew, and `late` after that everything is
/// acknowledged.
fn windows_full(late: u64) -> Report {
    const WINDOW: u32 = 14;
    let mut s = Script::new();
    s.client.stamps = false;
    let mut t = s.open(0, 200 * US) + MS;
    for _ in 0..30 {
        s.server.window = 160;
        let first = s.client.next;
        for _ in 0..WINDOW {
            s.data(t, By::Client, 1460);
        }
        s.server.expects = first + 2 * 1460;
        s.server.window = 137;
        s.raw_ack(t + 300 * US, By::Server);
        let last = s.client.next - 1460;
        s.raw(t + 8 * MS, By::Client, Flags::ACK | Flags::PSH, last, 1460);
        s.server.window = 160;
        s.ack(t + 8 * MS + late, By::Server);
        t += 8 * MS + late + 50 * US;
    }
    s.report()
}

#[test]
fn what_a_full_receiver_does_not_acknowledge_is_not_lost() {
    // The program reads, and the window opens, at its own time.
    let report = windows_full(16 * MS);
    assert_eq!(report.limits.largest(), Limit::ReceiveWindow, "{}", report.verdict);
    // The retransmission brought the ACK about.
    let report = windows_full(250 * US);
    assert_eq!(report.limits.largest(), Limit::LossRecovery, "{}", report.verdict);
    // No ACK is held back for so long.
    let report = windows_full(300 * MS);
    assert_ne!(report.limits.largest(), Limit::ReceiveWindow, "{}", report.verdict);
}

#[test]
fn messages_of_several_segments_wait_for_no_ack() {
    let mut s = Script::new();
    let mut t = s.open(0, 600 * US) + MS;
    for _ in 0..200 {
        for payload in [1448, 1448, 1448, 133] {
            s.data(t, By::Client, payload);
        }
        s.ack(t + 600 * US, By::Server);
        t += MS;
    }
    let report = s.report();
    assert_eq!(report.limits.largest(), Limit::Application, "{}", report.verdict);
}
