//! What a stretch of time is given to, in the light of the packet that ends it.

use crate::conversation::{Bulk, By, MS, SIZE, Script, US};
use diagnose::{Limit, Report};
use wire::Flags;

fn share(report: &Report, limit: Limit) -> f64 {
    report.limits.of(limit).0 as f64 / report.duration_ns.0 as f64
}

/// Small messages of the server over a round trip of 22 ms, seen at the client, which acknowledges
/// each at once: the next one comes so long after the ACK.
fn messages(after_ack: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, 22 * MS);
    for _ in 0..50 {
        s.data(t, By::Server, 700);
        s.ack(t + 30 * US, By::Client);
        t += 30 * US + after_ack;
    }
    s.report()
}

#[test]
fn a_message_that_crossed_the_ack_had_not_waited_for_it() {
    let crossed = messages(17 * MS);
    assert_eq!(share(&crossed, Limit::AckWaiting), 0.0, "{}", crossed.verdict);
    assert!(share(&crossed, Limit::Application) > 0.9, "{}", crossed.verdict);
    let waited = messages(22 * MS + 100 * US);
    assert!(share(&waited, Limit::AckWaiting) > 0.9, "{}", waited.verdict);
}

/// Small messages of the client over a round trip of 3 ms, seen at the client: each goes so long
/// after the ACK of the one before.
fn beside_the_sender(after_ack: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, 3 * MS);
    for _ in 0..50 {
        s.data(t, By::Client, 170);
        s.ack(t + 3 * MS, By::Server);
        t += 3 * MS + after_ack;
    }
    s.report()
}

#[test]
fn nagles_algorithm_lets_go_at_once() {
    let paced = beside_the_sender(800 * US);
    assert_eq!(share(&paced, Limit::AckWaiting), 0.0, "{}", paced.verdict);
    let held = beside_the_sender(60 * US);
    assert!(share(&held, Limit::AckWaiting) > 0.9, "{}", held.verdict);
}

/// Seen at the server, which has filled the client's window of twenty segments and then finds room
/// for so many bytes, until the client has read half a second later.
fn offers(room: u16) -> Report {
    let mut s = Script::new();
    (s.client.scale, s.server.scale) = (Some(0), Some(0));
    s.client.window = 20 * SIZE as u16;
    let rtt = 2 * MS;
    s.send(0, By::Client, Flags::SYN, 0);
    s.server.expects = s.client.next;
    s.send(20 * US, By::Server, Flags::SYN | Flags::ACK, 0);
    let mut t = rtt + 20 * US;
    s.ack(t, By::Client);
    for _ in 0..4 {
        for _ in 0..20 {
            s.data(t, By::Server, SIZE as u32);
            t += 5 * US;
        }
        t += rtt;
        s.client.window = room;
        s.ack(t, By::Client);
        t += 500 * MS;
        s.client.window = 20 * SIZE as u16;
        s.raw_ack(t, By::Client);
        t += 50 * US;
    }
    s.data(t, By::Server, 100);
    s.ack(t + rtt, By::Client);
    s.report()
}

#[test]
fn a_window_without_room_for_a_segment_is_waited_for() {
    let small = offers(500);
    assert!(share(&small, Limit::ReceiveWindow) > 0.9, "{}", small.verdict);
    let enough = offers(10 * SIZE as u16);
    assert!(share(&enough, Limit::Application) > 0.9, "{}", enough.verdict);
}

#[test]
fn a_full_window_before_a_queue_is_the_paths_rate() {
    // 44 segments fill the window; the path holds five of them, and the others wait in its queue.
    let run = |segment_time| {
        let mut s = Script::new();
        (s.client.scale, s.server.scale) = (Some(0), Some(0));
        Bulk { rtt: 5 * MS, segment_time, receive_window: 44 * SIZE, ..Bulk::default() }.run(&mut s);
        s.report()
    };
    let queued = run(MS);
    assert!(share(&queued, Limit::PathRate) > 0.8, "{}", queued.verdict);
    let idle = run(12 * US);
    assert!(share(&idle, Limit::ReceiveWindow) > 0.8, "{}", idle.verdict);
}

/// Full segments that come 2 ms apart, seen at the client, over a path of 1 ms without a queue; the
/// sender had received the ACK that passed so many milliseconds before, rounded up.
fn full_segments(aware_of: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, MS);
    for _ in 0..300 {
        t += 2 * MS;
        s.data(t, By::Server, SIZE as u32);
        let knows = (t - aware_of.min(t)) / MS;
        if let Some(data) = s.segments.last_mut() {
            data.options.timestamps = Some((Some((t / MS) as u32 + 1), Some(knows as u32 + 1)));
        }
        s.ack(t + 50 * US, By::Client);
    }
    s.report()
}

#[test]
fn what_stood_in_a_queue_is_no_pause_of_its_sender() {
    let queued = full_segments(10 * MS);
    assert!(share(&queued, Limit::PathRate) > 0.4, "{}", queued.verdict);
    assert!(share(&queued, Limit::Application) < 0.1, "{}", queued.verdict);
    let paced = full_segments(MS);
    assert!(share(&paced, Limit::PathRate) < 0.1, "{}", paced.verdict);
}
