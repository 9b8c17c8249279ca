//! TCP sequence numbers, and the byte positions they stand for.

use std::fmt;

/// A sequence number as it is in the header: 32 bits that wrap (RFC 9293, section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// The signed way from `other` to this number, the shorter way round. Exactly half the space
    /// away counts as before.
    pub const fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether this number comes before `other`.
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// The number `by` bytes later.
    #[must_use]
    pub const fn add(self, by: u32) -> Self {
        Self(self.0.wrapping_add(by))
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position in one direction of a connection that does not wrap: sequence numbers unrolled to 64
/// bits.
///
/// Zero is wherever the follower began (the SYN, or the first packet seen).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct StreamOffset(pub u64);

impl StreamOffset {
    /// The position nearest to this one that `seq` can stand for, where this position itself is
    /// `own`. A number that would lie before zero is held at zero.
    #[must_use]
    pub fn nearest(self, own: SeqNumber, seq: SeqNumber) -> Self {
        Self(self.0.saturating_add_signed(seq.distance_from(own).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distance_undoes_add(seq: u32, by in 0u32..(1 << 31)) {
            let s = SeqNumber(seq);
            prop_assert_eq!(i64::from(s.add(by).distance_from(s)), i64::from(by));
        }

        #[test]
        fn unrolling_follows_a_stream_over_wraps(start: u32, steps in prop::collection::vec(0u32..(1 << 30), 1..40)) {
            let (mut seq, mut at, mut truth) = (SeqNumber(start), StreamOffset(0), 0u64);
            for step in steps {
                let next = seq.add(step);
                at = at.nearest(seq, next);
                seq = next;
                truth += u64::from(step);
                prop_assert_eq!(at.0, truth);
            }
        }
    }
}
