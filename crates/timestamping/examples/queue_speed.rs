//! How fast stamps go through the error queue on one core. What they cost a sender is measured by
//! `study overhead`.
//!
//! `cargo run --release -p wirelapse-timestamping --example queue_speed [ROUNDS]`

use std::error::Error;
use std::net::UdpSocket;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use timestamping::{BatchSize, ErrorQueue, Matcher, Realtime, Report, Request, Stages, now};

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // A refusal leaves the thread where it may run.
    let _ = sched_setaffinity(None, &set);
}

/// Median and the order statistics that bound it with 95 % confidence.
fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let reach = 0.98 * n.sqrt(); // 1.96 × √n / 2
    let at = |i: f64| values[(i.clamp(0.0, n - 1.0)) as usize];
    (at(n / 2.0), at((n / 2.0 - reach).floor()), at((n / 2.0 + reach).ceil()))
}

fn queue_table(rounds: usize) -> Result<(), Box<dyn Error>> {
    const SENDS: usize = 100;
    println!("Error queue of a UDP socket, one core, two stamps a send, read and matched to sends");
    let peer = UdpSocket::bind("127.0.0.1:0")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(peer.local_addr()?)?;
    let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).enable(&socket)?;
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 4096);
    let mut queue = ErrorQueue::new(BatchSize { payload: 0, ..BatchSize::default() });
    let (mut reading, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..rounds * 50 {
        let start = Instant::now();
        for _ in 0..SENDS {
            let before = now::<Realtime>();
            matcher.sent(socket.send(b"x")?, before, ());
        }
        let sent = Instant::now();
        let count = queue.drain(&socket, |report| {
            if let Ok(Report::Stamp(stamp)) = report {
                matcher.stamp(&stamp);
            }
        })?;
        while matcher.finished().is_some() {}
        reading.push(count as f64 / sent.elapsed().as_secs_f64());
        whole.push(count as f64 / start.elapsed().as_secs_f64());
    }
    matcher.give_up();
    for (what, values) in [("reading alone", reading), ("sending, stamping and reading", whole)] {
        let (middle, low, high) = median(values);
        println!("  {what:<46}{middle:>10.0} stamps/s  (95 % {low:.0} to {high:.0})");
    }
    println!("  {:?}", matcher.counts());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(41), |n| n.parse())?;
    pin(0);
    queue_table(rounds)
}
