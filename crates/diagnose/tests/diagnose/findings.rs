//! Every finding: a conversation that provokes it, and a near miss that must not.

use crate::conversation::{Bulk, By, MS, SIZE, Script, US, has};
use diagnose::{Limit, Place, Report, Side, Way};
use record::{Nanos, SeqNumber};
use wire::Flags;

fn bulk(bulk: Bulk) -> Report {
    let mut script = Script::new();
    bulk.run(&mut script);
    script.report()
}

/// Request and reply over 1 ms, then a FIN that leaves `late` after the reply, right behind its
/// ACK.
fn reply_and_fin(late: u64, fin_after_ack: u64) -> Report {
    let mut s = Script::new();
    let mut t = s.open(0, MS);
    s.data(t + 10 * US, By::Client, 4);
    s.server.expects = s.client.next;
    t += 2 * MS;
    s.data(t, By::Server, 723);
    s.ack(t + late, By::Client);
    s.send(t + late + fin_after_ack, By::Server, Flags::FIN | Flags::ACK, 0);
    s.ack(t + late + fin_after_ack + 10 * US, By::Client);
    s.report()
}

#[test]
fn nagle_and_delayed_ack() {
    let report = reply_and_fin(40 * MS, MS);
    let f = has(&report, "nagle_delayed_ack").expect("a stall");
    assert_eq!(f.packets, [5, 6, 7]);
    assert_eq!(f.direction, Some(Way::ToClient));
    assert!((39 * MS..=40 * MS).contains(&f.cost_ns.0), "{f:?}");
    // The ACKs of a capture at the receiver are its host's own time: the path may take more.
    assert!(!f.text.contains("path") && f.text.contains("after the data here"), "{}", f.text);
    assert!(report.limits.of(Limit::AckWaiting) >= Nanos(40 * MS), "{:?}", report.limits);

    // The same late ACK, but the FIN comes much later: nothing had stood waiting for the ACK.
    let later = reply_and_fin(40 * MS, 30 * MS);
    assert!(has(&later, "nagle_delayed_ack").is_none());
    assert_eq!(later.limits.of(Limit::AckWaiting), Nanos::ZERO);
    assert_eq!(later.to_server.acknowledging.delayed.samples, 1, "the ACK was late all the same");
}

#[test]
fn an_answer_after_a_delayed_ack_is_no_stall() {
    // Seen at the client. Its application is slow once: the ACK of the answer goes by itself, and
    // the next question after it.
    let run = |question: u64, next: u64| {
        let mut s = Script::new();
        let mut t = s.open(0, 20 * MS);
        for _ in 0..10 {
            s.data(t, By::Client, 100);
            t += 20 * MS;
            s.ack(t, By::Server);
            s.data(t, By::Server, 100);
            t += 100 * US;
            s.client.expects = s.server.next;
        }
        s.data(t, By::Client, 100);
        s.data(t + 20 * MS, By::Server, 100);
        t += 60 * MS;
        s.ack(t, By::Client);
        s.data(t + question, By::Client, 100);
        s.data(t + next, By::Server, 100);
        s.report()
    };
    assert!(has(&run(4 * MS, 24 * MS + 200 * US), "nagle_delayed_ack").is_none());
    // This one left before the question can have been there.
    assert!(has(&run(15 * MS, 20 * MS + 200 * US), "nagle_delayed_ack").is_some());
}

#[test]
fn a_long_path_is_no_delayed_ack() {
    let mut s = Script::new();
    // Every answer takes 40 ms because the path does; seen at the client, which sends in pieces.
    let mut t = s.open(0, 40 * MS);
    for _ in 0..20 {
        s.data(t, By::Client, 200);
        t += 40 * MS;
        s.ack(t, By::Server);
        t += 100 * US;
    }
    let report = s.report();
    assert!(has(&report, "nagle_delayed_ack").is_none(), "{:?}", report.findings);
    assert_eq!(report.to_client.acknowledging.delayed.samples, 0);
    assert_eq!(report.vantage.place, Place::NearClient);
}

#[test]
fn delayed_ack_stall_of_a_full_segment() {
    let run = |late: u64| {
        let mut s = Script::new();
        let mut t = s.open(0, MS);
        for _ in 0..5 {
            s.data(t, By::Client, SIZE as u32);
            t += MS + late;
            s.ack(t, By::Server);
            t += 50 * US;
        }
        s.report()
    };
    let stalled = run(40 * MS);
    let f = has(&stalled, "delayed_ack_stall").expect("a stall");
    assert_eq!((f.count, f.direction), (4, Some(Way::ToServer)));
    assert!(has(&run(2 * MS), "delayed_ack_stall").is_none());
}

fn unscaled(client: Option<u8>, server: Option<u8>, window: u64, segments: u64) -> Report {
    let mut s = Script::new();
    (s.client.scale, s.server.scale) = (client, server);
    Bulk { rtt: 25 * MS, receive_window: window, segments, ..Bulk::default() }.run(&mut s);
    s.report()
}

#[test]
fn window_scaling_missing_names_the_side() {
    for (client, server, culprit) in [(None, None, "the client left it out"), (Some(7), None, "the server left it out")]
    {
        let report = unscaled(client, server, 65_535, 2_000);
        let f = has(&report, "window_scaling_missing").expect("a finding");
        assert!(f.text.contains(culprit), "{}", f.text);
        // 65,535 bytes in 25 ms are 21.0 Mbit/s.
        assert!(f.text.contains("20.9 Mbit/s") || f.text.contains("21.0 Mbit/s"), "{}", f.text);
        assert!(f.worth.contains("bursts at"), "{}", f.worth);
        assert!(report.limits.of(Limit::ReceiveWindow).0 * 2 > report.duration_ns.0, "{:?}", report.limits);
        let state = report.window_scaling;
        assert_eq!(state.left_out_by, Some(if client.is_none() { Side::Client } else { Side::Server }));
        assert_eq!(state.in_use, Some(false));
    }
    // Missing too, but the transfer is over before the window mattered; and a scaled one.
    assert!(has(&unscaled(None, None, 65_535, 20), "window_scaling_missing").is_none());
    assert!(has(&unscaled(Some(7), Some(7), 65_535, 2_000), "window_scaling_missing").is_none());
}

#[test]
fn receive_window_too_small() {
    let small = unscaled(Some(7), Some(7), 100_000, 2_000);
    let f = has(&small, "receive_window").unwrap_or_else(|| panic!("{:?} {:?}", small.limits, small.to_client));
    assert!(f.text.contains("99968 bytes"), "{}", f.text);
    assert!(has(&unscaled(Some(7), Some(7), 4_000_000, 2_000), "receive_window").is_none());
}

#[test]
fn zero_window_and_a_slow_reader() {
    let run = |closed: bool| {
        let mut s = Script::new();
        s.client.window = 20;
        let mut t = s.open(0, 100 * US);
        let full = s.client.window;
        for _ in 0..10 {
            s.client.window = full;
            s.data(t, By::Server, SIZE as u32);
            s.data(t + US, By::Server, 1112);
            s.client.window = if closed { 0 } else { full };
            s.ack(t + 30 * US, By::Client);
            t += 200 * MS;
            if closed {
                s.client.window = full;
                s.ack(t, By::Client);
            }
            t += MS;
        }
        s.report()
    };
    let report = run(true);
    let f = has(&report, "zero_window").expect("a finding");
    assert_eq!((f.count, f.direction), (10, Some(Way::ToClient)));
    assert!(f.cost_ns.0 > 1_900 * MS, "{f:?}");
    assert!(has(&report, "receiver_application").is_some(), "{:?}", report.findings);
    assert_eq!(report.to_server.zero_window_packets, 10);
    let open = run(false);
    assert!(has(&open, "zero_window").is_none() && has(&open, "receiver_application").is_none());
}

#[test]
fn loss_by_fast_retransmit_and_by_timeout() {
    let report = bulk(Bulk { lost: vec![100, 104, 700], ..Bulk::default() });
    let f = has(&report, "loss").unwrap_or_else(|| panic!("{:?}", report.to_client));
    let r = report.to_client.retransmissions;
    assert_eq!(
        (r.fast, r.sack_recovery, r.timeout, report.to_client.retransmitted_packets),
        (2, 1, 0, 3),
        "{}",
        f.text
    );

    // The last segments of all: nothing follows that could bring a SACK.
    let tail = bulk(Bulk { segments: 200, lost: vec![198, 199], ..Bulk::default() });
    assert_eq!(tail.to_client.retransmissions.timeout, 2, "{:?}", tail.to_client.retransmissions);
    assert!(tail.limits.of(Limit::LossRecovery) >= Nanos(200 * MS), "{:?}", tail.limits);
    assert!(has(&bulk(Bulk::default()), "loss").is_none());
}

#[test]
fn reordering_is_distinguished_from_loss() {
    let run = |dsack: bool| {
        let mut s = Script::new();
        let t = s.open(0, 20 * MS);
        for n in 0..10 {
            s.data(t + n * 10 * US, By::Client, SIZE as u32);
        }
        let isn = s.client.isn;
        let place = |n: u64| SeqNumber(isn).add((1 + n * SIZE) as u32);
        s.server.expects = 1 + SIZE;
        for n in 0..3 {
            s.raw_ack(t + 20 * MS + n * 10 * US, By::Server);
            s.segments.last_mut().unwrap().options.sack.push(place(2), place(3 + n));
        }
        if dsack {
            s.raw(t + 20 * MS + 100 * US, By::Client, Flags::ACK, 1 + SIZE, SIZE as u32);
        }
        s.ack(t + 21 * MS, By::Server);
        if dsack {
            s.raw_ack(t + 40 * MS, By::Server);
            s.segments.last_mut().unwrap().options.sack.push(place(1), place(2));
        }
        s.data(t + 41 * MS, By::Client, 10);
        s.report()
    };
    let needless = run(true);
    assert_eq!((needless.to_server.spurious_retransmissions, needless.to_server.retransmissions.fast), (1, 1));
    assert!(has(&needless, "reordering_taken_for_loss").is_some(), "{:?}", needless.findings);
    assert!(has(&needless, "loss").is_none());
    let patient = run(false);
    assert!(has(&patient, "reordering_taken_for_loss").is_none());
    assert_eq!((patient.to_server.retransmitted_packets, patient.to_server.reordered_beyond), (0, 1));
}

#[test]
fn out_of_order_at_the_capture() {
    let mut s = Script::new();
    let t = s.open(0, 20 * MS);
    for n in 0..4 {
        s.data(t + n * 10 * US, By::Server, SIZE as u32);
    }
    let late = s.segments.len() - 2;
    s.segments.swap(late, late + 1);
    for (i, seg) in s.segments.iter_mut().enumerate() {
        seg.number = i as u64 + 1;
    }
    let (a, b) = (s.segments[late].at, s.segments[late + 1].at);
    (s.segments[late].at, s.segments[late + 1].at) = (b, a);
    s.ack(t + MS, By::Client);
    let report = s.report();
    let d = &report.to_client;
    assert_eq!(
        (d.out_of_order_packets, d.retransmitted_packets, d.unique_bytes, d.reorder_extent_bytes),
        (1, 0, 4 * SIZE, SIZE)
    );
}

#[test]
fn syn_retries() {
    let mut s = Script::new();
    s.raw(0, By::Client, Flags::SYN, 0, 0);
    s.open(1_000 * MS, MS);
    let report = s.report();
    let f = has(&report, "syn_retries").expect("a finding");
    assert_eq!((f.count, f.cost_ns), (1, Nanos(1_000 * MS)));
    assert_eq!(report.limits.of(Limit::Handshake).0 / MS, 1_001);
    let mut once = Script::new();
    once.open(0, 900 * MS);
    assert!(has(&once.report(), "syn_retries").is_none());
}

#[test]
fn bufferbloat_against_a_long_path() {
    // 1 Mbyte of queue at 12 Mbit/s.
    let bloated = bulk(Bulk { segment_time: MS, window_limit: 300, ..Bulk::default() });
    let f = has(&bloated, "bufferbloat").unwrap_or_else(|| panic!("{:?}", bloated.to_client.rtt));
    assert!(f.text.contains("r = "), "{}", f.text);
    assert_eq!(bloated.limits.largest(), Limit::PathRate, "{:?}", bloated.limits);
    assert!(has(&bulk(Bulk { rtt: 300 * MS, window_limit: 300, ..Bulk::default() }), "bufferbloat").is_none());
}

#[test]
fn a_window_of_the_sender_that_stands_still() {
    let held = bulk(Bulk { window_limit: 40, segments: 4_000, ..Bulk::default() });
    assert!(has(&held, "send_buffer").is_some(), "{:?} {:?}", held.limits, held.findings);
    let grows = bulk(Bulk { lost: vec![60, 800], segments: 4_000, rtt: 60 * MS, ..Bulk::default() });
    assert!(has(&grows, "send_buffer").is_none());
    assert!(has(&grows, "congestion_window").is_some(), "{:?} {:?}", grows.limits, grows.findings);
    assert!(has(&held, "congestion_window").is_none());
}

#[test]
fn slow_start_after_idle() {
    let report =
        bulk(Bulk { restart_after: Some((1_500, 3_000 * MS)), window_limit: 300, segments: 6_000, ..Bulk::default() });
    let f = has(&report, "slow_start_after_idle").unwrap_or_else(|| panic!("{:?}", report.findings));
    assert_eq!((f.count, f.direction), (1, Some(Way::ToClient)));
    // The same pause, but the window is as large after it as before.
    let keeps = bulk(Bulk {
        restart_after: Some((1_500, 3_000 * MS)),
        window_limit: 300,
        initial_window: 300,
        segments: 6_000,
        ..Bulk::default()
    });
    assert!(has(&keeps, "slow_start_after_idle").is_none());
    assert_eq!(keeps.to_client.idle_times, 1);
    assert!(has(&keeps, "sender_application").is_some(), "three seconds of pause: {:?}", keeps.limits);
}

#[test]
fn tiny_segments_against_a_dialogue() {
    let run = |dialogue: bool| {
        let mut s = Script::new();
        let mut t = s.open(0, MS);
        for n in 0..200 {
            s.data(t, By::Client, 30);
            t += 100 * US;
            if dialogue || n % 10 == 9 {
                t += MS;
                s.ack(t, By::Server);
            }
        }
        s.report()
    };
    assert!(has(&run(false), "tiny_segments").is_some());
    assert!(has(&run(true), "tiny_segments").is_none());
}

#[test]
fn mtu_black_hole() {
    let run = |size: u32| {
        let mut s = Script::new();
        let mut t = s.open(0, 10 * MS);
        s.data(t, By::Client, 300);
        s.ack(t + 10 * MS, By::Server);
        t += 11 * MS;
        let from = s.client.next;
        s.data(t, By::Client, size);
        for n in 0..4u64 {
            t += (220 * MS) << n;
            s.raw(t, By::Client, Flags::ACK, from, size);
        }
        s.report()
    };
    let hole = run(SIZE as u32);
    assert!(has(&hole, "mtu_black_hole").is_some(), "{:?}", hole.findings);
    // Small ones that vanish have another cause.
    assert!(has(&run(200), "mtu_black_hole").is_none());
}

#[test]
fn resets_and_their_causes() {
    let reset = |prepare: &dyn Fn(&mut Script, u64)| {
        let mut s = Script::new();
        let t = s.open(0, MS);
        prepare(&mut s, t);
        has(&s.report(), "reset").map(|f| f.text.clone())
    };
    let injected = reset(&|s, t| {
        s.data(t, By::Server, 100);
        let next = s.server.next;
        s.raw(t + MS, By::Server, Flags::RST, next, 0).network.ttl = 250;
    });
    assert!(injected.unwrap().contains("TTL (250)"));
    let idle = reset(&|s, t| {
        s.data(t, By::Server, 100);
        s.ack(t + MS, By::Client);
        let next = s.server.next;
        s.raw(t + 600_000 * MS, By::Server, Flags::RST, next, 0);
    });
    assert!(idle.unwrap().contains("of silence"));
    let closed = reset(&|s, t| {
        s.send(t, By::Server, Flags::FIN | Flags::ACK, 0);
        s.ack(t + MS, By::Client);
        s.send(t + 2 * MS, By::Client, Flags::FIN | Flags::ACK, 0);
        s.ack(t + 3 * MS, By::Server);
        let next = s.server.next;
        s.raw(t + 4 * MS, By::Server, Flags::RST, next, 0);
    });
    assert_eq!(closed, None, "after both have closed a RST harms no one");
    // The server has closed, the client acknowledges all of it, and ends with a RST.
    let after_fin = reset(&|s, t| {
        s.data(t, By::Server, 300);
        s.send(t + US, By::Server, Flags::FIN | Flags::ACK, 0);
        s.client.expects = s.server.next - 1;
        s.raw_ack(t + MS, By::Client);
        s.client.expects = s.server.next;
        let next = s.client.next;
        s.raw(t + MS + US, By::Client, Flags::RST | Flags::ACK, next, 0);
    });
    assert!(after_fin.as_ref().unwrap().contains("answered the server's FIN with a RST"), "{after_fin:?}");
    let mut refused = Script::new();
    refused.send(0, By::Client, Flags::SYN, 0);
    refused.server.expects = 1;
    refused.raw(MS, By::Server, Flags::RST | Flags::ACK, 0, 0);
    let report = refused.report();
    assert!(report.verdict.to_string().contains("refused"), "{}", report.verdict);
}

#[test]
fn path_delay_step_against_a_filling_queue() {
    let step = bulk(Bulk { extra_delay_from: Some((1_000, 15 * MS)), window_limit: 40, ..Bulk::default() });
    let f = has(&step, "path_delay_step").unwrap_or_else(|| panic!("{:?}", step.to_client.rtt));
    assert_eq!(f.packets.len(), 1);
    let queue = bulk(Bulk { segment_time: MS, window_limit: 300, ..Bulk::default() });
    assert!(has(&queue, "path_delay_step").is_none());
}

/// Radio and cable links deliver ACKs in bunches, which makes round trips longer as a queue does.
#[test]
fn acks_in_bunches_are_no_queue() {
    let sent = |ack_slot: u64, segment_time: u64, window_limit: u64, receive_window: u64| {
        bulk(Bulk {
            ack_slot: ack_slot * MS,
            segment_time,
            window_limit,
            receive_window,
            initial_window: 40,
            rtt: 20 * MS,
            ..Bulk::default()
        })
    };
    for slot in [0, 2, 5, 10, 20, 30, 45] {
        let window = sent(slot, 12 * US, 40, 4_000_000);
        assert_eq!(window.limits.largest(), Limit::CongestionWindow, "{slot} ms: {}", window.verdict);
        assert!(has(&window, "send_buffer").is_some(), "{slot} ms: {}", window.verdict);
        let receiver = sent(slot, 12 * US, 4_000, 100_000);
        assert_eq!(receiver.limits.largest(), Limit::ReceiveWindow, "{slot} ms: {}", receiver.verdict);
        // Its queue is 40 ms long: bunches that are further apart hide it.
        let path = sent(slot, 500 * US, 120, 4_000_000);
        let expected = if slot < 40 { Limit::PathRate } else { Limit::Unknown };
        assert_eq!(path.limits.largest(), expected, "{slot} ms: {}", path.verdict);
        assert!(slot < 40 || path.unclear.is_some(), "{slot} ms: {}", path.verdict);
        assert!(has(&path, "path_delay_step").is_none(), "{slot} ms: {}", path.verdict);
    }
}

#[test]
fn timestamps_missing_or_priced() {
    let mut s = Script::new();
    s.client.stamps = false;
    let mut t = s.open(0, 10 * MS);
    for _ in 0..3 {
        let from = s.client.next;
        s.data(t, By::Client, 500);
        s.raw(t + 300 * MS, By::Client, Flags::ACK, from, 500);
        s.ack(t + 310 * MS, By::Server);
        t += 320 * MS;
    }
    let report = s.report();
    let f = has(&report, "timestamps").unwrap_or_else(|| panic!("{:?}", report.to_server.retransmissions));
    assert!(f.text.contains("the client left them out"), "{}", f.text);
    let priced = bulk(Bulk { segments: 8_000, segment_time: 500 * US, window_limit: 200, ..Bulk::default() });
    assert!(has(&priced, "timestamps").is_some_and(|f| f.text.contains("1448 of 1538")), "{:?}", priced.limits);
    assert!(has(&bulk(Bulk { window_limit: 40, ..Bulk::default() }), "timestamps").is_none());
}

#[test]
fn a_sequence_space_that_wraps_without_timestamps() {
    let run = |stamps: bool| {
        let mut s = Script::new();
        s.client.stamps = stamps;
        let mut t = s.open(0, MS);
        // Frames as offload leaves them: 44 segments each.
        while s.server.next < (1 << 32) + 200_000 {
            s.data(t, By::Server, 44 * 1460);
            s.ack(t + MS, By::Client);
            t += MS + 20 * US;
        }
        s.report()
    };
    let wrapped = run(false);
    assert!(has(&wrapped, "timestamps").is_some_and(|f| f.text.contains("wrapped")), "{:?}", wrapped.findings);
    assert!(wrapped.to_client.unique_bytes > 1 << 32, "a wrap loses no byte: {:?}", wrapped.to_client);
    assert_eq!((wrapped.to_client.retransmitted_bytes, wrapped.to_client.unseen_bytes), (0, 0));
    assert!(has(&run(true), "timestamps").is_none());
}

#[test]
fn an_incomplete_capture_says_so() {
    let mut s = Script::new();
    let t = s.open(0, MS);
    s.data(t, By::Client, 1000);
    s.client.next += 5_000;
    s.ack(t + MS, By::Server);
    let report = s.report();
    assert!(has(&report, "capture_incomplete").is_some_and(|f| f.text.contains("5000 bytes")));
    assert_eq!(report.to_server.unseen_bytes, 5_000);
    assert!(has(&bulk(Bulk::default()), "capture_incomplete").is_none());
}

/// The capture with each packet a second time, `later`, after `hops` routers.
fn captured_twice(script: &Script, later: u64, hops: u8) -> Report {
    let mut twice = script.segments.clone();
    for s in &script.segments {
        let mut copy = *s;
        copy.at = record::Instant::from_nanos(s.at.as_nanos() + later);
        copy.network.ttl -= hops;
        twice.push(copy);
    }
    twice.sort_by_key(|s| s.at.as_nanos());
    (1..).zip(&mut twice).for_each(|(n, s)| s.number = n);
    Script { segments: twice, ..script.clone() }.report()
}

/// Both say the same of the connection, and every second packet of `doubled` is a copy.
fn assert_copies(doubled: &Report, plain: &Report, case: &dyn std::fmt::Debug) {
    let kinds = |r: &Report| r.findings.iter().map(|f| f.kind.name()).collect::<Vec<_>>();
    assert_eq!(kinds(doubled), kinds(plain), "{case:?}");
    for (d, p) in [(&doubled.to_server, &plain.to_server), (&doubled.to_client, &plain.to_client)] {
        assert_eq!((d.capture_copies, d.packets), (p.packets, p.packets), "{case:?}");
        assert_eq!(
            (d.retransmissions, d.retransmitted_packets),
            (p.retransmissions, p.retransmitted_packets),
            "{case:?}"
        );
        assert_eq!((d.unique_bytes, d.duplicate_acks), (p.unique_bytes, p.duplicate_acks), "{case:?}");
    }
}

/// A capture on both sides of a router: each packet twice, the second with a TTL that is one lower.
/// More packets than are remembered of every connection come between the two, and real
/// retransmissions are among them. With the clocks of two merged captures apart, the time between
/// may be longer than a round trip. The same without identifications (IPv6), and where the server
/// gives its SYN-ACK none.
#[test]
fn copies_behind_a_router_are_copies() {
    for lost in [vec![], vec![20, 21, 40]] {
        let mut script = Script::new();
        Bulk { segments: 60, lost, ..Bulk::default() }.run(&mut script);
        let mut no_ids = script.clone();
        no_ids.segments.iter_mut().for_each(|s| s.network.id = None);
        let mut bare = script.clone();
        bare.segments.iter_mut().for_each(|s| s.options.timestamps = None);
        let syn = |s: &&mut wire::Segment| s.flags.contains(Flags::SYN);
        script.segments.iter_mut().filter(syn).for_each(|s| s.network.id = Some(0));
        for (i, script) in [script, no_ids, bare].iter().enumerate() {
            let plain = script.report();
            for later in [20 * US, 400 * US, 3 * MS, 15 * MS, 60 * MS] {
                assert_copies(&captured_twice(script, later, 1), &plain, &(i, later));
            }
        }
    }
}

/// The same on a LAN, where five packets of one direction pass within less than the router takes,
/// and in a capture that begins amid a flight.
#[test]
fn many_packets_may_lie_between_a_packet_and_its_copy() {
    let mut script = Script::new();
    let mut t = script.open(0, 200 * US);
    for _ in 0..10 {
        (0..8).for_each(|n| _ = script.data(t + n * 20 * US, By::Client, 48));
        script.ack(t + 300 * US, By::Server);
        t += 40 * MS;
    }
    assert!(has(&script.report(), "loss").is_none());
    assert_copies(&captured_twice(&script, 400 * US, 1), &script.report(), &"from the SYN on");
    script.segments.drain(..5);
    assert_copies(&captured_twice(&script, 400 * US, 1), &script.report(), &"from the middle");
}

/// A mirror port shows the connection once, and in its midst each packet of a flight a second time:
/// the first of these copies says that there are such, and those of what came just before it are
/// found too, though others have come since.
#[test]
fn copies_of_packets_before_the_first_copy_are_copies() {
    let mut script = Script::new();
    let t = script.open(0, 200 * US);
    (0..8).for_each(|n| _ = script.data(t + n * 20 * US, By::Client, 48));
    script.ack(t + 300 * US, By::Server);
    let data: Vec<usize> = (0..script.segments.len()).filter(|&i| script.segments[i].payload > 0).collect();
    for (&i, later) in data[..4].iter().zip([70, 150, 140, 130]) {
        let mut copy = script.segments[i];
        copy.at = record::Instant::from_nanos(copy.at.as_nanos() + later * US);
        script.segments.push(copy);
    }
    script.segments.sort_by_key(|s| s.at.as_nanos());
    (1..).zip(&mut script.segments).for_each(|(n, s)| s.number = n);
    let report = script.report();
    assert_eq!((report.to_server.capture_copies, report.to_server.retransmitted_packets), (4, 0));
}

/// A mirror port that copies what enters and what leaves, over IPv6: nothing but the moment
/// distinguishes the two.
#[test]
fn copies_of_ipv6_at_the_same_moment_are_copies() {
    let mut script = Script::new();
    Bulk { segments: 60, lost: vec![20, 21], ..Bulk::default() }.run(&mut script);
    script.segments.iter_mut().for_each(|s| s.network.id = None);
    let (plain, doubled) = (script.report(), captured_twice(&script, 15 * US, 0));
    assert_eq!(
        (plain.to_client.retransmissions, plain.to_client.unique_bytes),
        (doubled.to_client.retransmissions, doubled.to_client.unique_bytes)
    );
    assert_eq!(doubled.to_client.spurious_retransmissions, 0);
    let data = |r: &Report| r.to_client.payload_packets;
    assert_eq!(data(&plain), data(&doubled));
}

/// Segments are retransmitted over another route, over IPv6 and without timestamps: what has
/// another hop limit is no copy for that.
#[test]
fn retransmissions_over_another_route_are_no_copies() {
    let mut script = Script::new();
    let t = script.open(0, 20 * MS);
    (0..3).for_each(|n| _ = script.data(t + n * MS, By::Client, 500));
    for again in 0..3 {
        let seq = 1 + 500 * again;
        script.raw(t + (300 + 30 * again) * MS, By::Client, Flags::ACK | Flags::PSH, seq, 500).network.ttl = 60;
        script.raw_ack(t + (320 + 30 * again) * MS, By::Server);
    }
    script.ack(t + 500 * MS, By::Server);
    for s in &mut script.segments {
        (s.network.id, s.options.timestamps) = (None, None);
    }
    let report = script.report();
    assert_eq!((report.to_server.capture_copies, report.to_server.retransmitted_packets), (0, 3));
}

#[test]
fn copies_without_an_identification_are_copies_at_the_same_moment() {
    let mut script = Script::new();
    let t = script.open(0, 20 * MS);
    script.data(t + MS, By::Client, 500);
    let mut copy = *script.segments.last().unwrap();
    script.segments.last_mut().unwrap().network.id = Some(0);
    copy.network.id = Some(0);
    copy.at = record::Instant::from_nanos(copy.at.as_nanos() + 20 * US);
    copy.number += 1;
    script.segments.push(copy);
    script.ack(t + 21 * MS, By::Server);
    let report = script.report();
    assert_eq!((report.to_server.capture_copies, report.to_server.retransmitted_packets), (1, 0));
}

/// The server still holds an older connection of the same ports: it answers the SYN with an ACK of
/// that (RFC 5961, section 4), the client resets that, and the SYN is retransmitted.
#[test]
fn a_syn_answered_by_a_challenge_is_one_connection() {
    let mut script = Script::new();
    script.send(0, By::Client, Flags::SYN, 0);
    let old = SeqNumber(2_000_000_000);
    let challenge = script.raw(20 * MS, By::Server, Flags::ACK, 0, 0);
    (challenge.seq, challenge.ack) = (SeqNumber(555_000), old);
    let reset = script.raw(20 * MS + 30 * US, By::Client, Flags::RST, 0, 0);
    reset.seq = old;
    script.raw(1_000 * MS, By::Client, Flags::SYN, 0, 0);
    script.server.expects = script.client.next;
    script.send(1_020 * MS, By::Server, Flags::SYN | Flags::ACK, 0);
    script.ack(1_020 * MS + 20 * US, By::Client);
    script.data(1_021 * MS, By::Client, 300);
    script.ack(1_041 * MS, By::Server);
    assert_eq!(script.follow().len(), 1);
    let report = script.report();
    assert!(report.handshake_seen && has(&report, "reset").is_none(), "{:?}", report.findings);
    assert!(has(&report, "syn_retries").is_some());
    assert_eq!(report.to_server.unique_bytes, 300);
}

/// From the middle on, a flight that comes up to 65,535 bytes and no further is a hint at a window
/// without scaling, and no more.
#[test]
fn a_flight_of_65_535_bytes_is_a_hint() {
    let mut script = Script::new();
    (script.client.scale, script.server.scale) = (None, None);
    Bulk { segments: 1_500, receive_window: 65_535, ..Bulk::default() }.run(&mut script);
    script.segments.drain(..400);
    let report = script.report();
    assert!(report.vantage.from_the_middle && has(&report, "window_scaling_missing").is_none());
    assert!(report.verdict.to_string().contains("65,535 bytes were in flight at most"), "{}", report.verdict);
    let mut scaled = Script::new();
    Bulk { segments: 1_500, receive_window: 400_000, ..Bulk::default() }.run(&mut scaled);
    scaled.segments.drain(..400);
    assert!(!scaled.report().verdict.to_string().contains("65,535"));
}

#[test]
fn behind_what_acknowledges_on_the_way_neither_server_nor_path_is_blamed() {
    // Seen at the client, 100 ms from a server that takes no time. A NAT near by acknowledges, or
    // the server itself does.
    let run = |acknowledged: u64, sometimes: u64| {
        let mut s = Script::new();
        let mut t = s.open(0, 100 * MS);
        for n in 0..15 {
            s.data(t, By::Client, 100);
            s.server.expects = s.client.next;
            s.ack(t + if n % 5 == 2 { sometimes } else { acknowledged }, By::Server);
            t += 100 * MS + 10 * US;
            s.data(t, By::Server, 100);
            s.client.expects = s.server.next;
            t += 10 * US;
            s.ack(t, By::Client);
            t += 10 * US;
        }
        s.report()
    };
    let near = run(200 * US, 200 * US);
    assert!(has(&near, "intermediary").is_some() && has(&near, "round_trips").is_none(), "{:?}", near.findings);
    assert_eq!(near.idle.server_thinking_ns, Nanos::ZERO);
    assert!(near.limits.of(Limit::Unknown) >= Nanos(15 * 99 * MS), "{:?}", near.limits);
    assert!(
        near.verdict.to_string().contains("not known from here") && near.verdict.to_string().contains("capture beyond"),
        "{}",
        near.verdict
    );
    assert!(
        near.withheld
            .iter()
            .any(|w| w.kind.name() == "zero_window" && w.reason.contains("acknowledges for the receiver"))
    );

    // The delay of the path itself varies: the handshake met what every fifth ACK meets.
    let varies = run(2 * MS, 80 * MS);
    assert!(has(&varies, "intermediary").is_none(), "{:?}", varies.findings);

    let far = run(100 * MS, 100 * MS);
    assert!(has(&far, "intermediary").is_none() && has(&far, "round_trips").is_some(), "{:?}", far.findings);
    assert_eq!(far.limits.of(Limit::Unknown), Nanos::ZERO);
}

#[test]
fn a_timeout_that_a_dsack_shows_to_be_needless_is_no_reordering() {
    // The capture is beside the client; each answer is acknowledged, and retransmitted before that
    // ACK has reached the server.
    let mut s = Script::new();
    (s.client.stamps, s.server.stamps) = (false, false);
    let mut t = s.open(0, 40 * MS);
    for _ in 0..12 {
        s.data(t, By::Client, 100);
        s.server.expects = s.client.next;
        let from = s.server.next;
        s.data(t + 41 * MS, By::Server, 500);
        s.ack(t + 42 * MS, By::Client);
        s.raw(t + 61 * MS, By::Server, Flags::ACK, from, 500);
        let (isn, next) = (s.server.isn, s.client.next);
        let ack = s.raw(t + 62 * MS, By::Client, Flags::ACK, next, 0);
        ack.options.sack.push(SeqNumber(isn).add(from as u32), SeqNumber(isn).add(from as u32 + 500));
        t += 120 * MS;
    }
    let report = s.report();
    assert_eq!(report.to_client.spurious_retransmissions, 12);
    assert!(has(&report, "reordering_taken_for_loss").is_none(), "{:?}", has(&report, "reordering_taken_for_loss"));
}

#[test]
fn a_repair_that_takes_long_is_no_pause_of_the_application() {
    let mut s = Script::new();
    let t = s.open(0, 300 * MS);
    let mut t = t;
    for _ in 0..6 {
        for n in 0..5 {
            s.data(t + n * US, By::Server, SIZE as u32);
        }
        s.ack(t + 300 * MS, By::Client);
        t += 300 * MS + US;
    }
    // The last of a flight is lost, and its retransmission as well; the third try is acknowledged,
    // and the next segment follows at once.
    let last = s.server.next;
    s.data(t, By::Server, SIZE as u32);
    s.raw(t + 800 * MS, By::Server, Flags::ACK, last, SIZE as u32);
    s.raw(t + 1_900 * MS, By::Server, Flags::ACK, last, SIZE as u32);
    s.ack(t + 2_600 * MS, By::Client);
    t += 2_600 * MS + US;
    for round in 1..=6 {
        for n in 0..round {
            s.data(t + n * US, By::Server, SIZE as u32);
        }
        s.ack(t + 300 * MS, By::Client);
        t += 300 * MS + US;
    }
    let report = s.report();
    assert_eq!(report.to_client.idle_times, 0);
    assert!(has(&report, "slow_start_after_idle").is_none(), "{:?}", has(&report, "slow_start_after_idle"));
}

#[test]
fn the_longest_pause_is_the_one_that_the_packets_show() {
    // The server answers, the client thinks, and the server answers again: from one answer to the
    // next is no pause of the server's.
    let mut s = Script::new();
    let mut t = s.open(0, 10 * MS);
    for think in [3_000, 5_000] {
        s.data(t, By::Client, 100);
        s.server.expects = s.client.next;
        s.data(t + 11 * MS, By::Server, 100);
        s.ack(t + 12 * MS, By::Client);
        t += think * MS;
    }
    s.data(t, By::Client, 100);
    let report = s.report();
    let pause = report.idle.longest.first().unwrap().ns;
    assert!(has(&report, "sender_application").unwrap().text.contains(&pause.to_string()), "{pause}: {report:?}");
}

#[test]
fn a_probe_of_new_data_is_no_pause_of_the_application() {
    let mut s = Script::new();
    let mut t = s.open(0, 20 * MS);
    for round in 0..40 {
        (0..4).for_each(|n| _ = s.data(t + n * US, By::Client, SIZE as u32));
        if round == 30 {
            // No ACK comes for 120 ms, and a probe goes out.
            s.data(t + 60 * MS, By::Client, SIZE as u32);
            t += 100 * MS;
        }
        s.ack(t + 20 * MS, By::Server);
        t += 20 * MS + 100 * US;
    }
    let report = s.report();
    assert!(report.idle.longest.iter().all(|p| p.ns.0 < MS), "{:?}", report.idle);
    assert!(report.limits.of(Limit::Unknown).0 >= 30 * MS || has(&report, "path_stalls").is_some(), "{report:?}");
}

#[test]
fn a_syn_that_was_answered_came_through() {
    let mut s = Script::new();
    s.send(0, By::Client, Flags::SYN, 0);
    s.server.expects = 1;
    s.send(MS, By::Server, Flags::SYN | Flags::ACK, 0);
    s.raw(3_000 * MS, By::Client, Flags::SYN, 0, 0);
    s.raw(3_001 * MS, By::Server, Flags::SYN | Flags::ACK, 0, 0);
    s.ack(3_040 * MS, By::Client);
    let report = s.report();
    let f =
        report.findings.iter().find(|f| f.kind.name() == "syn_retries" && f.direction == Some(Way::ToServer)).unwrap();
    assert_eq!((f.cost_ns, &f.packets[..]), (Nanos(3_000 * MS), &[1, 3][..]));
    assert!(f.text.contains("although it had been answered"), "{}", f.text);
    assert!(f.worth.contains("loses the SYN-ACK"), "{}", f.worth);
}

#[test]
fn a_retransmitted_syn_ack_names_its_own_first_packet() {
    let mut s = Script::new();
    s.send(0, By::Client, Flags::SYN, 0);
    s.server.expects = 1;
    s.send(MS, By::Server, Flags::SYN | Flags::ACK, 0);
    s.raw(1_001 * MS, By::Server, Flags::SYN | Flags::ACK, 0, 0);
    s.ack(1_040 * MS, By::Client);
    let f = has(&s.report(), "syn_retries").cloned().unwrap();
    assert_eq!((f.direction, &f.packets[..], f.cost_ns), (Some(Way::ToClient), &[2, 3][..], Nanos(1_000 * MS)));
}

/// Seen at the server: the SYN is sent three times over 214 ms, answered at once each time, and
/// then the client acknowledges each of the three answers. None was lost; a radio link held them
/// up.
#[test]
fn syn_acks_that_were_all_acknowledged_were_not_lost() {
    let run = |acks: u64| {
        let mut s = Script::new();
        s.send(0, By::Client, Flags::SYN, 0);
        s.server.expects = s.client.next;
        s.send(50 * US, By::Server, Flags::SYN | Flags::ACK, 0);
        for again in [112 * MS, 213 * MS] {
            s.raw(again, By::Client, Flags::SYN, 0, 0);
            s.raw(again + 50 * US, By::Server, Flags::SYN | Flags::ACK, 0, 0);
        }
        s.client.expects = s.server.next;
        (0..acks).for_each(|n| _ = s.raw_ack(214 * MS + n * 20 * US, By::Client));
        s.data(220 * MS, By::Client, 300);
        s.ack(221 * MS, By::Server);
        s.report()
    };
    let of = |r: &Report| {
        r.findings.iter().filter(|f| f.kind.name() == "syn_retries").map(|f| f.worth.clone()).collect::<Vec<_>>()
    };
    let held_up = of(&run(3));
    assert!(held_up.len() == 2 && held_up.iter().all(|w| w.contains("acknowledged all 3")), "{held_up:?}");
    let lost = of(&run(1));
    assert!(lost.len() == 2 && lost.iter().all(|w| w.contains("loses")), "{lost:?}");
}
