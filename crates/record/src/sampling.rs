//! What share of the sends is looked at, as asked for and as it came out.

pub use quantity::Ratio;

use crate::{Nanos, columns};

/// How sends are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Every send of every target connection.
    Every,
    /// By arming: a share of the time on each connection, in short stretches drawn at random. The
    /// cost goes down with it.
    Windows(Ratio),
    /// By drawing for each send: exact in number, but an armed socket pays for its callbacks all
    /// the same.
    Draws(Ratio),
}

/// What share was really seen: by time, and by the bytes that TCP itself counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Time for which connections were followed, summed over them.
    pub followed: Nanos,
    /// Of this, the time for which they were armed.
    pub armed: Nanos,
    /// Bytes written on these connections, by TCP's own counters.
    pub bytes_written: u64,
    /// Of these, the bytes written while armed.
    pub bytes_armed: u64,
}

impl Coverage {
    /// What was observed since `earlier`, an earlier state of the same coverage.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            followed: self.followed.saturating_sub(earlier.followed),
            armed: self.armed.saturating_sub(earlier.armed),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            bytes_armed: self.bytes_armed.saturating_sub(earlier.bytes_armed),
        }
    }
}

columns! {
    Coverage: "coverage", "", blank = Coverage::default();
    followed_ns = followed, "time for which connections were followed, summed over them";
    armed_ns = armed, "of that, time for which sends were observed";
    bytes_written = bytes_written, "bytes written on these connections, by TCP's own counters", from "write_seq";
    bytes_armed = bytes_armed, "of these, bytes written while sends were observed", from "write_seq";
}
