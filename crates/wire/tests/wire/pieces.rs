//! A file read in pieces by several readers gives what the same bytes give in memory, damage at the
//! borders of pieces included.

use wire::capture::Pieces;
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Packet, PacketReader, Shard};

/// Number, sequence number and payload of every segment, and what was wrong with the file.
fn all(mut packets: PacketReader<'_>) -> (Vec<(u64, u32, u32)>, Vec<String>) {
    let mut segments = Vec::new();
    while let Some(packet) = packets.next_packet().expect("memory") {
        if let Packet::Tcp(s) = packet {
            segments.push((s.number, s.seq.0, s.payload));
        }
    }
    let problems = packets.problems().iter().map(|(problem, count)| format!("{problem}: {count:?}")).collect();
    (segments, problems)
}

#[test]
fn damage_anywhere_reads_the_same_in_pieces_and_in_memory() {
    // Where pieces begin.
    const STEP: usize = 256 << 10;
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
        let alone = Pieces::new(&file[..], 1);
        assert_eq!(all(PacketReader::from_pieces(&alone).expect("a capture")), expected, "{seed}");
        let (pieces, shards) = (Pieces::new(&file[..], 2), Shard::all(2, seed as u64));
        let (mut segments, read) = (Vec::new(), &pieces);
        std::thread::scope(|scope| {
            let one = |shard| move || all(PacketReader::from_pieces(read).expect("a capture").only(shard));
            for reader in shards.map(|shard| scope.spawn(one(shard))).collect::<Vec<_>>() {
                let (part, problems) = reader.join().expect("no panic");
                assert_eq!(problems, expected.1, "{seed}");
                segments.extend(part);
            }
        });
        segments.sort_unstable();
        assert_eq!(segments, expected.0, "{seed}");
    }
    assert!(damaged > 20, "{damaged}");
}
