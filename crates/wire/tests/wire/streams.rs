//! A file read as a stream, also by several readers that share it, gives what the same bytes give
//! in memory, damage at the borders of what is read at once included; and so do segments that are
//! asked for many at a time.

use std::net::SocketAddr;

use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Packet, PacketReader, Segment, Shard};

/// Number, sequence number and payload of every segment, and what was wrong with the file.
fn all(mut packets: PacketReader<'_>) -> (Vec<(u64, u32, u32)>, Vec<String>) {
    let mut segments = Vec::new();
    while let Some(packet) = packets.next_packet().expect("memory") {
        if let Packet::Tcp(s) = packet {
            segments.push((s.number, s.seq.0, s.payload));
        }
    }
    (segments, problems(&packets))
}

/// The same, with as many segments at a time as the reader has.
fn many(mut packets: PacketReader<'_>) -> (Vec<(u64, u32, u32)>, Vec<String>) {
    let nobody = SocketAddr::from(([0; 4], 0));
    let mut room = [Segment::new(0, record::Instant::from_nanos(0), nobody, nobody); 100];
    let mut segments = Vec::new();
    loop {
        let filled = packets.fill(&mut room);
        segments.extend(room[..filled].iter().map(|s| (s.number, s.seq.0, s.payload)));
        if filled == room.len() {
            continue;
        }
        match packets.next_packet().expect("memory") {
            Some(Packet::Tcp(s)) => segments.push((s.number, s.seq.0, s.payload)),
            Some(_) => {}
            None => return (segments, problems(&packets)),
        }
    }
}

fn problems(packets: &PacketReader<'_>) -> Vec<String> {
    packets.problems().iter().map(|(problem, count)| format!("{problem}: {count:?}")).collect()
}

#[test]
fn damage_anywhere_reads_the_same_as_a_stream_and_in_memory() {
    // What is read at once.
    const STEP: usize = 128 << 10;
    let mut whole = Vec::new();
    let traffic = Traffic { pattern: Pattern::Mixed, packets: 12_000, connections: 20, seed: 3, loss_one_in: 100 };
    write_traffic(&mut whole, &traffic).expect("memory");
    assert!(whole.len() > 4 * STEP, "{}", whole.len());
    let mut damaged = 0;
    for seed in 0..60usize {
        let mut file = whole.clone();
        let near = (1 + seed % 4) * STEP;
        match seed % 5 {
            // A hole of zeros, a few bytes, a length, a cut, and nothing.
            0 => file[near - 200..near + 400].fill(0),
            1 => file[near - seed..near + 3].fill(0xff),
            2 => file[near - 2 * seed] ^= 0x80,
            3 => file.truncate(near + 7 - seed % 20),
            _ => {}
        }
        let expected = all(PacketReader::from_bytes(&file).expect("a capture"));
        damaged += usize::from(!expected.1.is_empty());
        assert_eq!(all(PacketReader::from_reader(&file[..]).expect("a capture")), expected, "{seed}");
        let mut segments = Vec::new();
        for shard in Shard::all(2, seed as u64) {
            let (part, problems) = many(PacketReader::from_reader(&file[..]).expect("a capture").only(shard));
            assert_eq!(problems, expected.1, "{seed}");
            segments.extend(part);
        }
        segments.sort_unstable();
        assert_eq!(segments, expected.0, "{seed}");
    }
    assert!(damaged > 20, "{damaged}");
}
