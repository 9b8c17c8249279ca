//! Any bytes as a capture file, packed or not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Capture, Reassembly, dissect};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut capture) = Capture::from_bytes(bytes) else { return };
    let mut reassembly = Reassembly::new();
    while let Ok(Some(frame)) = capture.next_frame() {
        let _ = dissect(&frame, &mut reassembly);
        let _ = frame.comments().count();
    }
});
