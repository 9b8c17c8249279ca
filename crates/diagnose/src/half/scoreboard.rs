//! What the peer's ACKs say of data that have not come: duplicate ACKs and SACK blocks.

use crate::ranges::{Range, Ranges};

/// The reports since `una` last moved, and the blocks above it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    /// When the first of these reports came; 0 where none did.
    since: u64,
    sacked: Ranges,
    duplicates: u32,
    /// Bytes beyond `una` that duplicate ACKs without blocks have reported.
    counted: u32,
}

impl Scoreboard {
    /// A duplicate ACK: its sender got one more segment, of this size.
    pub(crate) fn take_duplicate(&mut self, now: u64, size: u32) {
        self.duplicates += 1;
        self.counted = self.counted.saturating_add(size);
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

    /// Everything up to `ack` was acknowledged, so many bytes: one segment of this size fills the
    /// gap, and duplicate ACKs have counted the others.
    #[inline(always)]
    pub(crate) fn advance(&mut self, ack: u64, bytes: u64, size: u32) {
        (self.since, self.duplicates) = (0, 0);
        let known = u32::try_from(bytes.saturating_sub(size.into())).unwrap_or(u32::MAX);
        self.counted = self.counted.saturating_sub(known);
        self.sacked.trim(ack);
    }

    /// Nothing is missing any more.
    pub(crate) fn clear_count(&mut self) {
        self.counted = 0;
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

    /// How much of what follows `una` has been delivered: as blocks report it, or as many segments
    /// as there were duplicate ACKs (Linux counts them in `tcp_add_reno_sack` of
    /// `net/ipv4/tcp_input.c`).
    pub(crate) fn delivered(&self, una: u64) -> u64 {
        self.sacked.bytes_from(una).unwrap_or(self.counted.into())
    }

    /// Whether something is missing, as far as ACKs say.
    #[inline(always)]
    pub(crate) fn is_disordered(&self) -> bool {
        self.duplicates > 0 || self.has_blocks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_blocks_duplicate_acks_count_what_was_delivered() {
        let mut scoreboard = Scoreboard::default();
        (1..=5).for_each(|now| scoreboard.take_duplicate(now, 1_000));
        assert_eq!(scoreboard.delivered(0), 5_000);
        // The repair, and two segments that had come before it.
        scoreboard.advance(3_000, 3_000, 1_000);
        assert_eq!(3_000 + scoreboard.delivered(3_000), 6_000);
        scoreboard.clear_count();
        assert_eq!(scoreboard.delivered(3_000), 0);
    }
}
