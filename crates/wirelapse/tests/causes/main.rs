//! `analyze` on connections whose cause is known, because the lab made it: for every finding one
//! that provokes it and a near miss that must not, what the time went into, why each segment was
//! retransmitted, and what other programs count.

mod agreement;
mod bench;
mod classes;
mod endings;
mod live;
mod paths;
mod record;
#[path = "../scene/tcpdump.rs"]
mod tcpdump;
#[path = "../../../diagnose/tests/truth/mod.rs"]
mod truth;
mod waits;
mod windows;

use bench::Seen;

/// What no clean connection may be told; what a busy machine can really cause (an application that
/// is late) is not here.
const TROUBLE: [&str; 12] = [
    "window_scaling_missing",
    "loss",
    "zero_window",
    "receiver_application",
    "nagle_delayed_ack",
    "syn_retries",
    "mtu_black_hole",
    "path_delay_step",
    "reordering_taken_for_loss",
    "reset",
    "intermediary",
    "capture_incomplete",
];

#[track_caller]
fn assert_clean(seen: &Seen) {
    seen.must_not(&TROUBLE);
}
