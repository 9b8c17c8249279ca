//! Captures as segments.

use wire::{Packet, PacketReader, Segment};

/// The TCP segments of a capture file.
pub fn segments(path: &str) -> Vec<Segment> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut packets = PacketReader::from_bytes(&bytes).unwrap();
    let mut all = Vec::new();
    while let Some(packet) = packets.next_packet().unwrap() {
        if let Packet::Tcp(segment) = packet {
            all.push(*segment);
        }
    }
    all
}
