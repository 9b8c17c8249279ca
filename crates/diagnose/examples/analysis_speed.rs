//! How fast a capture is read and analysed, from memory: nanoseconds a packet, and memory a connection.
//!
//! `analysis_speed [PACKETS] [CONNECTIONS]`, by default 2,000,000 of 1,000; the best of 5 passes and their median, then how
//! much the process grew by in the first of them.

use std::time::Instant;

use diagnose::{Follower, Options};
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Capture, Packet, Reassembly, dissect};

/// Resident memory in KiB, where `/proc` tells.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let packets = numbers.next().unwrap_or(2_000_000);
    let connections = numbers.next().unwrap_or(1_000) as u32;
    let mut file = Vec::new();
    write_traffic(&mut file, &Traffic { pattern: Pattern::Download, packets, connections, seed: 1, loss_one_in: 100 })
        .expect("memory");
    let (mut times, mut grown) = (Vec::new(), 0);
    for pass in 0..5 {
        let (before, start) = (resident(), Instant::now());
        let mut capture = Capture::from_bytes(&file).expect("a capture");
        let (mut reassembly, mut follower) =
            (Reassembly::new(), Follower::new(Options { seed: [7, 9], ..Options::default() }));
        while let Some(frame) = capture.next_frame().expect("memory") {
            if let Ok(Packet::Tcp(segment)) = dissect(&frame, &mut reassembly) {
                follower.take(&segment);
            }
        }
        times.push(start.elapsed().as_nanos() as f64 / packets as f64);
        if pass == 0 {
            grown = resident().saturating_sub(before);
            println!(
                "{} connections, {} KiB more in memory, {} bytes a connection",
                follower.len(),
                grown,
                grown * 1024 / follower.len().max(1) as u64
            );
        }
    }
    times.sort_by(f64::total_cmp);
    println!(
        "best {:.1} ns a packet, median {:.1} ns ({:.2} million packets a second), grown by {} KiB",
        times[0],
        times[2],
        1e3 / times[2],
        grown
    );
}
