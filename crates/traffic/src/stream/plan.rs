//! What every flow of one side does, and what its thread shows meanwhile.

use std::io;
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
    pub pacing: Pacing,
    /// Bytes of each sending flow.
    pub bytes: Vec<Option<u64>>,
    pub cpu: Option<usize>,
    pub quickack: Option<bool>,
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

/// Whether a system call that failed may simply be tried again.
pub(super) fn may_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
