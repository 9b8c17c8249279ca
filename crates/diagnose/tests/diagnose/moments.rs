//! What a stretch of time is given to, in the light of the packet that ends it.

use crate::conversation::{Bulk, By, MS, SIZE, Script, US};
use diagnose::{Limit, Report};
use wire::Flags;

fn share(report: &Report, limit: Limit) -> f64 {
    report.limits.of(limit).0 as f64 / report.duration_ns.0 as f64
}

/// Small messages of the server over a round trip of 22 ms, seen at the client, which acknowledges
/// each at once: the next one, of several writes that came together meanwhile or of one as the
/// first was, comes so long after the ACK.
fn messages(after_ack: u64, writes: u32) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, 22 * MS);
    for n in 0..50 {
        s.data(t, By::Server, if n == 0 { 140 } else { 140 * writes });
        s.ack(t + 30 * US, By::Client);
        t += 30 * US + after_ack;
    }
    s.report()
}

#[test]
fn a_message_that_crossed_the_ack_had_not_waited_for_it() {
    let crossed = messages(17 * MS, 5);
    assert_eq!(share(&crossed, Limit::AckWaiting), 0.0, "{}", crossed.verdict);
    assert!(share(&crossed, Limit::Application) > 0.9, "{}", crossed.verdict);
    let waited = messages(22 * MS + 100 * US, 5);
    assert!(share(&waited, Limit::AckWaiting) > 0.9, "{}", waited.verdict);
}

#[test]
fn a_pace_that_meets_the_round_trip_waits_for_no_ack() {
    let paced = messages(22 * MS + 100 * US, 1);
    assert!(share(&paced, Limit::AckWaiting) < 0.1, "{}", paced.verdict);
    assert!(share(&paced, Limit::Application) > 0.8, "{}", paced.verdict);
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
    for after in [800 * US, 300 * US] {
        let paced = beside_the_sender(after);
        assert_eq!(share(&paced, Limit::AckWaiting), 0.0, "{}", paced.verdict);
    }
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

/// Messages of 650 bytes of the client over a round trip of 3 ms: each goes 100 µs after the ACK of
/// the one before, and the first ones beside one another where it does not wait for that.
fn after_each_ack(first_beside: bool) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, 3 * MS);
    for n in 0..100 {
        s.data(t, By::Client, 650);
        if first_beside && n < 6 {
            t += 400 * US;
            continue;
        }
        t += 3 * MS;
        s.ack(t, By::Server);
        t += 100 * US;
    }
    s.report()
}

#[test]
fn who_sends_small_segments_beside_small_ones_does_without_nagles_algorithm() {
    let paced = after_each_ack(true);
    assert_eq!(share(&paced, Limit::AckWaiting), 0.0, "{}", paced.verdict);
    assert!(share(&paced, Limit::Application) > 0.8, "{}", paced.verdict);
    let held = after_each_ack(false);
    assert!(share(&held, Limit::AckWaiting) > 0.8, "{}", held.verdict);
}

/// Full segments of the client that leave each 10 ms, seen beside it, over a round trip of 1 ms;
/// every `written`th ends what the client wrote.
fn full_segments_ending(written: u64) -> Report {
    let mut s = Script::new();
    let start = s.open(0, MS);
    for n in 1..=100 {
        let t = start + n * 10 * MS;
        let push = if n % written == 0 { Flags::PSH } else { Flags::default() };
        s.send(t, By::Client, Flags::ACK | push, SIZE as u32);
        s.ack(t + MS, By::Server);
    }
    s.report()
}

#[test]
fn a_segment_with_more_behind_it_is_followed_by_no_pause_of_its_program() {
    let in_buffer = full_segments_ending(10);
    assert!(share(&in_buffer, Limit::Application) < 0.25, "{}", in_buffer.verdict);
    let written = full_segments_ending(1);
    assert!(share(&written, Limit::Application) > 0.8, "{}", written.verdict);
}

#[test]
fn a_message_as_long_as_a_segment_is_one_of_a_dialogue() {
    let mut s = Script::new();
    let mut t = s.open(0, 28 * MS);
    for _ in 0..50 {
        s.data(t, By::Client, 1396);
        t += 31 * MS;
        s.server.expects = s.client.next;
        s.data(t, By::Server, 962);
        s.client.expects = s.server.next;
        t += 60 * US;
    }
    s.ack(t, By::Client);
    let report = s.report();
    assert!(share(&report, Limit::Application) > 0.9, "{}", report.verdict);
}

/// The client sends so many full segments at `t`, and 20 µs after their ACK, a round trip later, it
/// may go on.
fn flight(s: &mut Script, t: u64, segments: u64, rtt: u64) -> u64 {
    for n in 0..segments {
        s.data(t + n * 5 * US, By::Client, SIZE as u32);
    }
    s.ack(t + rtt, By::Server);
    t + rtt + 20 * US
}

#[test]
fn a_flight_on_one_level_has_left_slow_start() {
    // 45 segments and now and then a few less, as a program wakes up in time or late.
    let mut s = Script::new();
    let mut t = s.open(0, 3 * MS);
    for round in 0..30 {
        t = flight(&mut s, t, if round % 2 == 0 { 45 } else { 42 }, 3 * MS);
    }
    let report = s.report();
    assert!(share(&report, Limit::CongestionWindow) > 0.7, "{}", report.verdict);
}

#[test]
fn a_window_of_less_than_three_segments_is_full_with_one() {
    let mut s = Script::new();
    (s.client.scale, s.server.scale) = (Some(7), Some(0));
    let rtt = 2 * MS;
    s.send(0, By::Client, Flags::SYN, 0);
    s.server.expects = s.client.next;
    s.send(20 * US, By::Server, Flags::SYN | Flags::ACK, 0);
    let mut t = rtt + 20 * US;
    s.client.window = 40;
    s.ack(t, By::Client);
    for _ in 0..30 {
        // Of 40 · 128 bytes three segments are sent, of 19 · 128 one; 128 bytes take none.
        for _ in 0..3 {
            s.data(t, By::Server, SIZE as u32);
        }
        for (window, pause) in [(19, 0), (1, 0), (40, 50 * MS)] {
            t += rtt + pause;
            s.client.window = window;
            s.ack(t, By::Client);
            if window == 19 {
                s.data(t + 20 * US, By::Server, SIZE as u32);
            }
        }
        t += 50 * US;
    }
    s.data(t, By::Server, 100);
    s.ack(t + rtt, By::Client);
    let report = s.report();
    assert!(share(&report, Limit::ReceiveWindow) > 0.7, "{}", report.verdict);
}

#[test]
fn a_window_that_comes_meanwhile_ends_no_pause() {
    // Seen at the client, 100 ms from the server, which fills a window of twenty segments; the ACK
    // leaves room for two of them, and the client's program reads the rest 80 ms later.
    let mut s = Script::new();
    (s.client.scale, s.server.scale) = (Some(0), Some(0));
    s.client.window = 20 * SIZE as u16;
    let mut t = s.open(0, 100 * MS);
    s.data(t, By::Client, 100);
    s.server.expects = s.client.next;
    t += 100 * MS;
    let mut burst = 20;
    for _ in 0..10 {
        for _ in 0..burst {
            s.send(t, By::Server, Flags::ACK, SIZE as u32);
            t += 100 * US;
        }
        s.client.window = 2 * SIZE as u16;
        s.ack(t, By::Client);
        s.client.window = 20 * SIZE as u16;
        s.raw_ack(t + 80 * MS, By::Client);
        for _ in 0..2 {
            s.send(t + 100 * MS, By::Server, Flags::ACK | Flags::PSH, SIZE as u32);
        }
        s.client.window = 18 * SIZE as u16;
        s.ack(t + 101 * MS, By::Client);
        t += 180 * MS;
        burst = 18;
    }
    let report = s.report();
    assert!(share(&report, Limit::Application) < 0.1, "{}", report.verdict);
}

#[test]
fn what_waits_behind_two_segments_is_less_than_a_segment() {
    // The client writes three times: one goes, the second fills a segment behind it, and the third
    // is held until both are acknowledged.
    let mut s = Script::new();
    let mut t = s.open(0, 70 * MS);
    for _ in 0..20 {
        s.data(t, By::Client, 545);
        s.data(t + 20 * US, By::Client, SIZE as u32);
        t += 70 * MS;
        s.ack(t, By::Server);
        t += 20 * US;
        s.data(t, By::Client, 173);
        t += 70 * MS;
        s.ack(t, By::Server);
        t += 30 * MS;
    }
    let report = s.report();
    assert_eq!(share(&report, Limit::SlowStart), 0.0, "{}", report.verdict);
    assert!(share(&report, Limit::AckWaiting) > 0.35, "{}", report.verdict);
}

#[test]
fn a_window_that_begins_with_one_segment_is_slow_start() {
    // As stacks of before RFC 3390 do it, each ACK lets go what it acknowledged, twice.
    let mut s = Script::new();
    let mut t = s.open(0, 70 * MS);
    for segments in [1, 2, 4, 8] {
        t = flight(&mut s, t, segments, 70 * MS);
    }
    let report = s.report();
    assert!(share(&report, Limit::SlowStart) > 0.5, "{}", report.verdict);
}

/// Writes of nine segments and a half of the client over a round trip of 1 ms, seen beside it: each
/// is acknowledged bit by bit over a while, and the next one leaves 300 µs after the last of that.
fn writes(over: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, MS);
    for _ in 0..100 {
        let before = s.client.next;
        for n in 0..10 {
            s.data(t + n * 5 * US, By::Client, if n < 9 { SIZE as u32 } else { SIZE as u32 / 2 });
        }
        for quarter in 1..=4 {
            s.server.expects = before + quarter * (s.client.next - before) / 4;
            s.raw_ack(t + MS + over * (quarter - 1) / 3, By::Server);
        }
        t += MS + over + 300 * US;
    }
    s.report()
}

#[test]
fn who_lets_room_in_the_window_pass_has_nothing_to_send() {
    let paced = writes(1_200 * US);
    assert!(share(&paced, Limit::Application) > 0.8, "{}", paced.verdict);
    // What comes that soon after all of it was acknowledged may have waited for that.
    let filled = writes(60 * US);
    assert!(share(&filled, Limit::CongestionWindow) > 0.8, "{}", filled.verdict);
}

#[test]
fn a_queue_does_not_come_and_go_with_the_reader() {
    // Over a round trip of 200 µs, seen beside the client: a reader that pauses holds the ACKs of
    // two flights in three back.
    let mut s = Script::new();
    let mut t = s.open(0, 200 * US);
    for n in 0..300 {
        t = flight(&mut s, t, 14, if n % 3 == 0 { 230 * US } else { 12 * MS });
    }
    let held_back = s.report();
    assert!(share(&held_back, Limit::PathRate) < 0.1, "{}", held_back.verdict);
    assert!(share(&held_back, Limit::CongestionWindow) > 0.7, "{}", held_back.verdict);
}

/// Data that acknowledge all that the other side has sent.
fn answer(s: &mut Script, at: u64, by: By, payload: u32) {
    let (me, you) = s.sides(by);
    me.expects = you.next;
    s.data(at, by, payload);
}

/// Bursts of the client, seen at the server over a round trip of 20 ms; the application pauses for
/// half a second after each. A segment of each burst comes 5 ms after the others.
#[test]
fn who_pauses_after_packets_that_were_overtaken_has_lost_none() {
    let mut s = Script::new();
    let mut t = 10 * MS;
    s.send(t, By::Client, Flags::SYN, 0);
    s.send(t + 10 * US, By::Server, Flags::SYN | Flags::ACK, 0);
    t += 20 * MS;
    s.ack(t, By::Client);
    for _ in 0..4 {
        let mut overtaken = None;
        for n in 0..20 {
            t += 100 * US;
            if n == 10 {
                // On its way: its number and its bytes are taken, and the next come before it.
                let (client, _) = s.sides(By::Client);
                overtaken = Some((client.id, client.next));
                client.id += 1;
                client.next += SIZE;
                continue;
            }
            s.data(t, By::Client, SIZE as u32);
            s.ack(t + 10 * US, By::Server);
        }
        if let Some((id, seq)) = overtaken {
            t += 5 * MS;
            s.raw(t, By::Client, Flags::ACK, seq, SIZE as u32).network.id = Some(id);
            let (client, _) = s.sides(By::Client);
            client.id -= 1;
        }
        s.ack(t + 10 * US, By::Server);
        t += 500 * MS;
    }
    s.data(t, By::Client, 100);
    s.ack(t + 10 * US, By::Server);
    let report = s.report();
    assert!(share(&report, Limit::Application) > 0.9, "{} {:?}", report.verdict, report.limits);
}

/// A flight of ten of the client's, seen at the server over a round trip of 20 ms, of which the
/// first segment alone comes through, 600 ms after the handshake or the ACK of a question, and is
/// followed by new data. All of it was lost and the timer sends the first again, or the others are
/// lost just now.
fn one_of_a_flight(asked: bool, lost_before: bool) -> Report {
    let mut s = Script::new();
    s.send(0, By::Client, Flags::SYN, 0);
    s.server.expects = s.client.next;
    s.send(10 * US, By::Server, Flags::SYN | Flags::ACK, 0);
    let mut t = 20 * MS;
    s.ack(t, By::Client);
    if asked {
        s.data(t, By::Server, 100);
        t += 20 * MS;
        s.ack(t, By::Client);
    }
    let first = s.client.next;
    s.client.id += if lost_before { 10 } else { 0 };
    t += 600 * MS;
    for n in 0..10 {
        s.raw(t, By::Client, Flags::ACK, first + n * SIZE, SIZE as u32);
        s.server.expects = first + (n + 1) * SIZE;
        s.raw_ack(t + 10 * US, By::Server);
        if n == 0 {
            s.client.id += if lost_before { 0 } else { 9 };
            s.client.next = first + 10 * SIZE;
            s.data(t + 20 * MS, By::Client, SIZE as u32);
            s.raw_ack(t + 20 * MS + 10 * US, By::Server);
        }
        t += 20 * MS;
    }
    s.ack(t, By::Server);
    s.report()
}

#[test]
fn a_silence_after_a_flight_that_was_lost_whole_is_no_pause() {
    for asked in [false, true] {
        let lost = one_of_a_flight(asked, true);
        assert!(share(&lost, Limit::LossRecovery) > 0.7, "{asked} {} {:?}", lost.verdict, lost.limits);
        assert!(lost.idle.longest.first().is_none_or(|p| p.ns.0 < 100 * MS), "{:?}", lost.idle);
        let paused = one_of_a_flight(asked, false);
        assert!(share(&paused, Limit::Application) > 0.6, "{asked} {} {:?}", paused.verdict, paused.limits);
    }
}

/// The last ACK of a connection passes the capture and is lost behind it, time and again, so that
/// the FIN comes again when its sender's timer runs out.
#[test]
fn a_fin_that_is_repeated_after_its_ack_waited_for_what_was_lost() {
    let mut s = Script::new();
    let mut t = s.open(0, 20 * MS);
    answer(&mut s, t, By::Client, 300);
    answer(&mut s, t + MS, By::Server, 500);
    s.ack(t + 21 * MS, By::Client);
    s.send(t + 22 * MS, By::Server, Flags::FIN | Flags::ACK, 0);
    s.client.expects = s.server.next;
    s.send(t + 42 * MS, By::Client, Flags::FIN | Flags::ACK, 0);
    s.ack(t + 43 * MS, By::Server);
    let client = s.client.next - 1;
    for wait in [220, 440, 880] {
        t += wait * MS;
        s.raw(t, By::Client, Flags::FIN | Flags::ACK, client, 0);
        s.raw_ack(t + 10 * US, By::Server);
    }
    let report = s.report();
    assert!(share(&report, Limit::LossRecovery) > 0.8, "{} {:?}", report.verdict, report.limits);
}

/// A question of the client's that is lost before the capture, so that the server's program closes
/// in the end, or just a client that asks no more: the server's FIN is acknowledged, or
/// retransmitted again and again, since nothing comes through.
#[test]
fn a_silence_before_a_fin_that_nobody_acknowledges_may_be_a_loss() {
    let end = |answered: bool| {
        let mut s = Script::new();
        let mut t = s.open(0, 60 * US);
        for _ in 0..10 {
            answer(&mut s, t, By::Client, 300);
            answer(&mut s, t + 60 * US, By::Server, 500);
            t += MS;
        }
        s.ack(t, By::Client);
        t += 5_000 * MS;
        let fin = s.sides(By::Server).0.next;
        s.send(t, By::Server, Flags::FIN | Flags::ACK, 0);
        if answered {
            let (client, server) = s.sides(By::Client);
            client.expects = server.next;
            s.send(t + 20 * US, By::Client, Flags::FIN | Flags::ACK, 0);
            s.ack(t + 80 * US, By::Server);
        } else {
            for n in 0..4 {
                s.raw(t + 200 * MS * ((1 << n) - 1) + 200 * MS, By::Server, Flags::FIN | Flags::ACK, fin, 0);
            }
        }
        s.report()
    };
    let [answered, unanswered] = [end(true), end(false)];
    assert!(share(&answered, Limit::Application) > 0.9, "{}", answered.verdict);
    assert!(share(&unanswered, Limit::Unknown) > 0.5, "{} {:?}", unanswered.verdict, unanswered.limits);
}

/// A dialogue in which a question is lost behind the capture. Before the client's timer acts, the
/// server's probe brings its last answer again, and then the client's own probe brings new data.
#[test]
fn nobody_pauses_while_data_wait_that_are_retransmitted() {
    let mut s = Script::new();
    let mut t = s.open(0, 40 * MS);
    for _ in 0..10 {
        answer(&mut s, t, By::Client, 400);
        t += 41 * MS;
        answer(&mut s, t, By::Server, 100);
        t += 100 * US;
    }
    let (lost, last) = (s.sides(By::Client).0.next, s.sides(By::Server).0.next - 100);
    answer(&mut s, t, By::Client, 400);
    s.raw(t + 140 * MS, By::Server, Flags::ACK | Flags::PSH, last, 100);
    s.data(t + 290 * MS, By::Client, 1_200);
    s.raw(t + 600 * MS, By::Client, Flags::ACK | Flags::PSH, lost, 400);
    t += 641 * MS;
    answer(&mut s, t, By::Server, 100);
    let report = s.report();
    let lost = report.limits.of(Limit::LossRecovery).0 / MS;
    assert!((590..=650).contains(&lost), "{lost} ms, {} {:?}", report.verdict, report.limits);
    let pauses = report.idle.longest.iter().filter(|p| p.ns.0 > 60 * MS).count();
    assert_eq!(pauses, 0, "{:?}", report.idle);
}

/// The client's flights over a round trip of 70 ms, of which the third is repaired though nothing
/// of it was lost: so many segments in each that follows.
fn flights_after_a_repair(segments: impl Fn(u32) -> u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, 70 * MS);
    for flight_of in [10, 20] {
        t = flight(&mut s, t, flight_of, 70 * MS);
    }
    let first = s.client.next;
    for n in 0..40 {
        s.data(t + n * 5 * US, By::Client, SIZE as u32);
    }
    for n in 0..3 {
        s.raw_ack(t + 70 * MS + n * US, By::Server);
    }
    s.raw(t + 70 * MS + 10 * US, By::Client, Flags::ACK, first, SIZE as u32);
    s.ack(t + 70 * MS + 20 * US, By::Server);
    t += 70 * MS + 40 * US;
    for round in 0..5 {
        t = flight(&mut s, t, segments(round), 70 * MS);
    }
    s.report()
}

#[test]
fn slow_start_goes_on_where_a_repair_was_not_needed() {
    let doubles = flights_after_a_repair(|round| 40 << round);
    assert!(share(&doubles, Limit::SlowStart) > 0.6, "{:?}", doubles.limits);
    let grows = flights_after_a_repair(|round| 40 + u64::from(round));
    assert!(share(&grows, Limit::SlowStart) < 0.4, "{:?}", grows.limits);
    assert!(share(&grows, Limit::CongestionWindow) > 0.4, "{:?}", grows.limits);
    // No slow start makes a window three times as large in a round.
    let triples = flights_after_a_repair(|round| [40, 120, 360, 361, 362][round as usize]);
    assert!(share(&triples, Limit::SlowStart) < 0.4, "{:?}", triples.limits);
}

#[test]
fn repairs_do_not_take_the_time_of_doubts_that_follow_them() {
    // From the first repair on, packets change places all the time.
    let mut s = Script::new();
    let mut t = s.open(0, 10 * MS);
    for n in 0..200 {
        let first = s.client.next;
        for _ in 0..4 {
            s.data(t, By::Client, SIZE as u32);
        }
        for _ in 0..3 {
            s.raw_ack(t + 5 * MS, By::Server);
        }
        if n == 5 {
            s.raw(t + 5 * MS, By::Client, Flags::ACK, first, SIZE as u32);
        }
        s.server.expects = s.client.next - SIZE;
        s.raw_ack(t + 10 * MS, By::Server);
        s.raw_ack(t + 10 * MS, By::Server);
        t += 10 * MS + 10 * US;
    }
    let report = s.report();
    assert!(share(&report, Limit::LossRecovery) < 0.1, "{:?}", report.limits);
}

#[test]
fn a_full_segment_before_a_part_filled_one_waits_for_no_ack() {
    // Messages of the server at a pace, over a round trip of 45 ms, seen at the client.
    let mut s = Script::new();
    let mut t = s.open(0, 45 * MS);
    for _ in 0..40 {
        s.send(t, By::Server, Flags::ACK, SIZE as u32);
        s.data(t + 5 * US, By::Server, 1_058);
        s.ack(t + 35 * US, By::Client);
        t += 49 * MS;
    }
    let paced = s.report();
    assert_eq!(share(&paced, Limit::AckWaiting), 0.0, "{:?}", paced.limits);
    assert!(share(&paced, Limit::Application) > 0.8, "{:?}", paced.limits);
}

#[test]
fn who_waits_for_the_rest_of_a_message_makes_no_pause() {
    let closed_after = |ends: Flags| {
        let mut s = Script::new();
        let mut t = s.open(0, 45 * MS);
        for n in 0..10 {
            s.data(t, By::Client, 130);
            s.server.expects = s.client.next;
            t += 45 * MS;
            s.send(t, By::Server, Flags::ACK, SIZE as u32);
            let last = if n == 9 { ends } else { Flags::PSH };
            s.send(t + 10 * US, By::Server, Flags::ACK | last, SIZE as u32);
            s.ack(t + 20 * US, By::Client);
            t += 30 * US;
        }
        t += 5_000 * MS;
        s.send(t, By::Client, Flags::ACK | Flags::FIN, 0);
        s.server.expects = s.client.next;
        s.send(t + 45 * MS, By::Server, Flags::ACK | Flags::FIN, 0);
        s.ack(t + 45 * MS + 20 * US, By::Client);
        s.report()
    };
    let unfinished = closed_after(Flags::default());
    assert!(share(&unfinished, Limit::LossRecovery) > 0.9, "{:?}", unfinished.limits);
    let whole = closed_after(Flags::PSH);
    assert!(share(&whole, Limit::Application) > 0.9, "{:?}", whole.limits);
}

#[test]
fn a_window_with_room_for_one_segment_is_full_with_it() {
    // A receiver that never offers two segments: they are half of its largest window.
    let mut s = Script::new();
    (s.client.scale, s.server.scale) = (Some(0), Some(7));
    (s.client.mss, s.server.mss) = (8_960, 8_960);
    s.client.window = 7_930;
    let mut t = s.open(0, 90 * MS);
    s.client.window = 7_552;
    s.ack(t, By::Client);
    for _ in 0..40 {
        s.data(t, By::Server, 3_965);
        s.ack(t + 20 * US, By::Client);
        s.data(t + 40 * US, By::Server, 3_587);
        s.ack(t + 60 * US, By::Client);
        t += 90 * MS + 60 * US;
    }
    let report = s.report();
    assert!(share(&report, Limit::ReceiveWindow) > 0.8, "{:?}", report.limits);
}

#[test]
fn of_two_limits_that_are_nearly_as_large_neither_is_named() {
    // A program pauses for half of the time, and its window is waited for in the other.
    let mut s = Script::new();
    let mut t = s.open(0, 10 * MS);
    for _ in 0..20 {
        for _ in 0..20 {
            t = flight(&mut s, t, 45, 10 * MS);
        }
        s.data(t, By::Client, 100);
        s.ack(t + 10 * MS, By::Server);
        t += 210 * MS;
    }
    let report = s.report();
    assert_eq!(report.limits.largest(), Limit::Unknown, "{:?}", report.limits);
    assert!(report.verdict.limited.contains("shares are good to some 10 points"), "{}", report.verdict);
    let step = report.verdict.step.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(step.ends_with("since two limits took nearly as much)"), "{step}");
}

/// A SYN of which the capture has neither the answer nor what came at first: the next packet is in
/// the middle of the data, or answers data that are not there.
#[test]
fn a_handshake_of_which_the_rest_is_missing_has_no_duration() {
    let after_syn = |next: fn(&mut Script)| {
        let mut s = Script::new();
        s.send(0, By::Client, Flags::SYN, 0);
        next(&mut s);
        s.report()
    };
    let later =
        after_syn(|s| s.raw(400 * MS, By::Client, Flags::ACK, s.client.next + 9 * SIZE, 1_000).network.id = None);
    assert_eq!(later.limits.of(Limit::Handshake), record::Nanos(0), "{}", later.verdict);
    let acknowledged = after_syn(|s| {
        s.client.next += 500;
        s.server.expects = s.client.next;
        s.data(400 * MS, By::Server, 1_000);
    });
    assert_eq!(acknowledged.limits.of(Limit::Handshake), record::Nanos(0), "{}", acknowledged.verdict);
    let whole = after_syn(|s| {
        s.server.expects = s.client.next;
        s.send(400 * MS, By::Server, Flags::SYN | Flags::ACK, 0);
    });
    assert_eq!(whole.limits.of(Limit::Handshake), record::Nanos(400 * MS), "{}", whole.verdict);
}
