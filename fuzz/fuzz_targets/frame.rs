//! Any bytes as frames of one link type, cut into several so that fragments can meet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use record::Instant;
use wire::{Frame, LinkType, Reassembly, dissect};

fuzz_target!(|bytes: &[u8]| {
    let [a, b, size, rest @ ..] = bytes else { return };
    let link_type = LinkType(u16::from_be_bytes([*a, *b]));
    let mut reassembly = Reassembly::new();
    for data in rest.chunks(usize::from(*size) + 1) {
        let _ = dissect(&Frame::new(1, Instant::from_nanos(1), link_type, data), &mut reassembly);
    }
});
