//! Counts of durations in buckets with a width that grows with the value: 2,048 to each doubling, so a reading is within 0.05 %.

use record::Nanos;
use serde::{Deserialize, Serialize};

const BITS: u32 = 12;

/// Durations counted while the path runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    n: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The distribution of a duration, with its n. Percentiles are the upper ends of their buckets, at most 0.05 % high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many were counted.
    pub n: u64,
    /// The smallest, exactly.
    #[serde(rename = "min_ns")]
    pub min: Nanos,
    /// The mean, exactly.
    #[serde(rename = "mean_ns")]
    pub mean: Nanos,
    /// Half lie at or below.
    #[serde(rename = "p50_ns")]
    pub p50: Nanos,
    /// 90 in 100 lie at or below.
    #[serde(rename = "p90_ns")]
    pub p90: Nanos,
    /// 99 in 100 lie at or below.
    #[serde(rename = "p99_ns")]
    pub p99: Nanos,
    /// 999 in 1,000 lie at or below.
    #[serde(rename = "p999_ns")]
    pub p999: Nanos,
    /// The largest, exactly.
    #[serde(rename = "max_ns")]
    pub max: Nanos,
}

fn bucket(value: u64) -> usize {
    let doubling = (64 - BITS).saturating_sub(value.leading_zeros());
    ((doubling as usize) << BITS) + (value >> doubling) as usize
}

fn upper_end(bucket: usize) -> u64 {
    let doubling = (bucket >> BITS) as u32;
    let low = ((bucket - ((doubling as usize) << BITS)) as u64) << doubling;
    low + ((1u64 << doubling) - 1)
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
        self.min = if self.n == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.n += times;
        self.sum += u128::from(value) * u128::from(times);
    }

    /// `None` where nothing was counted.
    pub(crate) fn distribution(&self) -> Option<Distribution> {
        if self.n == 0 {
            return None;
        }
        let percentile = |per_mille: u64| {
            let rank = (u128::from(self.n) * u128::from(per_mille)).div_ceil(1_000).max(1) as u64;
            let mut below = 0;
            let found = self.counts.iter().position(|c| {
                below += c;
                below >= rank
            });
            Nanos(found.map_or(self.max, upper_end).clamp(self.min, self.max))
        };
        Some(Distribution {
            n: self.n,
            min: Nanos(self.min),
            mean: Nanos((self.sum / u128::from(self.n)) as u64),
            p50: percentile(500),
            p90: percentile(900),
            p99: percentile(990),
            p999: percentile(999),
            max: Nanos(self.max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_within_its_width(value: u64) {
            let end = upper_end(bucket(value));
            prop_assert!(end >= value);
            prop_assert!(end - value <= value >> (BITS - 1));
        }

        #[test]
        fn percentiles_bracket_the_true_ones(mut values in prop::collection::vec(0u64..1_000_000_000, 1..300)) {
            let mut h = Histogram::default();
            values.iter().for_each(|v| h.add(*v, 1));
            values.sort_unstable();
            let d = h.distribution().unwrap();
            prop_assert_eq!((d.min.0, d.max.0, d.n), (values[0], values[values.len() - 1], values.len() as u64));
            for (read, share) in [(d.p50, 500), (d.p90, 900), (d.p99, 990), (d.p999, 999)] {
                let truth = values[(values.len() * share).div_ceil(1_000).max(1) - 1];
                prop_assert!(read.0 >= truth && read.0 - truth <= truth >> (BITS - 1));
            }
        }
    }
}
