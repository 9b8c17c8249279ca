//! Any bytes as the control messages of one message from the error queue, with what follows as its payload.

#![no_main]

use libfuzzer_sys::fuzz_target;
use timestamping::{Report, controls, report};

fuzz_target!(|bytes: &[u8]| {
    let [length, rest @ ..] = bytes else { return };
    let (control, payload) = rest.split_at(rest.len().min(usize::from(*length) * 4));
    let _ = controls(control).count();
    if let Ok(Report::Stamp(stamp)) = report(control, payload) {
        let _ = (stamp.software(), stamp.hardware(), stamp.stats());
    }
});
