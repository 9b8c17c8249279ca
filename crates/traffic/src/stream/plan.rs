//! What every flow of one side does, and what its thread shows meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::{Method, Pacing};

/// What every flow of one side does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub udp: bool,
    /// The UDP counter has 64 bits.
    pub wide: bool,
    pub write_bytes: usize,
    pub method: Method,
    pub pace_bits_per_second: Option<u64>,
    /// Datagrams that leave in a row.
    pub burst: u32,
    pub pacing: Pacing,
    /// Bytes of each sending flow.
    pub bytes: Vec<Option<u64>>,
    pub cpu: Option<usize>,
    pub quickack: Option<bool>,
}

impl Plan {
    /// Bytes of one write.
    pub fn one_write(&self) -> usize {
        match (self.pace_bits_per_second, self.pacing) {
            (Some(rate), Pacing::Program) => paced_write_bytes(self.write_bytes, rate),
            _ => self.write_bytes,
        }
    }
}

/// Bytes of one write of a program that keeps a rate itself: what the rate carries in a tenth of a
/// second, at most. A larger one would leave at once, and a short test would be over with it.
pub fn paced_write_bytes(write_bytes: usize, bits_per_second: u64) -> usize {
    write_bytes.min(usize::try_from(bits_per_second / 80).unwrap_or(usize::MAX)).max(1)
}

/// What a flow's thread shows while it runs. On its own cache line, so that flows do not slow each
/// other.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Meter {
    pub bytes: AtomicU64,
    pub datagrams: AtomicU64,
    /// The receiver's count of lost ones, for the warm-up's share.
    pub lost: AtomicU64,
    /// No more will come: all bytes sent, the peer closed, or an error.
    pub done: AtomicBool,
}
