//! The usual figures of durations, in the form in which they are written out.

use clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::{Distribution, Quantile};

/// The distribution of a duration, with its n. Percentiles are measured values by the nearest rank,
/// within the precision of the [`Distribution`] they come from; with few values the high ones are
/// the largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurationSummary {
    /// How many durations.
    pub n: u64,
    /// The shortest, exact.
    #[serde(rename = "min_ns")]
    pub min: Nanos,
    /// The mean, exact.
    #[serde(rename = "mean_ns")]
    pub mean: Nanos,
    /// Half are no longer.
    #[serde(rename = "p50_ns")]
    pub p50: Nanos,
    /// 90 % are no longer.
    #[serde(rename = "p90_ns")]
    pub p90: Nanos,
    /// 99 % are no longer.
    #[serde(rename = "p99_ns")]
    pub p99: Nanos,
    /// 99.9 % are no longer.
    #[serde(rename = "p999_ns")]
    pub p999: Nanos,
    /// The longest, exact.
    #[serde(rename = "max_ns")]
    pub max: Nanos,
}

impl DurationSummary {
    /// The figures of a distribution of nanoseconds; `None` where it is empty.
    pub fn of(nanoseconds: &Distribution) -> Option<Self> {
        let at = |quantile| nanoseconds.nearest_rank(quantile).map(Nanos);
        Some(Self {
            n: nanoseconds.n(),
            min: Nanos(nanoseconds.min()?),
            mean: Nanos((nanoseconds.sum() / u128::from(nanoseconds.n())) as u64),
            p50: at(Quantile::P50)?,
            p90: at(Quantile::P90)?,
            p99: at(Quantile::P99)?,
            p999: at(Quantile::P999)?,
            max: Nanos(nanoseconds.max()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_figures() {
        assert_eq!(DurationSummary::of(&Distribution::new(Precision::Fine)), None);
    }

    proptest! {
        #[test]
        fn percentiles_are_the_ranked_values(mut values in prop::collection::vec(0u64..4_000_000_000_000, 1..300)) {
            let mut counted = Distribution::new(Precision::Fine);
            values.iter().for_each(|v| counted.record(*v));
            values.sort_unstable();
            let s = DurationSummary::of(&counted).unwrap();
            prop_assert_eq!((s.min.0, s.max.0, s.n), (values[0], values[values.len() - 1], values.len() as u64));
            prop_assert_eq!(u128::from(s.mean.0), values.iter().map(|v| u128::from(*v)).sum::<u128>() / values.len() as u128);
            for (read, share) in [(s.p50, 500), (s.p90, 900), (s.p99, 990), (s.p999, 999)] {
                let truth = values[(values.len() * share).div_ceil(1_000).max(1) - 1];
                prop_assert!(read.0 >= truth && read.0 - truth <= truth / 1_000 + 1, "{} for {}", read.0, truth);
            }
        }
    }
}
