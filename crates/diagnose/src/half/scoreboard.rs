//! What the peer's ACKs say of data that have not come: duplicate ACKs and SACK blocks.

use crate::ranges::{Range, Ranges};

/// The reports since `una` last moved, and the blocks above it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    /// When the first of these reports came; 0 where none did.
    since: u64,
    sacked: Ranges,
    duplicates: u32,
}

impl Scoreboard {
    /// A duplicate ACK.
    pub(crate) fn take_duplicate(&mut self, now: u64) {
        self.duplicates += 1;
        self.suspect(now);
    }

    /// A SACK block.
    pub(crate) fn take_block(&mut self, start: u64, end: u64, now: u64) {
        self.sacked.insert(Range { start, end, at: now, id: None });
        self.suspect(now);
    }

    fn suspect(&mut self, now: u64) {
        if self.since == 0 {
            self.since = now;
        }
    }

    /// Everything up to `ack` was acknowledged.
    #[inline(always)]
    pub(crate) fn advance(&mut self, ack: u64) {
        (self.since, self.duplicates) = (0, 0);
        self.sacked.trim(ack);
    }

    /// Since when a loss is suspected, or reordering.
    #[inline]
    pub(crate) fn suspected_since(&self) -> Option<u64> {
        (self.since > 0).then_some(self.since)
    }

    /// Duplicate ACKs since `una` last moved.
    pub(crate) fn duplicates(&self) -> u32 {
        self.duplicates
    }

    /// Whether the peer has data beyond others that it has not.
    #[inline(always)]
    pub(crate) fn has_blocks(&self) -> bool {
        !self.sacked.is_empty()
    }

    /// The end of the highest block.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.sacked.highest()
    }

    /// How much of what follows `una` has been delivered: a duplicate ACK without blocks reports
    /// one segment, of `size` bytes.
    pub(crate) fn delivered(&self, una: u64, size: u32) -> u64 {
        self.sacked.bytes_from(una).unwrap_or_else(|| u64::from(self.duplicates) * u64::from(size))
    }

    /// Whether something is missing, as far as ACKs say.
    #[inline(always)]
    pub(crate) fn is_disordered(&self) -> bool {
        self.duplicates > 0 || self.has_blocks()
    }
}
