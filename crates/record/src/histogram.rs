//! Histograms of durations with exponential bounds, and the series that they are kept in.
//!
//! The bounds are those of schema 3 of Prometheus' native histograms, on seconds: bucket *i* holds
//! the durations in (2^((i−1)/8), 2^(i/8)] s, so a bucket's upper bound is 9.05 % above its lower
//! one. OpenTelemetry's exponential histogram of scale 3 has the same bounds and counts them from
//! one lower. A duration of zero is in no bucket and is counted apart.

mod bounds;
mod connections;
mod exemplars;
mod group;
mod names;
mod requests;
mod series;

use std::collections::BTreeMap;

use crate::Nanos;

pub use bounds::{HIGHEST, LOWEST, UPPER_BOUNDS_NS, bucket_of, upper_bound_ns};
pub use connections::Connections;
pub use exemplars::{Exemplar, Exemplars};
pub use group::{GroupBy, OVERFLOW};
pub use names::Names;
pub use requests::{Requests, StatusClass};
pub use series::{Series, SeriesKey};

/// Adds counts by their keys.
fn add<K: Clone + Ord>(counts: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, n) in more {
        let count = counts.entry(key.clone()).or_default();
        *count = count.saturating_add(*n);
    }
}

/// The schema of the bounds, as Prometheus numbers them, and the scale, as OpenTelemetry does.
pub const SCHEMA: i32 = 3;

/// How durations are distributed, by buckets of [`bucket_of`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Sum of all durations; saturates.
    pub sum: Nanos,
    /// Durations of zero.
    pub zero: u64,
    /// The count of each bucket that is not empty, by its index.
    pub buckets: BTreeMap<i32, u64>,
}

/// The bucket that a quantile lies in: above `above`, and at most `up_to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound, itself not in the bucket; rounded down to whole nanoseconds.
    pub above: Nanos,
    /// Upper bound, in the bucket; rounded down to whole nanoseconds, which leaves the same whole
    /// durations in the bucket.
    pub up_to: Nanos,
}

impl Bounds {
    /// The bounds of a bucket.
    pub fn of(bucket: i32) -> Self {
        Self { above: Nanos(upper_bound_ns(bucket.saturating_sub(1))), up_to: Nanos(upper_bound_ns(bucket)) }
    }

    /// The duration in the middle of the bucket by ratio: at most 4.4 % from any duration in it.
    /// Zero for durations of zero.
    pub fn middle(self) -> Nanos {
        Nanos((self.above.0 as f64 * self.up_to.0 as f64).sqrt().round() as u64)
    }
}

impl Histogram {
    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.buckets.values().fold(self.zero, |sum, n| sum.saturating_add(*n))
    }

    /// Adds one duration.
    pub fn add(&mut self, value: Nanos) {
        self.add_times(value, 1);
    }

    /// Adds one duration so many times.
    pub fn add_times(&mut self, value: Nanos, times: u64) {
        self.sum += Nanos(value.0.saturating_mul(times));
        let count = match bucket_of(value) {
            Some(bucket) => self.buckets.entry(bucket).or_default(),
            None => &mut self.zero,
        };
        *count = count.saturating_add(times);
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.zero = self.zero.saturating_add(other.zero);
        for (bucket, n) in &other.buckets {
            let count = self.buckets.entry(*bucket).or_default();
            *count = count.saturating_add(*n);
        }
    }

    /// What was added since `earlier`, an earlier state of the same histogram. Where any count is
    /// smaller than it was, this is no later state of it but one that began anew, and all of it is
    /// returned.
    pub fn since(&self, earlier: &Self) -> Self {
        self.difference(earlier).unwrap_or_else(|| self.clone())
    }

    pub(crate) fn difference(&self, earlier: &Self) -> Option<Self> {
        let empty = |(_, n): &(i32, u64)| *n > 0;
        let less = |bucket: i32, n: u64| n.checked_sub(earlier.buckets.get(&bucket).copied().unwrap_or(0));
        if earlier.buckets.iter().any(|(bucket, n)| *n > 0 && !self.buckets.contains_key(bucket)) {
            return None;
        }
        let buckets: Option<BTreeMap<_, _>> =
            self.buckets.iter().map(|(bucket, n)| Some((*bucket, less(*bucket, *n)?))).collect();
        Some(Self {
            sum: Nanos(self.sum.0.checked_sub(earlier.sum.0)?),
            zero: self.zero.checked_sub(earlier.zero)?,
            buckets: buckets?.into_iter().filter(empty).collect(),
        })
    }

    /// The bucket that holds the value which this share of all values, in [0, 1], does not exceed;
    /// both bounds are zero for durations of zero. `None` without any value.
    pub fn quantile(&self, share: f64) -> Option<Bounds> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count);
        if rank <= self.zero {
            return Some(Bounds { above: Nanos::ZERO, up_to: Nanos::ZERO });
        }
        let mut below = self.zero;
        for (bucket, n) in &self.buckets {
            below = below.saturating_add(*n);
            if rank <= below {
                return Some(Bounds::of(*bucket));
            }
        }
        None
    }
}

impl Extend<Nanos> for Histogram {
    fn extend<I: IntoIterator<Item = Nanos>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.add(value));
    }
}

impl FromIterator<Nanos> for Histogram {
    fn from_iter<I: IntoIterator<Item = Nanos>>(values: I) -> Self {
        let mut histogram = Self::default();
        histogram.extend(values);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        values.iter().map(|ns| Nanos(*ns)).collect()
    }

    fn durations() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(prop_oneof![0..100_u64, 0..20_000_000_000_u64], 0..60)
    }

    #[test]
    fn a_series_that_began_anew_is_returned_whole() {
        let later = of(&[5, 7]);
        assert_eq!(later.since(&of(&[5, 7, 1_000_000])), later);
        assert_eq!(later.since(&of(&[100])), later);
        assert_eq!(of(&[0, 0, 5]).since(&of(&[0])), of(&[0, 5]));
    }

    #[test]
    fn quantiles_of_nothing_and_of_zeros() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        let zeros = of(&[0, 0, 0, 1_000_000_000]);
        assert_eq!(zeros.quantile(0.75), Some(Bounds { above: Nanos(0), up_to: Nanos(0) }));
        assert_eq!(zeros.quantile(0.76), Some(Bounds::of(0)));
        assert_eq!(zeros.quantile(f64::NAN).unwrap().up_to, Nanos(0));
    }

    #[test]
    fn the_middle_is_within_half_a_bucket() {
        let bounds = Bounds::of(bucket_of(Nanos(1_234_567)).unwrap());
        let middle = bounds.middle().0 as f64;
        assert!(middle / bounds.above.0 as f64 <= 1.0443 && bounds.up_to.0 as f64 / middle <= 1.0443, "{bounds:?}");
    }

    proptest! {
        #[test]
        fn what_is_merged_is_what_was_added(a in durations(), b in durations()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(&merged, &of(&both));
            prop_assert_eq!(merged.since(&of(&a)), of(&b));
            prop_assert_eq!(merged.count(), both.len() as u64);
        }

        #[test]
        fn the_quantile_lies_in_its_bucket(values in durations(), thousandths in 0..=1000_u32) {
            prop_assume!(!values.is_empty());
            let share = f64::from(thousandths) / 1e3;
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = sorted[rank - 1];
            let bounds = of(&values).quantile(share).unwrap();
            prop_assert!(exact == bounds.up_to.0 || (bounds.above.0 < exact && exact <= bounds.up_to.0), "{} {:?}", exact, bounds);
        }
    }
}
