//! How many sends a second one core adds to the figures of a trace:
//! `cargo run --release -p wirelapse-summary --example event_speed`.

use std::time::Instant;

use record::{Comm, ConnectionId, Event, Owner, Send, Stamps};
use summary::{Limits, TraceSummary};

/// Short rounds, of which the best counts: a busy machine disturbs most of them, and not all.
const ROUNDS: usize = 100;
const SENDS: u64 = 50_000;

/// Sends 100 µs apart that take 20 to 40 ms.
fn sends() -> Vec<Event> {
    let send = |i: u64| {
        let began = 100_000 * i;
        let scattered = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let time = |ns| Some(record::Instant::from_nanos(ns));
        Event::Send(Send {
            connection: ConnectionId(i % 100),
            owner: Owner { pid: 4_000, comm: Comm::from("curl") },
            bytes: 16_384,
            stamps: Stamps {
                sched: time(began + 2_000 + scattered / 16),
                driver: time(began + 3_000 + scattered / 8),
                ack: time(began + 20_000_000 + scattered),
                ..Stamps::sent_at(record::Instant::from_nanos(began))
            },
            ..Send::blank()
        })
    };
    (0..SENDS).map(send).collect()
}

fn timed(events: &[Event], mut each: impl FnMut(&Event)) -> f64 {
    let start = Instant::now();
    events.iter().for_each(&mut each);
    events.len() as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let events = sends();
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        let mut summary = TraceSummary::new(Limits::default(), record::Instant::from_nanos(0));
        best = best.max(timed(&events, |event| summary.add(event)));
    }
    println!("{best:.0} events a second, {:.1} ns each", 1e9 / best);
}
