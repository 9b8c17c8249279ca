//! Any bytes as a file: a capture in any format, compressed or not, or text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Capture, PacketReader};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut packets) = PacketReader::from_bytes(bytes) {
        while let Ok(Some(_)) = packets.next_packet() {}
    }
    if let Ok(mut capture) = Capture::from_bytes(bytes) {
        while let Ok(Some(frame)) = capture.next_frame() {
            frame.comments().for_each(drop);
        }
    }
});
