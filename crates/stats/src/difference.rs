//! What one setting is worth against another: the difference or the ratio within blocks, how large
//! it is against the spread, how surely it is one, and the smallest one that the run could have
//! seen.

use serde::{Deserialize, Serialize};

use crate::bootstrap::{Estimate, student_p};
use crate::judgement::{Judgement, offset};
use crate::sample::{deviation, mean};
use crate::{permutation, rank};

/// `b` against `a`, measured side by side in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Geometric mean of the ratios b/a within the blocks, less 1: 0.01 is 1 % more. A difference
    /// counts as seen where this interval leaves zero out.
    pub ratio: Estimate,
    /// Mean of the differences b − a within the blocks, in the unit of the values.
    pub difference: Estimate,
    /// Hedges' g: the difference in standard deviations of the values.
    pub hedges_g: f64,
    /// Cliff's delta: how much oftener a value of b is above one of a than below, −1 to 1.
    pub cliffs_delta: f64,
    /// Of the logarithms of the ratios, by Student's test.
    pub student_p: f64,
    /// Likewise, by flipping signs.
    pub permutation_p: f64,
    /// Likewise by Wilcoxon's signed ranks; absent where every ratio is 1.
    pub wilcoxon_p: Option<f64>,
    /// The smallest ratio, less 1, that a run with this spread and so many blocks sees four times
    /// in five, judged likewise.
    pub smallest_seen: f64,
    /// The p that belongs to the interval of the ratio: within [`LEVEL`](crate::LEVEL) exactly
    /// where that leaves zero out.
    #[serde(default)]
    pub p: f64,
    /// Standard error of the mean of the logarithms of the ratios.
    #[serde(default)]
    pub log_error: f64,
    /// Standard error of the mean of the differences.
    #[serde(default)]
    pub difference_error: f64,
    /// How far the logarithm of the ratio can be off in every block alike, because values are
    /// counted in whole units. The interval of the ratio reaches this much further to either side.
    #[serde(default)]
    pub resolution: f64,
}

impl Comparison {
    /// Of values in the same order of blocks. `None` below two blocks, where lengths differ, or
    /// where a value is not finite and above zero.
    pub fn of(a: &[f64], b: &[f64], seed: u64) -> Option<Self> {
        let positive = |v: &[f64]| v.iter().all(|v| v.is_finite() && *v > 0.0);
        if a.len() != b.len() || !positive(a) || !positive(b) {
            return None;
        }
        let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect();
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
        let n = logs.len();
        let error = |values: &[f64]| Some(deviation(values)? / (n as f64).sqrt());
        let (log_error, difference_error) = (error(&logs)?, error(&differences)?);
        let alone = Judgement::ALONE;
        Some(Self {
            ratio: alone.of(&logs)?.0.map(f64::exp_m1),
            difference: alone.around(mean(&differences)?, difference_error, n),
            hedges_g: hedges_g(a, b)?,
            cliffs_delta: cliffs_delta(a, b)?,
            student_p: student_p(&logs)?,
            permutation_p: permutation::paired(&logs, seed)?,
            wilcoxon_p: rank::wilcoxon(&logs),
            smallest_seen: alone.smallest_seen(n, log_error).exp_m1(),
            p: alone.of(&logs)?.1,
            log_error,
            difference_error,
            resolution: 0.0,
        })
    }

    /// The same of values that are no finer than this share of their ratio: what repeats in every
    /// block is no spread, so no number of blocks shows it. `resolution` is 0 or more, and finite.
    #[must_use]
    pub fn no_finer_than(self, resolution: f64) -> Self {
        Self { resolution, ..self }.judged(Judgement::ALONE)
    }

    /// The same, judged by another rule: intervals, p and the smallest difference that could be
    /// seen.
    #[must_use]
    pub fn judged(self, judgement: Judgement) -> Self {
        let (n, middle) = (self.ratio.n, self.ratio.value.ln_1p());
        let beyond = (middle.abs() - self.resolution).max(0.0);
        Self {
            ratio: judgement.around(middle, self.log_error, n).widened(self.resolution).map(f64::exp_m1),
            difference: judgement.around(self.difference.value, self.difference_error, n),
            p: judgement.p(n, offset(beyond, self.log_error)),
            smallest_seen: (judgement.smallest_seen(n, self.log_error) + self.resolution).exp_m1(),
            ..self
        }
    }

    /// Whether a difference was seen: the interval of the ratio leaves zero out.
    pub fn seen(&self) -> bool {
        !self.ratio.covers(0.0)
    }
}

/// Hedges' g of b over a: the difference of means over the pooled deviation, its small-sample bias
/// taken off (Hedges 1981). `None` below two values a side; infinite where nothing varies and the
/// means differ.
pub fn hedges_g(a: &[f64], b: &[f64]) -> Option<f64> {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let pooled = (((n - 1.0) * deviation(a)?.powi(2) + (m - 1.0) * deviation(b)?.powi(2)) / (n + m - 2.0)).sqrt();
    let difference = mean(b)? - mean(a)?;
    if difference == 0.0 {
        return Some(0.0);
    }
    Some(difference / pooled * (1.0 - 3.0 / (4.0 * (n + m - 2.0) - 1.0)))
}

/// Cliff's delta: P(b > a) − P(b < a) over all pairs (Cliff 1993). `None` where either is empty.
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> Option<f64> {
    let balance: i64 = b.iter().flat_map(|b| a.iter().map(move |a| b.total_cmp(a) as i64)).sum();
    (!a.is_empty() && !b.is_empty()).then(|| balance as f64 / (a.len() * b.len()) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::generator;
    use rand::RngExt as _;

    /// The figures of the reference text on the cost of TCP timestamps, Gbit/s.
    const ON: [f64; 10] = [9.39, 9.4, 9.4, 9.4, 9.39, 9.4, 9.39, 9.39, 9.38, 9.39];
    const OFF: [f64; 10] = [9.46, 9.46, 9.45, 9.47, 9.49, 9.47, 9.46, 9.48, 9.46, 9.47];

    #[test]
    fn the_published_timestamps_table() {
        let c = Comparison::of(&ON, &OFF, 1).unwrap();
        // From the framing: 1460/1448 − 1 = 0.829 %.
        assert!((c.ratio.value - 0.007_88).abs() < 5e-5 && c.ratio.covers(1_460.0 / 1_448.0 - 1.0), "{c:?}");
        assert_eq!(c.cliffs_delta, 1.0);
        // Pooled deviation and 1 − 3/71 by hand in NumPy.
        assert!((c.hedges_g - 7.470_695_392).abs() < 1e-6, "{c:?}");
        assert_eq!(c.permutation_p, 2.0 / 1_024.0);
        // scipy.stats.ttest_rel of the logarithms.
        assert!((c.student_p / 5.192_773_984e-8 - 1.0).abs() < 1e-6, "{c:?}");
        assert!(c.seen() && c.smallest_seen < 0.002, "{c:?}");
        assert_eq!(Comparison::of(&ON, &OFF[1..], 1), None);
        assert_eq!(Comparison::of(&[1.0, 0.0], &[1.0, 1.0], 1), None);
    }

    #[test]
    fn the_smallest_difference_is_that_of_the_power_tables() {
        // Paired t test, n = 5, two-sided 5 %, power 0.8: G*Power gives d = 1.6825; this closed
        // form is a little high.
        let error = 1.0 / 5_f64.sqrt();
        assert!((Judgement::ALONE.smallest_seen(5, error) / 1.68 - 1.0).abs() < 0.04);
        assert_eq!(Judgement::ALONE.smallest_seen(1, 1.0), f64::INFINITY);
    }

    #[test]
    fn a_verdict_never_contradicts_the_interval_beside_it() {
        // 17.5 % less with little spread in five blocks: alone it is seen, among many comparisons
        // the interval says why not.
        let a = [100.0, 101.0, 99.0, 100.5, 99.5];
        let b = [82.0, 84.5, 80.5, 85.0, 80.0];
        let c = Comparison::of(&a, &b, 1).unwrap();
        assert!(c.seen() && c.p <= crate::LEVEL);
        for comparisons in [1, 10, 100, 1_000, 100_000] {
            for sequential in [false, true] {
                let judged = c.judged(Judgement { comparisons, sequential });
                assert_eq!(judged.seen(), !judged.ratio.covers(0.0));
                assert_eq!(judged.seen(), judged.p <= crate::LEVEL, "{judged:?}");
                assert!(judged.smallest_seen >= c.smallest_seen);
                let back = judged.judged(Judgement::ALONE).ratio;
                assert!((back.low - c.ratio.low).abs() < 1e-12 && (back.high - c.ratio.high).abs() < 1e-12);
            }
        }
        assert!(!c.judged(Judgement { comparisons: 100_000, sequential: false }).seen());
    }

    fn noise(rng: &mut rand_pcg::Pcg64Mcg) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    #[test]
    fn where_there_is_no_difference_none_is_seen_and_where_there_is_one_it_is() {
        let mut rng = generator(4);
        let mut run = |effect: f64, seed: u64| {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for _ in 0..10 {
                // Blocks differ by more than the settings do.
                let block = 940.0 * (1.0 + 0.02 * noise(&mut rng));
                a.push(block * (1.0 + 0.002 * noise(&mut rng)));
                b.push(block * (1.0 + effect) * (1.0 + 0.002 * noise(&mut rng)));
            }
            Comparison::of(&a, &b, seed).unwrap()
        };
        let false_ones = (0..100)
            .filter(|&s| {
                let c = run(0.0, s);
                c.seen()
            })
            .count();
        assert!(false_ones <= 5, "{false_ones} of 100 runs without a difference saw one");
        let one_percent: Vec<Comparison> = (0..100).map(|s| run(-0.01, s)).collect();
        assert_eq!(one_percent.iter().filter(|c| c.seen()).count(), 100);
        let covered = one_percent.iter().filter(|c| c.ratio.covers(-0.01)).count();
        assert!(covered >= 90, "{covered} of 100 intervals cover the 1 % put in");
        // The smallest difference that it could have seen is seen about four times in five.
        let smallest = one_percent.iter().map(|c| c.smallest_seen).sum::<f64>() / 100.0;
        let found = (0..200)
            .filter(|&s| {
                let c = run(smallest, s);
                c.seen()
            })
            .count();
        assert!((130..=185).contains(&found), "{found} of 200 at {smallest}");
    }
}
