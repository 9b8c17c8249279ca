//! The conditions of a connection: what its programs wrote and waited for, and its path and hosts.

use diagnose::conditions::{Basis, Conditions};
use record::Nanos;
use record::conversation::Way;
use record::script::Step;

use crate::conversation::{By, MS, Script};

fn step(after: u64, think: u64, bytes: u64) -> Step {
    Step { after, think: Nanos(think), bytes }
}

/// A question in two writes, of which the second waits for a delayed ACK, and an answer after
/// 30 ms of thinking, over 10 ms.
fn exchange() -> Script {
    let mut s = Script::new();
    let t = s.open(MS, 10 * MS);
    s.data(t, By::Client, 4);
    s.client.expects = s.server.next;
    s.ack(t + 50 * MS, By::Server);
    s.data(t + 50 * MS + 20_000, By::Client, 100);
    s.server.expects = s.client.next;
    s.data(t + 90 * MS + 20_000, By::Server, 200);
    s.ack(t + 90 * MS + 40_000, By::Client);
    s
}

#[test]
fn what_an_ack_let_go_was_written_at_once_and_an_answer_thinks_without_the_path() {
    let c = Conditions::of(&exchange().report());
    assert_eq!(c.missing, Vec::<String>::new());
    assert_eq!(c.script.client, [step(0, 0, 4), step(0, 0, 100)]);
    let [answer] = c.script.server[..] else { panic!("{:?}", c.script.server) };
    assert_eq!((answer.after, answer.bytes), (104, 200));
    assert!(answer.think.0.abs_diff(30 * MS) < MS, "{answer:?}");
    assert!(c.round_trip.value.0.abs_diff(10 * MS) < MS, "{:?}", c.round_trip);
    assert_eq!((c.mtu.value, c.mtu.basis), (1_500, Basis::Seen));
    assert!(c.script.ends() && c.lanes.iter().all(|lane| lane.rate.is_none()));
}

#[test]
fn a_pause_between_writes_is_the_programs() {
    let mut s = Script::new();
    let t = s.open(MS, 10 * MS);
    for i in 0..3 {
        s.data(t + i * 300 * MS, By::Client, 100);
        s.ack(t + i * 300 * MS + 10 * MS, By::Server);
    }
    let c = Conditions::of(&s.report());
    assert_eq!(c.script.client, [step(0, 0, 100), step(0, 300 * MS, 100), step(0, 300 * MS, 100)]);
    assert!(c.script.server.is_empty());
}

#[test]
fn full_segments_that_follow_one_another_are_one_write() {
    let mut s = Script::new();
    let t = s.open(MS, 10 * MS);
    let full = u32::from(s.client.mss) - 12;
    for i in 0..10 {
        s.send(t + i * 1_000, By::Client, wire::Flags::ACK, full);
    }
    s.ack(t + 10 * MS, By::Server);
    s.data(t + 10 * MS + 20_000, By::Client, 5);
    s.ack(t + 20 * MS, By::Server);
    let c = Conditions::of(&s.report());
    assert_eq!(c.script.client, [step(0, 0, u64::from(full) * 10 + 5)]);
    let window = &c.hosts[Way::ToServer as usize].initial_window;
    assert_eq!((window.value, window.basis), (10, Basis::Seen));
}

#[test]
fn a_segment_that_fills_the_receive_window_ends_no_write() {
    let mut s = Script::new();
    // Beside the client, whose window of 5,120 bytes is three segments and a part of one.
    s.client.window = 40;
    let t = s.open(MS, 40 * MS);
    s.data(t, By::Client, 3);
    s.server.expects = s.client.next;
    let full = u32::from(s.server.mss) - 12;
    let parts = [full, full, full, 5_120 - 3 * full];
    // A first flight, and then a sender that paces.
    let (at_once, paced) = ([0, 1, 2, 3], [0, 3 * MS, 6 * MS, 9 * MS]);
    for round in 1..=5 {
        for (part, place) in parts.iter().zip(if round == 1 { at_once } else { paced }) {
            let at = t + round * 40 * MS + place;
            s.data(at, By::Server, *part);
            s.ack(at + 20_000, By::Client);
        }
    }
    let c = Conditions::of(&s.report());
    let [answer] = c.script.server[..] else { panic!("{:?}", c.script.server) };
    assert_eq!((answer.after, answer.bytes), (3, 5 * 5_120));
    assert!(answer.think.0 < MS, "{answer:?}");
}

#[test]
fn a_host_that_answers_faster_than_at_the_handshake_was_released_all_the_same() {
    use wire::Flags;
    let mut s = Script::new();
    // Beside the sender: its ACK of the SYN-ACK took 90 µs, what ACKs let go takes 30 µs.
    s.send(MS, By::Client, Flags::SYN, 0);
    s.server.expects = s.client.next;
    s.send(41 * MS, By::Server, Flags::SYN | Flags::ACK, 0);
    let t = 41 * MS + 90_000;
    s.ack(t, By::Client);
    let full = u32::from(s.client.mss) - 12;
    for round in 0..5 {
        let at = t + round * 40 * MS;
        for i in 0..4 {
            s.send(at + 30_000 + i * 1_000, By::Client, Flags::ACK, full);
        }
        s.ack(at + 40 * MS, By::Server);
    }
    let c = Conditions::of(&s.report());
    assert_eq!(c.script.client, [step(0, 0, u64::from(full) * 20)]);
}

#[test]
fn small_segments_that_overtake_an_ack_show_nodelay() {
    let mut s = Script::new();
    let t = s.open(MS, 10 * MS);
    for i in 0..4 {
        s.data(t + i * MS, By::Client, 10);
    }
    s.ack(t + 14 * MS, By::Server);
    let c = Conditions::of(&s.report());
    let [client, server] = &c.hosts;
    assert_eq!((client.nodelay.value, client.nodelay.basis), (true, Basis::Seen));
    assert_eq!((server.nodelay.value, server.nodelay.basis), (false, Basis::Assumed));
}

#[test]
fn without_a_handshake_or_a_direction_there_is_no_twin() {
    let mut late = exchange();
    late.segments.drain(..3);
    assert!(Conditions::of(&late.report()).missing.iter().any(|why| why.contains("handshake")));
    let mut half = exchange();
    let client = half.client.address;
    half.segments.retain(|segment| segment.source == client);
    assert!(Conditions::of(&half.report()).missing.iter().any(|why| why.contains("one direction")));
}

/// Beside a client that fills what is in flight up to so many segments in each round, sends
/// nothing until ACKs have drained it to so many, and goes on so long after the last of these.
fn pausing(rounds: &[(u64, u64)], late: u64, mut at_end: impl FnMut(&mut Script, u64)) -> Script {
    let mut s = Script::new();
    let mut t = s.open(MS, 40 * MS);
    let full = u32::from(s.client.mss) - 12;
    let mut flight = 0;
    for &(fills, drains) in rounds {
        for _ in flight..fills {
            t += 10_000;
            s.send(t, By::Client, wire::Flags::ACK, full);
        }
        t += 40 * MS;
        for left in (drains..fills).rev() {
            t += 50_000;
            s.server.expects = s.client.next - left * u64::from(full);
            s.raw_ack(t, By::Server);
        }
        at_end(&mut s, t);
        (t, flight) = (t + late, drains);
    }
    s
}

/// What is in flight when the client's send buffer lets it go on.
fn drains_to(s: &Script) -> Option<diagnose::conditions::Known<u64>> {
    Conditions::of(&s.report()).hosts[0].drains_to.clone()
}

const GROWING: [(u64, u64); 5] = [(20, 12), (40, 12), (80, 12), (160, 12), (200, 12)];

#[test]
fn pauses_that_end_at_one_level_however_much_was_in_flight_are_the_send_buffers() {
    let s = pausing(&GROWING, 60_000, |_, _| {});
    let c = Conditions::of(&s.report());
    let level = c.hosts[0].drains_to.as_ref().expect("a level");
    assert_eq!((level.value, level.within, level.basis), (12 * 1_448, Some((12 * 1_448, 12 * 1_448)), Basis::Seen));
    assert!(!c.hosts[0].nodelay.value && c.hosts[1].drains_to.is_none(), "{:?}", c.hosts);
    let cause = c.cause(record::conversation::FindingKind::SendBuffer).expect("a cause");
    assert_eq!(cause.direction.as_deref(), Some(Way::ToServer.name()));
    assert!((12 * MS..13 * MS).contains(&cause.cost_ns.0) && cause.text.contains("17,376 bytes"), "{cause:?}");
}

#[test]
fn one_that_fills_to_its_size_each_time_is_taken_for_one_in_which_no_write_waits() {
    let c = Conditions::of(&pausing(&[(18, 12); 8], 60_000, |_, _| {}).report());
    let client = &c.hosts[0];
    let level = client.drains_to.as_ref().expect("a level");
    assert_eq!((level.value, level.basis), (12 * 1_448, Basis::Assumed));
    assert_eq!((client.nodelay.value, client.nodelay.basis), (true, Basis::Assumed));
}

#[test]
fn other_pauses_are_no_send_buffers() {
    let other = [
        ("levels", pausing(&[(20, 5), (40, 12), (80, 30), (160, 70), (200, 100)], 60_000, |_, _| {})),
        ("a program that wakes up by itself", pausing(&GROWING, 5 * MS, |_, _| {})),
        (
            "a program that its peer tells to go on",
            pausing(&GROWING, 60_000, |s, t| _ = s.data(t + 1_000, By::Server, 9)),
        ),
        ("too few", pausing(&GROWING[..3], 60_000, |_, _| {})),
    ];
    for (what, s) in other {
        assert_eq!(drains_to(&s), None, "{what}");
    }
    // A receive window that is opened when a third of it has been read.
    let mut s = pausing(&[(20, 12); 8], 60_000, |_, _| {});
    let server = s.server.address;
    s.segments.iter_mut().filter(|segment| segment.source == server).for_each(|segment| segment.window = 227);
    assert_eq!(drains_to(&s), None);
}

#[test]
fn conditions_read_back_from_their_json() {
    let c = Conditions::of(&exchange().report());
    let text = serde_json::to_string(&c).unwrap();
    assert_eq!(serde_json::from_str::<Conditions>(&text).unwrap(), c);
}
