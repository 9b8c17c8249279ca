//! By what rule a difference is judged. Its test, its interval and the smallest difference that
//! could be seen are of one kind and one level, so that a verdict never contradicts the interval
//! beside it.
//!
//! Where several comparisons are judged together, each has its share of [`LEVEL`] (Bonferroni): all
//! their intervals hold at the same time in at least 95 % of studies, however the comparisons
//! depend on each other.
//!
//! Where the number of blocks was planned, intervals and tests are Student's. Where a study looks
//! at its values after each block and stops by what it sees, Student's are wrong: they stop where
//! the spread looks small by chance. Then they are those of the t test that holds at every moment:
//! the Bayes factor of a mean that lies 0 ± 1/√c² standard deviations off against none, with the
//! spread unknown (right Haar prior), is a test martingale, which reaches 1/α with a chance of at
//! most α, ever (Lai 1976; Wang and Ramdas 2025, *Anytime-valid t-tests and confidence sequences
//! for Gaussian means with unknown variance*).

use crate::bootstrap::{Estimate, Method, student, student_tail};
use crate::sample::{deviation, mean};

/// The chance of claiming any difference where there is none, over all comparisons that are judged
/// together.
pub const LEVEL: f64 = 0.05;

/// The power at which the smallest difference is stated.
pub(crate) const POWER: f64 = 0.8;

/// c² of the sequential test: effects of about 1.4 standard deviations are expected, for which 10
/// to 40 blocks decide.
const PRECISION: f64 = 0.5;

/// By what rule a difference is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// How many comparisons are judged together, this one included.
    pub comparisons: usize,
    /// Whether the number of blocks was decided by what was seen in them.
    pub sequential: bool,
}

impl Judgement {
    /// One comparison, of as many blocks as were planned.
    pub const ALONE: Self = Self { comparisons: 1, sequential: false };

    /// The level of one comparison.
    fn level(self) -> f64 {
        LEVEL / self.comparisons.max(1) as f64
    }

    /// How many standard errors an interval reaches to either side; infinite where `n` values
    /// cannot bound it.
    pub fn reach(self, n: usize) -> f64 {
        if n < 2 {
            return f64::INFINITY;
        }
        if !self.sequential {
            return student(n - 1, 1.0 - self.level() / 2.0);
        }
        let n = n as f64;
        let shrink = PRECISION / (n + PRECISION);
        let bound = (shrink.sqrt() * self.level()).powf(-2.0 / n);
        let left = 1.0 - bound * shrink;
        if left > 0.0 { ((n - 1.0) * (bound - 1.0) / left).sqrt() } else { f64::INFINITY }
    }

    /// The p of a mean that lies `t` standard errors off zero, as it counts among all comparisons.
    pub fn p(self, n: usize, t: f64) -> f64 {
        if n < 2 {
            return 1.0;
        }
        let alone = if self.sequential {
            let n = n as f64;
            let shrink = PRECISION / (n + PRECISION);
            let ratio = if t.is_finite() { (n - 1.0 + t * t) / (n - 1.0 + t * t * shrink) } else { 1.0 / shrink };
            1.0 / (shrink.sqrt() * ratio.powf(n / 2.0))
        } else {
            student_tail(n - 1, t)
        };
        (alone * self.comparisons.max(1) as f64).min(1.0)
    }

    /// A mean with its interval.
    pub fn around(self, value: f64, error: f64, n: usize) -> Estimate {
        // No spread at all is an interval without width, even where nothing bounds the reach.
        let reach = if error == 0.0 { 0.0 } else { self.reach(n) * error };
        let method = if self.sequential { Method::AnytimeT } else { Method::StudentT };
        Estimate { value, low: value - reach, high: value + reach, confidence: 1.0 - self.level(), n, method }
    }

    /// The mean of values with its interval and p. `None` below two values, or where one is not
    /// finite.
    pub fn of(self, values: &[f64]) -> Option<(Estimate, f64)> {
        if values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let (value, n) = (mean(values)?, values.len());
        let error = deviation(values)? / (n as f64).sqrt();
        Some((self.around(value, error, n), self.p(n, offset(value, error))))
    }

    /// The same of values that can all be off by up to `resolution` in the same direction, which no
    /// spread shows. It is 0 or more, and finite.
    pub fn no_finer_than(self, resolution: f64, values: &[f64]) -> Option<(Estimate, f64)> {
        let (found, _) = self.of(values)?;
        let error = deviation(values)? / (values.len() as f64).sqrt();
        let beyond = (found.value.abs() - resolution).max(0.0);
        Some((found.widened(resolution), self.p(values.len(), offset(beyond, error))))
    }

    /// The smallest true mean that is seen four times in five, at this standard error of `n`
    /// values.
    pub fn smallest_seen(self, n: usize, error: f64) -> f64 {
        if n < 2 { f64::INFINITY } else { (self.reach(n) + student(n - 1, POWER)) * error }
    }
}

/// How many standard errors a mean lies off zero.
pub(crate) fn offset(value: f64, error: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.abs() / error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::generator;
    use rand::RngExt as _;

    const SEQUENTIAL: Judgement = Judgement { comparisons: 1, sequential: true };

    #[test]
    fn an_interval_leaves_zero_out_exactly_where_p_is_within_the_level() {
        for comparisons in [1, 2, 7, 40] {
            for sequential in [false, true] {
                let judgement = Judgement { comparisons, sequential };
                for n in [2, 3, 5, 12, 60] {
                    let reach = judgement.reach(n);
                    if !reach.is_finite() {
                        assert!(judgement.p(n, f64::INFINITY) > LEVEL, "{judgement:?} {n}");
                        continue;
                    }
                    assert!(judgement.p(n, reach * 1.000_1) < LEVEL, "{judgement:?} {n}");
                    assert!(judgement.p(n, reach * 0.999_9) > LEVEL, "{judgement:?} {n}");
                }
            }
        }
    }

    #[test]
    fn student_is_that_of_the_tables_and_the_sequential_one_reaches_further() {
        assert!((Judgement::ALONE.reach(10) - 2.262_157).abs() < 1e-5);
        // t(0.995, 9), for five comparisons.
        let five = Judgement { comparisons: 5, sequential: false };
        assert!((five.reach(10) - 3.249_836).abs() < 1e-5);
        for n in [5, 10, 20, 100] {
            let (planned, sequential) = (Judgement::ALONE.reach(n), SEQUENTIAL.reach(n));
            assert!(sequential > planned && sequential < 3.0 * planned, "{n}: {sequential} against {planned}");
        }
    }

    fn noise(rng: &mut rand_pcg::Pcg64Mcg) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    /// Of so many runs without a difference, in how many one is claimed, where each stops once its
    /// interval reaches no further than `until` standard deviations; and in how many the interval
    /// misses the truth.
    fn false_claims(judgement: Judgement, until: f64, runs: u32, seed: u64) -> u32 {
        let mut rng = generator(seed);
        (0..runs)
            .filter(|_| {
                let mut values = Vec::new();
                loop {
                    values.push(noise(&mut rng));
                    if values.len() < 5 {
                        continue;
                    }
                    let (interval, p) = judgement.of(&values).unwrap();
                    if interval.half_width() <= until || values.len() == 60 {
                        assert_eq!(interval.covers(0.0), p > LEVEL);
                        break !interval.covers(0.0);
                    }
                }
            })
            .count() as u32
    }

    #[test]
    fn stopping_by_looking_claims_no_more_than_the_level() {
        const RUNS: u32 = 1_000;
        for (until, seed) in [(1.0, 1), (0.7, 2), (0.5, 3)] {
            let planned = false_claims(Judgement::ALONE, until, RUNS, seed);
            let sequential = false_claims(SEQUENTIAL, until, RUNS, seed);
            assert!(sequential * 20 <= RUNS, "until {until}: {sequential} of {RUNS}");
            // What this is for: Student's interval claims more than it says when it is stopped so.
            assert!(planned > sequential, "until {until}: {planned} against {sequential} of {RUNS}");
        }
        assert!(false_claims(Judgement::ALONE, 1.0, RUNS, 1) * 20 > RUNS, "Student's would do");
    }

    #[test]
    fn even_the_worst_stopping_rule_claims_no_more_than_the_level() {
        // Stops at the first block that shows a difference: every look is a chance to be wrong.
        let mut rng = generator(9);
        let runs = 1_000;
        let mut wrong = [0, 0];
        for _ in 0..runs {
            let (mut values, mut claimed) = (Vec::new(), [false, false]);
            for _ in 0..100 {
                values.push(noise(&mut rng));
                for (claimed, judgement) in claimed.iter_mut().zip([SEQUENTIAL, Judgement::ALONE]) {
                    *claimed |= judgement.of(&values).is_some_and(|(interval, _)| !interval.covers(0.0));
                }
            }
            wrong = [wrong[0] + u32::from(claimed[0]), wrong[1] + u32::from(claimed[1])];
        }
        assert!(wrong[0] * 20 <= runs, "{wrong:?} of {runs}");
        assert!(wrong[1] * 4 > runs, "Student's would do: {wrong:?} of {runs}");
    }

    #[test]
    fn intervals_judged_together_all_hold_in_their_share_of_studies() {
        let (mut rng, runs, k) = (generator(5), 1_000, 6);
        let judgement = Judgement { comparisons: k, sequential: false };
        let missed = (0..runs)
            .filter(|_| {
                (0..k).any(|_| {
                    let values: Vec<f64> = (0..8).map(|_| noise(&mut rng)).collect();
                    !judgement.of(&values).unwrap().0.covers(0.0)
                })
            })
            .count();
        // 5 % of 1,000 and three standard errors.
        assert!(missed <= 71, "{missed} of {runs}");
    }
}
