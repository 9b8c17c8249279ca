//! Confidence intervals by resampling (the bootstrap).
//!
//! The interval is BCa (Efron 1987), widened for small samples as Hesterberg advises (*What
//! Teachers Should Know about the Bootstrap*, 2015, section 4.3): a sample of n resampled varies by
//! (n − 1)/n too little, and normal quantiles stand in for Student's. Below [`FEWEST_RESAMPLED`]
//! values even these cover less than they say (93.5 % at eight), and a mean has Student's interval
//! instead; [`Estimate::method`] says which it was.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

use crate::sample::{deviation, mean, median, quantile_of_sorted};

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Bias-corrected and accelerated bootstrap, widened for small samples.
    Bca,
    /// Student's t: exact for values that are normally distributed.
    StudentT,
    /// An always-valid t test, for samples whose size depends on what was seen in them.
    AnytimeT,
    /// Ranks of the sample: holds whatever the distribution.
    Ranks,
    /// Percentiles of a bootstrap.
    Percentile,
}

/// An estimated figure: its value, its interval and how many values it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure of the sample itself.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The share of such intervals that covers the true value, such as 0.95.
    pub confidence: f64,
    /// Values in the sample.
    pub n: usize,
    /// How the interval was made.
    pub method: Method,
}

impl Estimate {
    /// Whether `value` lies within the interval.
    pub fn covers(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half of the interval's width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The same with ends that lie this much further out.
    #[must_use]
    pub fn widened(self, by: f64) -> Self {
        Self { low: self.low - by, high: self.high + by, ..self }
    }

    /// The same with `f`, which must not fall, applied to value and ends.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { value: f(self.value), low: f(self.low), high: f(self.high), ..self }
    }
}

/// Fewer values than this are not resampled.
pub const FEWEST_RESAMPLED: usize = 12;

/// Resamples of an interval: the ends of a 95 % interval then vary by some 2 % of its width with
/// the seed.
const RESAMPLES: usize = 2_000;

pub(crate) fn generator(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed)
}

/// Draws as many values as there are, each from all of them.
pub(crate) fn resample(rng: &mut Pcg64Mcg, from: &[f64], into: &mut Vec<f64>) {
    into.clear();
    into.extend((0..from.len()).map(|_| from[rng.random_range(0..from.len())]));
}

pub(crate) fn normal() -> Normal {
    Normal::standard()
}

/// From so many degrees of freedom on, Student's quantiles are made from those of the normal
/// distribution: the search of statrs loses digits there, and never ends from 10⁹ on.
const NEAR_NORMAL: usize = 1_000;

/// Student's quantile for `degrees` (at least one) at `share`; for many degrees by the expansion of
/// Cornish and Fisher (Abramowitz and Stegun 26.7.5).
pub(crate) fn student(degrees: usize, share: f64) -> f64 {
    if degrees >= NEAR_NORMAL {
        let (z, n) = (normal().inverse_cdf(share), degrees as f64);
        return z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
    }
    StudentsT::new(0.0, 1.0, degrees.max(1) as f64).map_or(f64::NAN, |t| t.inverse_cdf(share))
}

/// The two-sided p of Student's test that the mean is zero. `None` below two values.
pub fn student_p(values: &[f64]) -> Option<f64> {
    let (middle, spread) = (mean(values)?, deviation(values)?);
    if spread == 0.0 {
        return Some(if middle == 0.0 { 1.0 } else { 0.0 });
    }
    Some(student_tail(values.len() - 1, middle.abs() / spread * (values.len() as f64).sqrt()))
}

/// The chance of a value of Student's distribution at least `t` off zero, on either side.
pub(crate) fn student_tail(degrees: usize, t: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    StudentsT::new(0.0, 1.0, degrees.max(1) as f64).map_or(1.0, |law| (2.0 * law.sf(t)).min(1.0))
}

/// The mean with its interval. `None` below two values, or with a confidence outside (0, 1), or a
/// value that is not finite.
pub fn mean_interval(values: &[f64], confidence: f64, seed: u64) -> Option<Estimate> {
    let (value, n) = (mean(values)?, values.len());
    if !valid(values, confidence) {
        return None;
    }
    if n < FEWEST_RESAMPLED {
        let reach = student(n - 1, 0.5 + confidence / 2.0) * deviation(values)? / (n as f64).sqrt();
        let (low, high) = (value - reach, value + reach);
        return Some(Estimate { value, low, high, confidence, n, method: Method::StudentT });
    }
    bca(values, |v| mean(v).unwrap_or(f64::NAN), confidence, seed)
}

/// The median with an interval from the ranks of the sample, which holds whatever the distribution.
/// `None` where the sample is too small for it: a 95 % interval needs six values.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Estimate> {
    if !valid(values, confidence) {
        return None;
    }
    let sorted = crate::sample::sorted(values);
    let ranks = crate::quantile_ranks(sorted.len() as u64, 0.5, confidence)?;
    let at = |rank: u64| sorted.get(rank as usize - 1).copied();
    let (value, n) = (median(values)?, sorted.len());
    Some(Estimate { value, low: at(ranks.low)?, high: at(ranks.high)?, confidence, n, method: Method::Ranks })
}

/// Any `statistic` of a sample with its widened BCa interval. `None` as for [`mean_interval`].
pub fn bca(values: &[f64], statistic: impl Fn(&[f64]) -> f64, confidence: f64, seed: u64) -> Option<Estimate> {
    interval(values, statistic, confidence, seed, true)
}

fn valid(values: &[f64], confidence: f64) -> bool {
    values.len() >= 2 && confidence > 0.0 && confidence < 1.0 && values.iter().all(|v| v.is_finite())
}

fn interval(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    confidence: f64,
    seed: u64,
    widened: bool,
) -> Option<Estimate> {
    if !valid(values, confidence) {
        return None;
    }
    let (n, value) = (values.len(), statistic(values));
    let mut rng = generator(seed);
    let mut drawn = Vec::with_capacity(n);
    let mut replicates: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resample(&mut rng, values, &mut drawn);
            statistic(&drawn)
        })
        .filter(|r| r.is_finite())
        .collect();
    replicates.sort_by(f64::total_cmp);
    let (below, equal) = replicates.iter().fold((0.0, 0.0), |(below, equal), r| {
        if *r < value {
            (below + 1.0, equal)
        } else if *r == value {
            (below, equal + 1.0)
        } else {
            (below, equal)
        }
    });
    let estimate = |low, high| Some(Estimate { value, low, high, confidence, n, method: Method::Bca });
    // Half of the ties count as below, so that a statistic with few values is not called biased.
    let share = (below + equal / 2.0) / replicates.len() as f64;
    if !(share > 0.0 && share < 1.0) {
        return estimate(*replicates.first()?, *replicates.last()?);
    }
    let normal = normal();
    let bias = normal.inverse_cdf(share);
    let acceleration = acceleration(values, &statistic);
    let reach = if widened {
        student(n - 1, 0.5 + confidence / 2.0) * (n as f64 / (n - 1) as f64).sqrt()
    } else {
        normal.inverse_cdf(0.5 + confidence / 2.0)
    };
    let end = |z: f64| {
        let adjusted = bias + (bias + z) / (1.0 - acceleration * (bias + z));
        quantile_of_sorted(&replicates, normal.cdf(adjusted))
    };
    estimate(end(-reach)?, end(reach)?)
}

/// How the statistic's spread changes with its value, by excluding one value at a time.
fn acceleration(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> f64 {
    let without: Vec<f64> = (0..values.len())
        .map(|i| {
            let rest: Vec<f64> = values.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, v)| *v).collect();
            statistic(&rest)
        })
        .collect();
    let middle = mean(&without).unwrap_or(0.0);
    let (mut squares, mut cubes) = (0.0, 0.0);
    for w in without {
        squares += (middle - w).powi(2);
        cubes += (middle - w).powi(3);
    }
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_quantiles_of_many_degrees_agree_with_scipy() {
        // scipy.stats.t.ppf
        for (degrees, share, quantile) in [
            (999, 0.975, 1.9623414611),
            (1_000, 0.975, 1.9623390808),
            (1_000, 0.75, 0.6747351646),
            (1_000_000, 0.9995, 3.2905364612),
        ] {
            assert!(
                (student(degrees, share) - quantile).abs() < 1e-8,
                "{degrees} {share}: {}",
                student(degrees, share)
            );
        }
        assert_eq!(student(usize::MAX, 0.975), normal().inverse_cdf(0.975));
    }

    #[test]
    fn agrees_with_scipy() {
        // The LSAT scores of 15 law schools (Efron and Tibshirani 1993, table 3.1);
        // scipy.stats.bootstrap(…, np.mean, method='BCa', n_resamples=200000) gives 581.47 to
        // 622.33.
        let scores =
            [576.0, 635.0, 558.0, 578.0, 666.0, 580.0, 555.0, 661.0, 651.0, 605.0, 653.0, 575.0, 545.0, 572.0, 594.0];
        let plain = interval(&scores, |v| mean(v).unwrap(), 0.95, 1, false).unwrap();
        assert!((plain.low - 581.47).abs() < 1.5 && (plain.high - 622.33).abs() < 1.5, "{plain:?}");
        let widened = mean_interval(&scores, 0.95, 1).unwrap();
        assert!(widened.low < plain.low && widened.high > plain.high, "{widened:?}");
        assert_eq!(widened, mean_interval(&scores, 0.95, 1).unwrap());
        // scipy.stats.t.interval(0.95, 4, loc, sem) of the first five: 602.6 ± 56.8026.
        let few = mean_interval(&scores[..5], 0.95, 1).unwrap();
        assert_eq!(few.method, Method::StudentT);
        assert!((few.half_width() - 56.802_6).abs() < 1e-3 && (few.value - 602.6).abs() < 1e-9, "{few:?}");
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        assert_eq!(mean_interval(&[1.0], 0.95, 1), None);
        assert_eq!(mean_interval(&[1.0, f64::NAN], 0.95, 1), None);
        assert_eq!(mean_interval(&[1.0, 2.0], 1.0, 1), None);
        assert_eq!(median_interval(&[1.0, 2.0, 3.0], 0.95), None);
        let constant = mean_interval(&[2.0; 12], 0.95, 1).unwrap();
        assert_eq!((constant.low, constant.value, constant.high), (2.0, 2.0, 2.0));
    }

    /// A sum of uniforms, near enough to normal; or, skewed, its exponential.
    fn draw(rng: &mut Pcg64Mcg, skewed: bool) -> f64 {
        let z: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        if skewed { (z / 2.0).exp() } else { z }
    }

    #[test]
    fn intervals_cover_at_their_rate() {
        // E exp(Z/2) = exp(1/8) for a normal Z; a sum of twelve uniforms is within 0.1 % of it.
        for (n, skewed, truth) in [(5, false, 0.0), (12, false, 0.0), (30, true, 0.125_f64.exp())] {
            let mut rng = generator(7);
            let runs = 400;
            let covered = (0..runs)
                .filter(|&i| {
                    let values: Vec<f64> = (0..n).map(|_| draw(&mut rng, skewed)).collect();
                    mean_interval(&values, 0.95, i).unwrap().covers(truth)
                })
                .count();
            let share = covered as f64 / runs as f64;
            // Three standard errors of 400 runs are 3.3 points; a skewed mean is known to fall a
            // little short.
            assert!(share > if skewed { 0.89 } else { 0.917 } && share < 0.985, "n = {n}, skewed {skewed}: {share}");
        }
    }
}
