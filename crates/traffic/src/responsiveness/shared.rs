//! What the threads of a stage share.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use super::Probe;

/// What is to be done, and what became of it.
pub(super) struct Shared {
    pub stop: AtomicBool,
    /// From one pair of probes to the next.
    pub pair_ns: AtomicU64,
    pub probes: Mutex<Vec<Probe>>,
    /// Load-generating connections that there are to be, of each way.
    pub wanted: AtomicU32,
    /// And those that there are, of all ways.
    pub open: AtomicU32,
    pub downloaded: Arc<AtomicU64>,
    /// Sockets that upload.
    pub uploading: Mutex<Vec<OwnedFd>>,
    pub failed: Mutex<Option<String>>,
}
