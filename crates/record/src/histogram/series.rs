//! One series: who sent to whom, and the figures of these sends.

use std::collections::BTreeMap;

use super::Histogram;
use crate::{Again, IpPrefix, Leg, Nanos, WaitReason};

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
    /// Whether this is a series of sends that found no room for another one; dimensions that these
    /// are not kept apart by are `None`.
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
    /// Of these, those of which it is known why, in the order of [`Again::ALL`].
    pub retransmitted_for: [u64; Again::ALL.len()],
    /// Retransmitted segments that the peer had already, as it said (DSACK, RFC 2883).
    pub spurious_segments: u64,
    /// Segments that this host dropped.
    pub dropped_segments: u64,
    /// SYNs and ACKs that listeners dropped, as their accept queue was full, or for lack of memory.
    /// No peer is known of them.
    pub listen_drops: u64,
    /// Round trips as TCP has smoothed them, of each connection at equal distances in time.
    pub round_trips: Histogram,
    /// Time for which the peer's window held data back, by TCP's own clock.
    pub window_limited: Nanos,
    /// Zero windows of peers that were seen: a window that closes and opens is one, however long it
    /// was closed.
    pub zero_windows: u64,
    /// Time that sends waited in TCP, by its chief reason, each reason at its number
    /// ([`WaitReason`] as `usize`).
    pub waited: [Nanos; WaitReason::ALL.len()],
}

/// The figures of a series that are counts.
const COUNTS: usize = 13;

impl Series {
    /// A series without sends.
    pub fn new(key: SeriesKey) -> Self {
        Self { key, ..Self::default() }
    }

    /// Whether nothing was counted in it.
    pub fn is_empty(&self) -> bool {
        self.legs.is_empty()
            && self.round_trips.count() == 0
            && self.window_limited.0 == 0
            && self.counts().into_iter().chain(self.waited.map(|waited| waited.0)).all(|count| count == 0)
    }

    /// Adds the figures of another series; its key is not looked at.
    pub fn merge(&mut self, other: &Self) {
        for (leg, histogram) in &other.legs {
            self.legs.entry(*leg).or_default().merge(histogram);
        }
        self.round_trips.merge(&other.round_trips);
        self.window_limited += other.window_limited;
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
        let round_trips = self.round_trips.difference(&earlier.round_trips)?;
        let window_limited = Nanos(self.window_limited.0.checked_sub(earlier.window_limited.0)?);
        let mut since = Self { key: self.key.clone(), legs, waited, round_trips, window_limited, ..Self::default() };
        for (count, (now, then)) in since.counts_mut().into_iter().zip(self.counts().into_iter().zip(earlier.counts()))
        {
            *count = now.checked_sub(then)?;
        }
        Some(since)
    }

    fn counts(&self) -> [u64; COUNTS] {
        let [probe, recovery, loss] = self.retransmitted_for;
        [
            self.sends,
            self.bytes,
            self.unacked,
            self.vague,
            self.sent_segments,
            self.retransmitted_segments,
            probe,
            recovery,
            loss,
            self.spurious_segments,
            self.dropped_segments,
            self.listen_drops,
            self.zero_windows,
        ]
    }

    /// In the order of [`Self::counts`].
    fn counts_mut(&mut self) -> [&mut u64; COUNTS] {
        let [probe, recovery, loss] = &mut self.retransmitted_for;
        [
            &mut self.sends,
            &mut self.bytes,
            &mut self.unacked,
            &mut self.vague,
            &mut self.sent_segments,
            &mut self.retransmitted_segments,
            probe,
            recovery,
            loss,
            &mut self.spurious_segments,
            &mut self.dropped_segments,
            &mut self.listen_drops,
            &mut self.zero_windows,
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
            retransmitted_segments: 6,
            retransmitted_for: [1, 2, 3],
            spurious_segments: 4,
            dropped_segments: 2,
            listen_drops: 5,
            round_trips: sends.iter().map(|ns| Nanos(*ns / 2)).collect(),
            window_limited: Nanos(7),
            zero_windows: 3,
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
        assert!(!Series { window_limited: Nanos(1), ..Series::default() }.is_empty());
        let measured = Series { round_trips: [Nanos(1)].into_iter().collect(), ..Series::default() };
        assert!(!measured.is_empty());
        // A round trip less than before: the key was away.
        assert_eq!(Series::default().since(&measured), Series::default());
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
