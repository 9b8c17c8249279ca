//! Most packets take a short way through a connection (`connection/plain.rs`); where its packets
//! are kept, all take the long one. What is reported is the same, byte for byte.

use std::path::{Path, PathBuf};

use crate::files::segments;
use diagnose::{Follower, Keep, Options};
use proptest::prelude::*;
use record::Instant;
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Ecn, Flags, Integrity, Packet, PacketReader, Segment};

fn reported(segments: &[Segment], keep: Keep) -> Vec<Vec<u8>> {
    let mut follower = Follower::new(Options { keep, ..Options::default() });
    segments.iter().for_each(|s| follower.take(s));
    let mut all = vec![serde_json::to_vec(&follower.totals()).unwrap()];
    all.extend(follower.reports().map(|report| {
        let mut json = Vec::new();
        report.write_json(&mut json);
        json
    }));
    all
}

fn compare(name: &str, segments: &[Segment]) {
    let short = reported(segments, Keep::Nothing);
    let long = reported(segments, Keep::First(usize::MAX, usize::MAX));
    assert_eq!(short.len(), long.len());
    for (short, long) in short.iter().zip(&long) {
        assert!(short == long, "{name}:\n{}\n{}", String::from_utf8_lossy(short), String::from_utf8_lossy(long));
    }
}

/// Every capture below a folder.
fn captures(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            captures(&path, into);
        } else if name.contains(".pcap") {
            into.push(path);
        }
    }
}

#[test]
fn recorded_captures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in ["tests/captures", "tests/retransmissions", "../wire/tests/recorded"] {
        captures(&root.join(folder), &mut paths);
    }
    assert!(paths.len() > 100, "{}", paths.len());
    for path in paths {
        let name = path.to_string_lossy();
        compare(&name, &segments(&name));
    }
}

fn generated(pattern: Pattern, packets: u64, loss_one_in: u32, seed: u64) -> Vec<Segment> {
    let mut file = Vec::new();
    write_traffic(&mut file, &Traffic { pattern, packets, connections: 4, seed, loss_one_in }).unwrap();
    let mut packets = PacketReader::from_bytes(&file).unwrap();
    let mut all = Vec::new();
    while let Some(packet) = packets.next_packet().unwrap() {
        if let Packet::Tcp(segment) = packet {
            all.push(*segment);
        }
    }
    all
}

/// One change of a capture: which packet, what, and by how much.
type Change = (prop::sample::Index, u8, u32);

fn change(segments: &mut Vec<Segment>, (which, what, much): Change) {
    if segments.is_empty() {
        return;
    }
    let i = which.index(segments.len());
    let later = |segments: &mut [Segment], by: u64| {
        segments[i..].iter_mut().for_each(|s| s.at = Instant::from_nanos(s.at.as_nanos() + by));
    };
    match what {
        0 => _ = segments.remove(i),
        1 => segments.insert(i, segments[i]),
        // Out of order, with the times of the places.
        2 => {
            let j = (i + 1 + much as usize % 4).min(segments.len() - 1);
            let (a, b) = (segments[i].at, segments[j].at);
            segments.swap(i, j);
            (segments[i].at, segments[j].at) = (a, b);
        }
        3 => later(segments, u64::from(much) % 100_000_000),
        4 => later(segments, u64::from(much) * 2),
        5 => segments[i].window = much as u16 % 600,
        6 => segments[i].network.ttl = much as u8 % 2 + 63,
        7 => segments[i].network.id = (much % 3 > 0).then_some(much as u16 % 5),
        8 => segments[i].flags ^= Flags::from_bits_truncate(1 << (much % 9)),
        9 => segments[i].integrity = [Integrity::Wrong, Integrity::Right, Integrity::Offloaded][much as usize % 3],
        10 => segments[i].network.ecn = Ecn::Ce,
        11 => segments[i].ack = segments[i].ack.add(much % 5_000).add(2_500u32.wrapping_neg()),
        12 => segments[i].seq = segments[i].seq.add(much % 5_000).add(2_500u32.wrapping_neg()),
        13 => segments[i].payload = much % 4_000,
        14 => {
            let left = segments[i].ack.add(much % 3_000);
            segments[i].options.sack.push(left, left.add(1_400));
        }
        15 => segments[i].options.timestamps = (much % 2 > 0).then_some((Some(much / 2), Some(much / 3))),
        // Everything of the side's own clock from here on: a path that is away from the capture.
        16 => {
            let from = segments[i].source;
            let by = u64::from(much) % 40_000_000;
            let moved = |s: &mut Segment| s.at = Instant::from_nanos(s.at.as_nanos() + by);
            segments[i..].iter_mut().filter(|s| s.source == from).for_each(moved);
            segments.sort_by_key(|s| s.at);
        }
        17 => segments[i].options.mptcp = Some(much as u8 % 8),
        18 => segments.iter_mut().for_each(|s| s.network.id = None),
        _ => segments.drain(..i % 40).for_each(drop),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn changed_traffic(
        kind in 0..Pattern::ALL.len(),
        loss_one_in in prop_oneof![Just(0), Just(10), Just(100)],
        seed: u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0u8..20, any::<u32>()), 0..12),
    ) {
        let (name, pattern) = Pattern::ALL[kind];
        let mut segments = generated(pattern, 400, loss_one_in, seed);
        changes.into_iter().for_each(|c| change(&mut segments, c));
        segments.iter_mut().zip(1..).for_each(|(s, n)| s.number = n);
        compare(name, &segments);
    }
}
