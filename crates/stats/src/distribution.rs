//! A distribution in bounded memory, with its quantiles.

use std::fmt;

use hdrhistogram::Histogram;

use crate::quantile_ranks;

/// How finely values are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Three significant digits (0.1 %). At most 440 KiB a distribution.
    Fine,
    /// Two significant digits (1 %). At most 58 KiB a distribution.
    Coarse,
    /// One significant digit (7 %), for plots of many distributions. At most 8 KiB a distribution.
    Rough,
}

impl Precision {
    const fn digits(self) -> u8 {
        match self {
            Self::Fine => 3,
            Self::Coarse => 2,
            Self::Rough => 1,
        }
    }

    /// The most memory that a distribution takes, bytes.
    pub const fn memory(self) -> u64 {
        match self {
            Self::Fine => 440 << 10,
            Self::Coarse => 58 << 10,
            Self::Rough => 8 << 10,
        }
    }
}

/// A quantile, in thousandths: [`Quantile::P99`] is the value that 99 % of the values do not
/// exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantile(u16);

impl Quantile {
    /// The median.
    pub const P50: Self = Self(500);
    /// 90 %.
    pub const P90: Self = Self(900);
    /// 99 %.
    pub const P99: Self = Self(990);
    /// 99.9 %.
    pub const P999: Self = Self(999);

    /// The ones that reports show.
    pub const SHOWN: [Self; 4] = [Self::P50, Self::P90, Self::P99, Self::P999];

    /// The quantile at this many thousandths, 1 to 999.
    pub const fn from_thousandths(thousandths: u16) -> Option<Self> {
        if thousandths >= 1 && thousandths <= 999 { Some(Self(thousandths)) } else { None }
    }

    /// As a share in (0, 1).
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1e3
    }

    /// The fewest values that carry it: at least one is expected beyond it on either side, so that
    /// it is neither the smallest nor the largest value under another name.
    pub const fn needs(self) -> u64 {
        let rarer = if self.0 < 500 { self.0 } else { 1_000 - self.0 };
        1_000_u64.div_ceil(rarer as u64)
    }
}

/// `p50`, `p99`, `p99.9`.
impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, tenth) = (self.0 / 10, self.0 % 10);
        f.pad(&if tenth == 0 { format!("p{whole}") } else { format!("p{whole}.{tenth}") })
    }
}

/// Values as a log-linear histogram: memory grows with their range, never with their number.
#[derive(Clone, Debug)]
pub struct Distribution {
    precision: Precision,
    // Made with the first value: most connections of a busy host never have one in most legs.
    histogram: Option<Box<Histogram<u64>>>,
    n: u64,
    min: u64,
    max: u64,
    sum: u128,
}

impl Distribution {
    /// An empty one.
    pub const fn new(precision: Precision) -> Self {
        Self { precision, histogram: None, n: 0, min: u64::MAX, max: 0, sum: 0 }
    }

    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.add(value, 1);
    }

    /// Adds a value `count` times.
    pub fn record_many(&mut self, value: u64, count: u64) {
        if count > 0 {
            self.add(value, count);
        }
    }

    /// In both, so that one value costs no more than it must.
    #[inline(always)]
    fn add(&mut self, value: u64, count: u64) {
        let histogram = self.histogram.get_or_insert_with(|| Box::new(empty(self.precision)));
        // An auto-resizing histogram takes every u64, save where memory for the buckets is refused;
        // n would then show it.
        if histogram.record_n(value, count).is_err() {
            return;
        }
        self.n = self.n.saturating_add(count);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(u128::from(value) * u128::from(count));
    }

    /// Adds the values of another, which may be of the other precision; this one's stays.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.histogram else { return };
        let histogram = self.histogram.get_or_insert_with(|| Box::new(empty(self.precision)));
        if histogram.add(theirs.as_ref()).is_err() {
            return;
        }
        self.n = self.n.saturating_add(other.n);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many values.
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// The smallest value, exact.
    pub fn min(&self) -> Option<u64> {
        (self.n > 0).then_some(self.min)
    }

    /// The largest value, exact.
    pub fn max(&self) -> Option<u64> {
        (self.n > 0).then_some(self.max)
    }

    /// All values together, exact.
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The value with the quantile's rank, or `None` where there are fewer than
    /// [`Quantile::needs`].
    pub fn quantile(&self, quantile: Quantile) -> Option<u64> {
        if self.n < quantile.needs() { None } else { self.nearest_rank(quantile) }
    }

    /// The value with the quantile's rank however few there are: with ten values the 99th
    /// percentile is the largest. `None` where there is no value.
    pub fn nearest_rank(&self, quantile: Quantile) -> Option<u64> {
        if self.n == 0 {
            return None;
        }
        self.at_rank((u128::from(self.n) * u128::from(quantile.0)).div_ceil(1_000) as u64)
    }

    /// An interval that covers the true quantile with at least this `confidence` (0.95, say)
    /// whatever the shape of the distribution, provided that the values are independent of each
    /// other. `None` where `n` is too small.
    pub fn interval(&self, quantile: Quantile, confidence: f64) -> Option<(u64, u64)> {
        let ranks = quantile_ranks(self.n, quantile.share(), confidence)?;
        Some((self.at_rank(ranks.low)?, self.at_rank(ranks.high)?))
    }

    /// The value with this rank, 1 being the smallest, within the precision.
    fn at_rank(&self, rank: u64) -> Option<u64> {
        let histogram = self.histogram.as_ref()?;
        // Half a rank lower, because the histogram rounds the rank up from a share that a float may
        // have rounded up.
        let share = (rank as f64 - 0.5).max(0.0) / self.n as f64;
        Some(histogram.value_at_quantile(share).clamp(self.min, self.max))
    }

    /// How many values lie in `low..high`, for drawing: a value at a border may fall to either side
    /// of it.
    pub fn count_between(&self, low: u64, high: u64) -> u64 {
        match &self.histogram {
            Some(histogram) if high > low => histogram.count_between(low, high - 1),
            _ => 0,
        }
    }

    /// The values in rising order with their counts, as finely as they were kept. Values that were
    /// not distinguished come as the largest of them.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        let (min, max) = (self.min, self.max);
        self.histogram.iter().flat_map(move |histogram| {
            histogram
                .iter_recorded()
                .map(move |v| (v.value_iterated_to().clamp(min, max), v.count_since_last_iteration()))
        })
    }
}

fn empty(precision: Precision) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 1 << 20, precision.digits())
        .unwrap_or_else(|_| unreachable!("bounds and digits are constants that the histogram accepts"));
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(precision: Precision, values: &[u64]) -> Distribution {
        let mut d = Distribution::new(precision);
        values.iter().for_each(|&v| d.record(v));
        d
    }

    #[test]
    fn a_quantile_needs_enough_values() {
        assert_eq!(Quantile::SHOWN.map(Quantile::needs), [2, 10, 100, 1_000]);
        let mut d = Distribution::new(Precision::Fine);
        assert_eq!((d.n(), d.min(), d.max(), d.quantile(Quantile::P50)), (0, None, None, None));
        (1..=999).for_each(|v| d.record(v));
        assert_eq!(d.quantile(Quantile::P999), None);
        d.record(1_000);
        assert_eq!(d.quantile(Quantile::P999), Some(999));
        assert_eq!(d.quantile(Quantile::P50), Some(500));
    }

    #[test]
    fn names() {
        assert_eq!(Quantile::SHOWN.map(|q| q.to_string()), ["p50", "p90", "p99", "p99.9"]);
        assert_eq!(Quantile::from_thousandths(0), None);
        assert_eq!(Quantile::from_thousandths(1_000), None);
        assert_eq!(Quantile::from_thousandths(1).map(Quantile::needs), Some(1_000));
    }

    #[test]
    fn the_whole_range_fits_the_memory_that_is_stated() {
        for precision in [Precision::Fine, Precision::Coarse, Precision::Rough] {
            let bound = precision.memory() as usize;
            let d = of(precision, &[0, 1, u64::MAX]);
            assert_eq!((d.n(), d.min(), d.max()), (3, Some(0), Some(u64::MAX)));
            let held = d.histogram.as_ref().map_or(0, |h| h.distinct_values() * size_of::<u64>());
            assert!(held <= bound && held > bound * 9 / 10, "{precision:?} holds {held} bytes");
        }
    }

    proptest! {
        #[test]
        fn quantiles_are_the_ranked_values_within_the_precision(
            mut values in prop::collection::vec(prop_oneof![0u64..5_000, 0u64..10_000_000_000, any::<u64>()], 100..400),
            (precision, parts) in prop_oneof![
                Just((Precision::Fine, 1_000)),
                Just((Precision::Coarse, 100)),
                Just((Precision::Rough, 15)),
            ],
        ) {
            let d = of(precision, &values);
            values.sort_unstable();
            let n = values.len() as u64;
            prop_assert_eq!((d.n(), d.min(), d.max()), (n, values.first().copied(), values.last().copied()));
            prop_assert_eq!(d.sum(), values.iter().map(|&v| u128::from(v)).sum::<u128>());
            for q in [Quantile::P50, Quantile::P90, Quantile::P99] {
                let truth = values[(n * u64::from(q.0)).div_ceil(1_000) as usize - 1];
                let got = d.quantile(q).unwrap();
                let allowed = truth / parts + 1;
                prop_assert!(got.abs_diff(truth) <= allowed, "{q}: {got} for {truth}");
                if let Some((low, high)) = d.interval(q, 0.95) {
                    prop_assert!(low <= got && got <= high, "{q}: {low}..{high} without {got}");
                }
            }
        }

        #[test]
        fn merging_is_recording_both(a in prop::collection::vec(any::<u64>(), 0..60), b in prop::collection::vec(any::<u64>(), 0..60)) {
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            let (whole, mut merged) = (of(Precision::Fine, &both), of(Precision::Fine, &a));
            merged.merge(&of(Precision::Fine, &b));
            prop_assert_eq!((merged.n(), merged.min(), merged.max(), merged.sum()), (whole.n(), whole.min(), whole.max(), whole.sum()));
            prop_assert_eq!(merged.values().collect::<Vec<_>>(), whole.values().collect::<Vec<_>>());
            prop_assert_eq!(merged.values().map(|v| v.1).sum::<u64>(), both.len() as u64);
        }
    }
}
