//! The send sequence space of a direction (RFC 9293, section 3.3.1), as positions in its stream.

use record::SeqNumber;

use crate::ranges::START;

/// How far a direction has come. Positions begin at [`START`] and do not wrap around.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SequenceSpace {
    /// The position after the last byte seen, and its sequence number.
    next: u64,
    next_seq: SeqNumber,
    /// The most in flight.
    peak: u32,
    /// The position that the peer has acknowledged; 0 before the first packet.
    una: u64,
}

impl SequenceSpace {
    /// The first packet, or the first that the peer acknowledged, has this sequence number.
    pub(crate) fn begin(&mut self, seq: SeqNumber) {
        (self.next_seq, self.next, self.una) = (seq, START, START);
    }

    /// Whether there was a packet, or an ACK of one.
    #[inline(always)]
    pub(crate) fn is_begun(&self) -> bool {
        self.una > 0
    }

    /// The position after the last byte seen.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The position that the peer has acknowledged.
    #[inline(always)]
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// Where `seq` lies in the stream.
    #[inline(always)]
    pub(crate) fn place(&self, seq: SeqNumber) -> u64 {
        // Positions begin far above the greatest distance, and 2^32 packets end far below 2^64.
        self.next.wrapping_add_signed(seq.distance_from(self.next_seq).into())
    }

    /// Whether `seq` follows the last byte seen.
    #[inline(always)]
    pub(crate) fn is_next(&self, seq: SeqNumber) -> bool {
        seq == self.next_seq
    }

    /// Bytes up to `end` were seen, or acknowledged.
    #[inline]
    pub(crate) fn reach(&mut self, end: u64) {
        self.next_seq = self.next_seq.add((end - self.next) as u32);
        self.next = end;
    }

    /// The peer acknowledged up to `ack`.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, ack: u64) {
        self.una = ack;
    }

    /// What was sent and not acknowledged, as the capture saw it.
    #[inline(always)]
    pub(crate) fn out(&self) -> u64 {
        self.next.saturating_sub(self.una)
    }

    /// The sender has so much in flight, as it knows.
    #[inline(always)]
    pub(crate) fn take_flight(&mut self, bytes: u32) {
        self.peak = self.peak.max(bytes);
    }

    /// The most in flight.
    #[inline(always)]
    pub(crate) fn peak(&self) -> u32 {
        self.peak
    }
}
