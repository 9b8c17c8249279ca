//! What a capture made to be hard costs, beside one of as many packets that is not:
//! `hostile_sizes [PACKETS] [SYNS]`, by default 500,000 and 2,000,000.
//!
//! Time: one connection of which every second segment is missing, never repaired, repaired from the
//! far end on, or reported by SACK; the ratio of CPU time to that of the same packets without holes
//! is to stay below 2. Best of 5, in turns. Memory: as many SYNs, each of a connection itself.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use diagnose::{Follower, Options};
use record::{Instant, SeqNumber};
use wire::{Flags, Segment};

/// CPU time of this process, ns.
fn cpu() -> u64 {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).expect("/proc/self/schedstat")
}

/// Resident memory, bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1_024
}

const SIZE: u32 = 100;

struct Making(Vec<Segment>);

impl Making {
    /// Data of the client, or an ACK of the server.
    fn add(&mut self, from_client: bool, seq: u32, ack: u32, payload: u32, sacked: Option<u32>) {
        let number = self.0.len() as u64 + 1;
        let client = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 40_000));
        let server = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 80));
        let (source, destination) = if from_client { (client, server) } else { (server, client) };
        let mut s = Segment::new(number, Instant::from_nanos(number * 2_000), source, destination);
        (s.seq, s.ack, s.flags, s.window, s.payload) = (SeqNumber(seq), SeqNumber(ack), Flags::ACK, 60_000, payload);
        if let Some(start) = sacked {
            s.options.sack.push(SeqNumber(start), SeqNumber(start + SIZE));
        }
        self.0.push(s);
    }
}

/// `packets` of data; with holes, every second segment is missing where `holes`, and what follows
/// does as many packets again.
fn connection(packets: u32, holes: bool, repaired: bool, acks: bool) -> Vec<Segment> {
    let mut made = Making(Vec::new());
    made.add(true, 1, 1, SIZE, None);
    made.add(false, 1, 1 + SIZE, 0, None);
    let first = 1 + SIZE;
    let step = if holes { 2 * SIZE } else { SIZE };
    for n in 0..packets {
        let start = first + n * step + step - SIZE;
        made.add(true, start, 1, SIZE, None);
        if acks {
            let (ack, sack) = if holes { (first, Some(start)) } else { (start + SIZE, None) };
            made.add(false, 1, ack, 0, sack);
        }
    }
    if repaired {
        for n in (0..packets).rev() {
            made.add(true, first + n * step, 1, SIZE, None);
        }
    }
    made.0
}

fn nanos_a_packet(segments: &[Segment]) -> f64 {
    let before = cpu();
    let mut follower = Follower::new(Options::default());
    segments.iter().for_each(|s| follower.take(s));
    let reports = follower.reports().count();
    assert_eq!(reports, 1);
    (cpu() - before) as f64 / segments.len() as f64
}

fn main() {
    let args: Vec<u32> = std::env::args().skip(1).map(|a| a.parse().expect("a number")).collect();
    let (packets, syns) = (args.first().copied().unwrap_or(500_000), args.get(1).copied().unwrap_or(2_000_000));
    for (name, repaired, acks) in [
        ("holes that stay", false, false),
        ("holes repaired from the far end", true, false),
        ("SACK of each", false, true),
    ] {
        let (holes, whole) = (connection(packets, true, repaired, acks), connection(packets, false, repaired, acks));
        let (mut with, mut without) = (f64::MAX, f64::MAX);
        for _ in 0..5 {
            with = with.min(nanos_a_packet(&holes));
            without = without.min(nanos_a_packet(&whole));
        }
        println!("{packets} {name}: {with:.0} ns a packet, {without:.0} ns without holes: {:.2} times", with / without);
    }
    let before = resident();
    let mut follower = Follower::new(Options { connections: syns as usize, ..Options::default() });
    for n in 0..syns {
        let client = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + n / 50_000), 1_024 + (n % 50_000) as u16));
        let server = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 80));
        let mut s = Segment::new(u64::from(n) + 1, Instant::from_nanos(u64::from(n) * 1_000), client, server);
        (s.seq, s.flags, s.window) = (SeqNumber(n.wrapping_mul(2_654_435_761)), Flags::SYN, 64_240);
        s.options.mss = Some(1_460);
        follower.take(&s);
    }
    let each = resident().saturating_sub(before) / follower.len() as u64;
    println!(
        "{} connections of one SYN: {each} bytes each, {} MiB",
        follower.len(),
        (each * follower.len() as u64) >> 20
    );
}
