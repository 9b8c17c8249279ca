//! What waits in a queue on the path: small writes, the end of a message, the data of a side whose
//! peer has closed. That time is the path's, and no pause of anybody.

use crate::conversation::{By, MS, SIZE, Script, US};
use diagnose::{Limit, Report};
use wire::Flags;

const PATH: u64 = 4 * MS;

fn share(report: &Report, limit: Limit) -> f64 {
    report.limits.of(limit).0 as f64 / report.duration_ns.0 as f64
}

/// The latest segment was sent at `sent` by a sender to which the ACK of `heard` had come.
fn stamp(s: &mut Script, sent: u64, heard: u64) {
    if let Some(segment) = s.segments.last_mut() {
        segment.options.timestamps = Some((Some((sent / MS) as u32 + 1), Some((heard / MS) as u32 + 1)));
    }
}

/// 300 times 50 bytes of the client, one each 2 ms and without Nagle's algorithm, seen at the
/// client; the path lets one through in `each`, and each is acknowledged.
fn small_writes_at_sender(each: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, PATH);
    let (mut free, mut acks) = (0, Vec::new());
    for _ in 0..300 {
        t += 2 * MS;
        while let Some(at) = acks.first().copied().filter(|at| *at <= t) {
            acks.remove(0);
            s.server.expects += 50;
            s.raw_ack(at, By::Server);
        }
        s.server.expects = s.server.expects.max(1);
        s.data(t, By::Client, 50);
        free = t.max(free) + each;
        acks.push(free + PATH);
    }
    s.report()
}

#[test]
fn small_writes_into_a_full_path_wait_for_it() {
    let full = small_writes_at_sender(3_600 * US);
    assert!(share(&full, Limit::PathRate) > 0.8, "{}", full.verdict);
    let idle = small_writes_at_sender(100 * US);
    assert!(share(&idle, Limit::Application) > 0.8, "{}", idle.verdict);
}

/// The same 300 writes, seen at the server.
fn small_writes_at_receiver(each: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, 10 * US);
    s.segments.clear();
    (s.client.next, s.server.next) = (0, 0);
    s.send(0, By::Client, Flags::SYN, 0);
    s.server.expects = s.client.next;
    s.send(20 * US, By::Server, Flags::SYN | Flags::ACK, 0);
    s.ack(PATH + 20 * US, By::Client);
    t += PATH;
    let (mut free, mut acked) = (0, vec![0]);
    for _ in 0..300 {
        t += 2 * MS;
        free = t.max(free) + each;
        let at = free + PATH / 2;
        s.data(at, By::Client, 50);
        // An ACK takes half of the round trip to come to the client.
        let heard = acked.iter().rev().find(|a| **a + PATH / 2 <= t).copied().unwrap_or(0);
        stamp(&mut s, t, heard);
        s.ack(at + 20 * US, By::Server);
        acked.push(at + 20 * US);
    }
    s.report()
}

#[test]
fn so_they_do_as_the_receiver_sees_it() {
    let full = small_writes_at_receiver(3_600 * US);
    assert!(share(&full, Limit::PathRate) > 0.8, "{}", full.verdict);
    let idle = small_writes_at_receiver(100 * US);
    assert!(share(&idle, Limit::PathRate) < 0.1, "{}", idle.verdict);
    assert!(share(&idle, Limit::Application) > 0.5, "{}", idle.verdict);
}

/// 30 questions of eight segments and a bit, sent at once and seen at the client; the path lets a
/// segment through in `each`, one ACK covers one or two of them, and the answer comes when the
/// server has thought about the whole.
fn long_questions(each: u64, thinks: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, PATH) + MS;
    for turn in 0..30 {
        let first = s.client.next;
        for n in 0..9 {
            s.data(t + n * 4 * US, By::Client, if n == 8 { 500 } else { SIZE as u32 });
        }
        let mut covered = 0;
        while covered < 8 {
            covered += 1 + (covered + turn) % 2;
            s.server.expects = first + covered.min(8) * SIZE;
            s.raw_ack(t + PATH + covered * each, By::Server);
        }
        t += PATH + 9 * each;
        s.server.expects = s.client.next;
        s.raw_ack(t, By::Server);
        t += thinks;
        s.data(t, By::Server, 300);
        s.client.expects = s.server.next;
        t += 20 * US;
    }
    s.report()
}

#[test]
fn an_answer_that_waits_for_the_end_of_a_long_question_is_not_thought_about() {
    let queued = long_questions(MS, 20 * US);
    assert!(share(&queued, Limit::PathRate) > 0.4, "{}", queued.verdict);
    assert!(share(&queued, Limit::Application) < 0.4, "{}", queued.verdict);
    let thought = long_questions(4 * US, 9 * MS);
    assert!(share(&thought, Limit::PathRate) < 0.1, "{}", thought.verdict);
    assert!(share(&thought, Limit::Application) > 0.6, "{}", thought.verdict);
}

/// An answer of 300 segments as the client sees it, 2 ms apart; its FIN was lost or not.
fn after_a_fin(lost: bool) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, MS);
    s.data(t, By::Client, 100);
    let asked = s.client.next;
    s.send(t + 10 * US, By::Client, Flags::FIN | Flags::ACK, 0);
    s.server.expects = if lost { asked } else { s.client.next };
    let mut heard = t;
    for n in 0..300 {
        t += 2 * MS;
        s.data(t, By::Server, SIZE as u32);
        // A server that misses the FIN keeps the echo of what came before it.
        if !lost {
            heard = t.saturating_sub(10 * MS);
        }
        stamp(&mut s, t.saturating_sub(8 * MS), heard);
        s.ack(t + 20 * US, By::Client);
        if n == 250 {
            s.server.expects = s.client.next;
        }
    }
    s.report()
}

#[test]
fn data_that_come_after_the_peers_fin_are_judged_as_before_it() {
    let queued = after_a_fin(false);
    assert!(share(&queued, Limit::PathRate) > 0.4, "{}", queued.verdict);
    let lost = after_a_fin(true);
    assert!(share(&lost, Limit::PathRate) < 0.3, "{}", lost.verdict);
}

/// 2,000 full segments and their ACKs as the client sees them, without timestamps: one each 330 µs,
/// over a round trip of 500 µs, with a pause of `pause` after every four.
fn without_stamps(pause: u64) -> Report {
    let mut s = Script::new();
    (s.client.stamps, s.server.stamps) = (false, false);
    let mut t = s.open(0, 500 * US);
    s.data(t, By::Client, 100);
    s.server.expects = s.client.next;
    t += 500 * US;
    for n in 0..2_000 {
        t += 330 * US + if n % 4 == 3 { pause } else { 0 };
        s.data(t, By::Server, 1460);
        s.ack(t + 10 * US, By::Client);
    }
    s.report()
}

#[test]
fn data_that_come_evenly_through_many_round_trips_show_no_window() {
    let window = |r: &Report| share(r, Limit::SlowStart) + share(r, Limit::CongestionWindow);
    let even = without_stamps(0);
    assert!(window(&even) < 0.1 && share(&even, Limit::Unknown) > 0.8, "{}", even.verdict);
    let paused = without_stamps(400 * US);
    assert!(even.unclear.is_some() && paused.unclear != even.unclear, "{}", paused.verdict);
}
