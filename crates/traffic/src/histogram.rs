//! Latencies counted exactly enough: the one place that knows which histogram does it.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency that is told apart from longer ones: an hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// A histogram of latencies from 1 ns to an hour, each within 0.1 %. Longer ones are counted at an hour.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // These bounds are valid, so this cannot fail; the fallback grows as it needs to.
        Self(Histogram::new_with_bounds(1, HIGHEST_NS, 3).unwrap_or_else(|_| {
            Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are within the five allowed"))
        }))
    }
}

/// What a histogram says, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many latencies it is made of.
    pub n: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % are no longer.
    pub p90_ns: u64,
    /// 99 % are no longer.
    pub p99_ns: u64,
    /// 99.9 % are no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Latencies {
    /// Counts one.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.clamp(1, HIGHEST_NS));
    }

    /// Counts all of `other`.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so nothing can be out of range.
        self.0.add(&other.0).ok();
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many were counted.
    pub fn n(&self) -> u64 {
        self.0.len()
    }

    /// `fraction` of them (0 to 1) are no longer than this.
    pub fn quantile_ns(&self, fraction: f64) -> u64 {
        self.0.value_at_quantile(fraction)
    }

    /// The usual figures; all 0 where nothing was counted.
    pub fn summary(&self) -> Summary {
        if self.0.is_empty() {
            return Summary::default();
        }
        Summary {
            n: self.0.len(),
            min_ns: self.0.min(),
            mean_ns: self.0.mean() as u64,
            p50_ns: self.quantile_ns(0.5),
            p90_ns: self.quantile_ns(0.9),
            p99_ns: self.quantile_ns(0.99),
            p999_ns: self.quantile_ns(0.999),
            max_ns: self.0.max(),
        }
    }

    /// Every non-empty bucket: its upper bound in nanoseconds, and how many are in it.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|b| (b.value_iterated_to(), b.count_at_value())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_within_a_thousandth() {
        let mut h = Latencies::default();
        assert_eq!(h.summary(), Summary::default());
        for i in 1..=1000 {
            h.record(i * 1_000);
        }
        h.record(u64::MAX);
        let s = h.summary();
        assert_eq!((s.n, s.min_ns), (1001, 1_000));
        assert!(s.p50_ns.abs_diff(501_000) <= 501, "{s:?}");
        assert!(s.max_ns.abs_diff(HIGHEST_NS) <= HIGHEST_NS / 1000);
        assert_eq!(h.buckets().iter().map(|b| b.1).sum::<u64>(), 1001);
    }
}
