//! How fast a capture is read and analysed, from memory and by one thread: nanoseconds a packet,
//! and memory a connection.
//!
//! `analysis_speed [PACKETS] [CONNECTIONS] [PATTERN]`, by default 2,000,000 of 1,000, and every
//! pattern by itself; the best of 5 passes and their median, and by how much the process grew in
//! the first of them.

use std::time::Instant;

use diagnose::{Follower, Options};
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Packet, PacketReader};

/// Resident memory in KiB, where `/proc` shows.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let (packets, connections) = (number(0, 2_000_000), number(1, 1_000) as u32);
    for (name, pattern) in Pattern::ALL.into_iter().filter(|p| args.get(2).is_none_or(|a| a == p.0)) {
        let mut file = Vec::new();
        write_traffic(&mut file, &Traffic { pattern, packets, connections, seed: 1, loss_one_in: 100 })
            .expect("memory");
        let (mut times, mut followed, mut grown) = (Vec::new(), 0, 0);
        for pass in 0..5 {
            let (before, start) = (resident(), Instant::now());
            let mut source = PacketReader::from_bytes(&file).expect("a capture");
            let mut follower = Follower::new(Options { seed: [7, 9], ..Options::default() });
            while let Some(packet) = source.next_packet().expect("memory") {
                if let Packet::Tcp(segment) = packet {
                    follower.take(segment);
                }
            }
            times.push(start.elapsed().as_nanos() as f64 / packets as f64);
            if pass == 0 {
                (followed, grown) = (follower.len() as u64, resident().saturating_sub(before));
            }
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{name}: best {:.1} ns a packet, median {:.1} ns ({:.2} million packets a second); {followed} connections, {} bytes each",
            times[0],
            times[2],
            1e3 / times[2],
            grown * 1024 / followed.max(1)
        );
    }
}
