//! What a running workload reports to its caller.

use std::net::SocketAddr;

use clock::Nanos;

use crate::error::Error;
use crate::sample::Sample;

/// Why a workload ended that its caller broke off.
pub(crate) const STOPPED: &str = "stopped before its time";

/// How long the server has for its results once the caller has broken off.
pub(crate) const LAST_WORD: Nanos = Nanos::from_secs(2);

/// Why a workload ended early: its server went away, or its caller broke it off; `None` where
/// neither did.
pub(crate) fn ended_early(server: SocketAddr, gone: bool, broke: bool) -> Option<String> {
    match (gone, broke) {
        (true, _) => Some(Error::Ended { peer: server }.to_string()),
        (_, true) => Some(STOPPED.to_owned()),
        _ => None,
    }
}

/// Something that a caller may show while a workload runs. Its answer, `Break`, ends the workload
/// early and cleanly.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// About ten times a second, so that a caller can stop the workload.
    Tick {
        /// Since data began to flow.
        elapsed: Nanos,
    },
    /// An interval of a transfer's series has ended: each flow.
    Interval(&'a [Sample]),
    /// An interval of transactions or probes has ended.
    Transactions {
        /// Since the start.
        elapsed: Nanos,
        /// Done in all.
        done: u64,
    },
}
