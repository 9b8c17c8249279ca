//! How long records of one kind took over time, in bounded memory.

use std::collections::BTreeMap;

use stats::{Distribution, Precision};

use crate::kind::TimedKind;
use crate::timed::Timed;

/// Intervals that a timeline has at most; half as many at least, once there is enough time.
const INTERVALS: usize = 160;

/// How wide the first intervals are, nanoseconds.
const NARROWEST: u64 = 1_000_000;

/// The records that began within one interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// How many.
    pub n: u64,
    /// The totals of those that have one, nanoseconds. They are kept roughly
    /// ([`Precision::Rough`]): enough for a plot.
    pub totals: Distribution,
}

impl Default for Interval {
    fn default() -> Self {
        Self { n: 0, totals: Distribution::new(Precision::Rough) }
    }
}

impl Interval {
    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.totals.merge(&other.totals);
    }
}

/// How many totals of an interval lie within a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heat {
    /// Which interval.
    pub interval: usize,
    /// The range, nanoseconds.
    pub range: [f64; 2],
    /// How many.
    pub n: u64,
}

/// Records of one kind by intervals of time, which double in width whenever there would be too many
/// of them.
#[derive(Clone, Debug)]
pub struct Timeline {
    kind: TimedKind,
    start: u64,
    last: u64,
    width: u64,
    intervals: Vec<Interval>,
}

impl Timeline {
    /// The most memory that one takes, bytes.
    pub const MEMORY: u64 = INTERVALS as u64 * Precision::Rough.memory();

    /// An empty one of records that begin at `start` of `CLOCK_MONOTONIC` or later, nanoseconds.
    pub const fn new(kind: TimedKind, start: u64) -> Self {
        Self { kind, start, last: start, width: NARROWEST, intervals: Vec::new() }
    }

    /// Adds a record of its kind. One without the stamp of its beginning has no place in time and
    /// is skipped.
    pub fn add<T: Timed>(&mut self, record: &T) {
        let Some(began) = record.began() else { return };
        let since = began.as_nanos().saturating_sub(self.start);
        let mut at = since / self.width;
        while at >= INTERVALS as u64 {
            self.halve();
            at = since / self.width;
        }
        let at = at as usize;
        if at >= self.intervals.len() {
            self.intervals.resize_with(at + 1, Interval::default);
        }
        let interval = &mut self.intervals[at];
        interval.n += 1;
        if let Ok(Some(total)) = record.time(self.kind.total()) {
            interval.totals.record(total.0);
            self.last = self.last.max(began.after(total).as_nanos());
        }
    }

    /// Puts two neighbours together each: half as many, twice as wide.
    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        let pairs = std::mem::take(&mut self.intervals);
        let mut pairs = pairs.into_iter();
        while let Some(mut first) = pairs.next() {
            pairs.next().iter().for_each(|second| first.merge(second));
            self.intervals.push(first);
        }
    }

    /// What it is of.
    pub const fn kind(&self) -> TimedKind {
        self.kind
    }

    /// How wide each interval is, nanoseconds.
    pub const fn width(&self) -> u64 {
        self.width
    }

    /// The intervals one after the other, the first of them at the start.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// How the totals lie over time: for each interval how many there are in each of `ranges`
    /// ranges, which are of one ratio and span all totals. Nothing where there is none.
    pub fn heat(&self, ranges: u32) -> Vec<Heat> {
        let totals = || self.intervals.iter().map(|interval| &interval.totals);
        let least = totals().filter_map(Distribution::min).min();
        let most = totals().filter_map(Distribution::max).max();
        let Some((least, most)) = least.zip(most).map(|(a, b)| (a.max(1) as f64, b.max(2) as f64)) else {
            return Vec::new();
        };
        let step = ((most * 1.001 / least).ln() / f64::from(ranges)).max(0.01);
        let mut all = Vec::new();
        for (interval, times) in totals().enumerate() {
            let mut counts = BTreeMap::<u32, u64>::new();
            for (value, n) in times.values() {
                *counts.entry(((value.max(1) as f64 / least).ln() / step).floor().max(0.0) as u32).or_default() += n;
            }
            let range = |range: u32| [range, range + 1].map(|end| least * (f64::from(end) * step).exp());
            all.extend(counts.into_iter().map(|(at, n)| Heat { interval, range: range(at), n }));
        }
        all
    }

    /// When the last record ended that has a total, nanoseconds of `CLOCK_MONOTONIC`; the start
    /// where there is none.
    pub const fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Disorder, Instant, Monotonic, Nanos, Owner};

    #[derive(Clone)]
    struct At(u64, Option<u64>);

    impl Timed for At {
        fn kind(&self) -> TimedKind {
            TimedKind::Packets
        }
        fn time(&self, _: usize) -> Result<Option<Nanos>, Disorder> {
            Ok(self.1.map(Nanos))
        }
        fn began(&self) -> Option<Instant<Monotonic>> {
            Some(Instant::from_nanos(self.0))
        }
        fn flow(&self) -> record::ConnectionId {
            record::ConnectionId::default()
        }
        fn owner(&self) -> Option<Owner> {
            None
        }
        fn bytes(&self) -> u64 {
            0
        }
    }

    #[test]
    fn intervals_double_and_hold_every_record() {
        let mut timeline = Timeline::new(TimedKind::Packets, 1_000);
        for ms in 0..1_000 {
            timeline.add(&At(1_000 + ms * 1_000_000, (ms % 4 > 0).then_some(ms)));
        }
        assert_eq!((timeline.width(), timeline.intervals().len()), (8_000_000, 125));
        assert!(timeline.intervals().iter().all(|i| (i.n, i.totals.n()) == (8, 6)));
        let last = &timeline.intervals()[124].totals;
        assert_eq!((last.min(), last.max()), (Some(993), Some(999)));
        assert_eq!(timeline.last(), 1_000 + 999 * 1_000_000 + 999);
        // One far beyond makes them wider at once; what is before the start counts as at it.
        timeline.add(&At(3_600_000_000_000, None));
        timeline.add(&At(0, None));
        let intervals = timeline.intervals();
        assert!(intervals.len() <= INTERVALS, "{}", intervals.len());
        assert_eq!(intervals.iter().map(|i| i.n).sum::<u64>(), 1_002);
        assert_eq!(intervals[0].n, 1_001);
    }
}
