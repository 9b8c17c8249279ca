//! One series: who sent to whom, and the figures of these sends.

use std::collections::BTreeMap;

use super::Histogram;
use crate::{IpPrefix, Leg, Nanos, WaitReason};

/// What the sends of a series have in common. A dimension that series are not kept apart by is
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesKey {
    /// The peer's address, or its network.
    pub peer: Option<IpPrefix>,
    /// The peer's port.
    pub peer_port: Option<u16>,
    /// Port of this host.
    pub local_port: Option<u16>,
    /// The kernel's id of the cgroup of the socket.
    pub cgroup: Option<u64>,
    /// Name of the program (`comm`).
    pub program: Option<String>,
    /// Whether this is the series of all sends that found no room for another series; its
    /// dimensions are `None`.
    pub overflow: bool,
}

/// The figures of one series, cumulative since its key was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// What these sends have in common.
    pub key: SeriesKey,
    /// How long the sends took, by leg; only legs that were observed.
    pub legs: BTreeMap<Leg, Histogram>,
    /// Sends that were timed.
    pub sends: u64,
    /// Bytes that its connections wrote, by TCP's own counters: of sends that were not timed, too.
    pub bytes: u64,
    /// Sends that ended without an ACK: their later legs are in no histogram.
    pub unacked: u64,
    /// Legs that are in no histogram because they are shorter than the bound on their error.
    pub vague: u64,
    /// Segments with data that its connections sent, by TCP's own counters; those that were
    /// retransmitted are among them.
    pub sent_segments: u64,
    /// Segments that its connections retransmitted, by TCP's own counters.
    pub retransmitted_segments: u64,
    /// Segments that this host dropped.
    pub dropped_segments: u64,
    /// Time that sends waited in TCP, by its chief reason, each reason at its number
    /// ([`WaitReason`] as `usize`).
    pub waited: [Nanos; WaitReason::ALL.len()],
}

impl Series {
    /// A series without sends.
    pub fn new(key: SeriesKey) -> Self {
        Self { key, ..Self::default() }
    }

    /// Whether nothing was counted in it.
    pub fn is_empty(&self) -> bool {
        self.legs.is_empty()
            && self.counts().into_iter().chain(self.waited.map(|waited| waited.0)).all(|count| count == 0)
    }

    /// Adds the figures of another series; its key is not looked at.
    pub fn merge(&mut self, other: &Self) {
        for (leg, histogram) in &other.legs {
            self.legs.entry(*leg).or_default().merge(histogram);
        }
        for (count, more) in self.counts_mut().into_iter().zip(other.counts()) {
            *count = count.saturating_add(more);
        }
        for (waited, more) in self.waited.iter_mut().zip(other.waited) {
            *waited += more;
        }
    }

    /// What was added since `earlier`, an earlier state of the same series. Where any figure is
    /// smaller than it was, the series began anew (its key was idle and left), and all of it is
    /// returned.
    pub fn since(&self, earlier: &Self) -> Self {
        self.difference(earlier).unwrap_or_else(|| self.clone())
    }

    fn difference(&self, earlier: &Self) -> Option<Self> {
        let empty = Histogram::default();
        if earlier.legs.iter().any(|(leg, histogram)| histogram.count() > 0 && !self.legs.contains_key(leg)) {
            return None;
        }
        let legs: Option<BTreeMap<_, _>> = self
            .legs
            .iter()
            .map(|(leg, now)| Some((*leg, now.difference(earlier.legs.get(leg).unwrap_or(&empty))?)))
            .collect();
        let mut waited = self.waited;
        for (now, then) in waited.iter_mut().zip(earlier.waited) {
            now.0 = now.0.checked_sub(then.0)?;
        }
        let legs = legs?.into_iter().filter(|(_, histogram)| histogram.count() > 0).collect();
        let mut since = Self { key: self.key.clone(), legs, waited, ..Self::default() };
        for (count, (now, then)) in since.counts_mut().into_iter().zip(self.counts().into_iter().zip(earlier.counts()))
        {
            *count = now.checked_sub(then)?;
        }
        Some(since)
    }

    fn counts(&self) -> [u64; 7] {
        [
            self.sends,
            self.bytes,
            self.unacked,
            self.vague,
            self.sent_segments,
            self.retransmitted_segments,
            self.dropped_segments,
        ]
    }

    /// In the order of [`Self::counts`].
    fn counts_mut(&mut self) -> [&mut u64; 7] {
        [
            &mut self.sends,
            &mut self.bytes,
            &mut self.unacked,
            &mut self.vague,
            &mut self.sent_segments,
            &mut self.retransmitted_segments,
            &mut self.dropped_segments,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(sends: &[u64]) -> Series {
        Series {
            legs: [(Leg::Total, sends.iter().map(|ns| Nanos(*ns)).collect())].into(),
            sends: sends.len() as u64,
            bytes: 100 * sends.len() as u64,
            sent_segments: 9,
            retransmitted_segments: 1,
            dropped_segments: 2,
            waited: [Nanos(sends.iter().sum()); WaitReason::ALL.len()],
            ..Series::default()
        }
    }

    #[test]
    fn differences_undo_merging() {
        let (first, second) = (series(&[1, 20, 300]), series(&[4_000, 5]));
        let mut both = first.clone();
        both.merge(&second);
        assert_eq!(both.since(&first), second);
        assert_eq!(both.since(&Series::default()), both);
        assert!(both.since(&both).is_empty() && !both.is_empty());
        assert!(!Series { bytes: 1, ..Series::default() }.is_empty());
    }

    #[test]
    fn a_key_that_left_and_came_back_counts_from_its_return() {
        let before = series(&[1, 2, 3]);
        let back = series(&[9_000]);
        assert_eq!(back.since(&before), back);
        let mut without_legs = before.clone();
        without_legs.legs.clear();
        assert_eq!(without_legs.since(&before), without_legs);
    }
}
