//! The corpora that fuzzing has gathered, and changed copies of them, through the same entries in seconds.
//!
//! `fuzz/corpus/` is kept by `cargo +nightly fuzz cmin`; its targets are in `fuzz/fuzz_targets/`.

use std::path::Path;

use record::Instant;
use wire::{Capture, Frame, LinkType, PacketReader, Reassembly, dissect};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");

/// Copies of each input with a few bytes changed.
const CHANGED: u64 = 5;

/// Every input of a target, and its changed copies, which are the same in every run.
fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(CORPUS).join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    inputs.sort();
    assert!(inputs.len() > 50, "{} inputs in {}", inputs.len(), folder.display());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for path in inputs {
        let input = std::fs::read(&path).expect("readable");
        run(&input);
        for _ in 0..if input.is_empty() { 0 } else { CHANGED } {
            let mut changed = input.clone();
            for _ in 0..1 + random() % 4 {
                let at = random() % changed.len();
                changed[at] = [random() as u8, 0, 0xff, changed[at] ^ (1 << (random() % 8))][random() % 4];
            }
            changed.truncate(changed.len() - random() % 8 * (changed.len() / 16));
            run(&changed);
        }
    }
}

#[test]
fn captures() {
    replay("capture", |bytes| {
        if let Ok(mut packets) = PacketReader::from_bytes(bytes) {
            while let Ok(Some(_)) = packets.next_packet() {}
        }
        if let Ok(mut capture) = Capture::from_bytes(bytes) {
            while let Ok(Some(frame)) = capture.next_frame() {
                assert!(frame.data.len() <= frame.original_length as usize);
                frame.comments().for_each(drop);
            }
        }
    });
}

#[test]
fn frames() {
    replay("frame", |bytes| {
        let [a, b, size, rest @ ..] = bytes else { return };
        let link_type = LinkType(u16::from_be_bytes([*a, *b]));
        let mut reassembly = Reassembly::new();
        for data in rest.chunks(usize::from(*size) + 1) {
            let _ = dissect(&Frame::new(1, Instant::from_nanos(1), link_type, data), &mut reassembly);
        }
    });
}

#[test]
fn text() {
    replay("text", |bytes| {
        let mut reader = wire::TextReader::new(bytes);
        let mut segments = 0;
        while let Ok(Some(_)) = reader.next_segment() {
            segments += 1;
        }
        assert_eq!(reader.counts().segments, segments);
        assert!(reader.counts().lines >= segments);
    });
}
