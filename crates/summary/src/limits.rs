//! How much of a trace is kept, and the memory that it takes.

use record::{Leg, LegPlace};
use stats::Precision;

use crate::Timeline;
use crate::kind::TimedKind;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections with separate figures; the least active beyond it are counted together. Of its
    /// sends each takes 290 KiB at the very most and some 50 KiB usually, of every other kind a
    /// fifth of that.
    pub connections: usize,
    /// The slowest sends, whole.
    pub slowest: usize,
    /// Methods and paths of requests with separate figures, of 58 KiB at the very most; those with
    /// the fewest requests beyond it are counted together.
    pub labels: usize,
}

impl Limits {
    /// The bytes that figures take at the very most within these limits, where these kinds are
    /// recorded: of each kind those of all its records and its [`Timeline`], and those of each
    /// connection.
    pub fn memory_bound(&self, kinds: &[TimedKind]) -> u64 {
        let of_connection = |kind: &TimedKind| match kind {
            TimedKind::Sends => Leg::ALL.len(),
            other => other.legs().iter().filter(|leg| leg.place != LegPlace::Adds).count(),
        };
        // Connections beyond the limit are together in one more.
        let connections = self.connections as u64 + 1;
        let labels = match self.labels {
            0 => 0,
            labels => labels as u64 + 1,
        };
        let of_kind = |kind: &TimedKind| {
            let labels = if matches!(kind, TimedKind::AtClient | TimedKind::AtServer) { labels } else { 0 };
            Timeline::MEMORY
                + labels * Precision::Coarse.memory()
                + kind.legs().len() as u64 * Precision::Fine.memory()
                + connections * of_connection(kind) as u64 * Precision::Coarse.memory()
        };
        kinds.iter().map(of_kind).sum()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 500, slowest: 5, labels: 64 }
    }
}
