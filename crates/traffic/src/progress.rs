//! What a running workload reports to its caller.

use clock::Nanos;

use crate::stream::Sample;

/// Something that a caller may show while a workload runs. Its answer, `Break`, ends the workload early and cleanly.
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
