//! Means of a series in which neighbouring values are alike, as in a measurement: a busy machine
//! stays busy for a while.
//!
//! An interval made as for independent values is too narrow there: a hundred values of which ten on
//! end say the same are ten. The values are therefore averaged in batches that grow until
//! neighbouring batches are no longer alike (Fishman, *Operations Research* 26, 1978). Where the
//! series is too short for that, what is left is corrected as for an autoregressive series of first
//! order. A movement slower than a third of the series cannot be seen in it, and is in no interval.

use crate::Estimate;
use crate::bootstrap::{Method, student};
use crate::sample::{deviation, mean};
use crate::unpaired::welch;

/// Fewer batches than this are not averaged further: their deviation would be known too badly.
const FEWEST_BATCHES: usize = 10;

/// Batches that are alike by more than this, as a correlation, are averaged further.
const ALIKE: f64 = 0.1;

/// Fewer values than this show no correlation.
const FEWEST_CORRELATED: usize = 6;

/// The most that is corrected for: one value that says as much as forty.
const MOST_ALIKE: f64 = 0.95;

/// The mean of a series with levels, each slice being one, in their order, with its interval. A
/// change of level between two slices adds nothing to it. `None` without two values in each, or
/// with a confidence outside (0, 1), or a value that is not finite.
pub fn series_mean(levels: &[&[f64]], confidence: f64) -> Option<Estimate> {
    let all: usize = levels.iter().map(|level| level.len()).sum();
    let parts = levels.iter().map(|level| Some((level.len() as f64 / all as f64, Level::of(level)?)));
    let parts: Vec<(f64, Level)> = parts.collect::<Option<_>>()?;
    sum(&parts, confidence, all)
}

/// The mean of `after` minus that of `before`, two levels of one series, with its interval. `None`
/// as with [`series_mean`].
pub fn series_difference(before: &[f64], after: &[f64], confidence: f64) -> Option<Estimate> {
    sum(&[(-1.0, Level::of(before)?), (1.0, Level::of(after)?)], confidence, before.len() + after.len())
}

/// What is known of a level.
struct Level {
    mean: f64,
    /// Of the mean.
    variance: f64,
    degrees: f64,
}

impl Level {
    fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut batches = values.to_vec();
        let mut alike = correlation(&batches);
        while alike > ALIKE && batches.len() >= 2 * FEWEST_BATCHES {
            batches = batches.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
            alike = correlation(&batches);
        }
        // One batch says as much as this share of an independent one.
        let share = (1.0 - alike) / (1.0 + alike);
        let n = batches.len() as f64;
        let variance = deviation(&batches)?.powi(2) / (n * share);
        Some(Self { mean: mean(values)?, variance, degrees: n - 1.0 })
    }
}

/// The correlation of neighbouring values, from zero to [`MOST_ALIKE`], without what a short series
/// is too low by (Kendall 1954).
fn correlation(values: &[f64]) -> f64 {
    let n = values.len();
    let Some(middle) = mean(values).filter(|_| n >= FEWEST_CORRELATED) else { return 0.0 };
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    if squares == 0.0 {
        return 0.0;
    }
    let products: f64 = values.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).sum();
    let seen = products / squares;
    (seen + (1.0 + 4.0 * seen) / n as f64).clamp(0.0, MOST_ALIKE)
}

/// The sum of means with their weights.
fn sum(parts: &[(f64, Level)], confidence: f64, n: usize) -> Option<Estimate> {
    if parts.is_empty() || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let value: f64 = parts.iter().map(|(weight, level)| weight * level.mean).sum();
    let shares: Vec<(f64, f64)> =
        parts.iter().map(|(weight, level)| (weight * weight * level.variance, level.degrees)).collect();
    let variance: f64 = shares.iter().map(|(share, _)| share).sum();
    let reach = student(welch(&shares), 0.5 + confidence / 2.0) * variance.sqrt();
    Some(Estimate { value, low: value - reach, high: value + reach, confidence, n, method: Method::StudentT })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::generator;
    use proptest::prelude::*;

    /// Values of deviation 1 of which each is `alike` its neighbour, the first being any.
    fn wandering(rng: &mut rand_pcg::Pcg64Mcg, n: usize, alike: f64) -> Vec<f64> {
        let mut normal = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let mut at = normal();
        let step = (1.0 - alike * alike).sqrt();
        (0..n)
            .map(|_| {
                at = alike * at + step * normal();
                at
            })
            .collect()
    }

    #[test]
    fn intervals_cover_in_nineteen_of_twenty_however_alike_neighbours_are() {
        let mut rng = generator(5);
        // (values of a level, how alike, the least share that covers)
        for (n, alike, least) in [
            (3, 0.0, 0.93),
            (20, 0.0, 0.93),
            (200, 0.0, 0.93),
            (200, 0.5, 0.93),
            (200, 0.8, 0.93),
            (500, 0.9, 0.93),
            (500, 0.95, 0.92),
        ] {
            let (mut differences, mut means) = (0, 0);
            let (mut reach, all) = (0.0, 1_000);
            for _ in 0..all {
                let old = wandering(&mut rng, n, alike);
                let new: Vec<f64> = wandering(&mut rng, n, alike).iter().map(|v| v + 5.0).collect();
                let difference = series_difference(&old, &new, 0.95).unwrap();
                reach += difference.half_width() / f64::from(all);
                differences += u32::from(difference.covers(5.0));
                means += u32::from(series_mean(&[&old, &new], 0.95).unwrap().covers(2.5));
            }
            let share = |covered: u32| f64::from(covered) / f64::from(all);
            println!("{n} {alike} {} {} {reach:.3}", share(differences), share(means));
            assert!(share(differences) >= least && share(means) >= least, "{n} {alike}: {differences} {means}");
        }
    }

    #[test]
    fn independent_values_have_nearly_the_interval_of_welch() {
        let mut rng = generator(9);
        let (mut ours, mut welch) = (0.0, 0.0);
        for _ in 0..300 {
            let (old, new) = (wandering(&mut rng, 100, 0.0), wandering(&mut rng, 100, 0.0));
            ours += series_difference(&old, &new, 0.95).unwrap().half_width();
            welch += crate::mean_difference(&old, &new, 0.95).unwrap().half_width();
        }
        assert!((1.0..1.15).contains(&(ours / welch)), "{}", ours / welch);
    }

    #[test]
    fn a_step_between_levels_does_not_widen_the_mean_of_the_run() {
        let mut rng = generator(2);
        let (old, new) = (wandering(&mut rng, 100, 0.0), wandering(&mut rng, 300, 0.0));
        let new: Vec<f64> = new.iter().map(|v| v + 1_000.0).collect();
        let mean = series_mean(&[&old, &new], 0.95).unwrap();
        assert!((mean.value - 750.0).abs() < 0.3 && mean.half_width() < 0.2, "{mean:?}");
        let whole: Vec<f64> = old.iter().chain(&new).copied().collect();
        assert!(series_mean(&[&whole], 0.95).unwrap().half_width() > 100.0);
    }

    #[test]
    fn what_has_no_interval_has_none() {
        for values in [&[][..], &[1.0], &[1.0, f64::NAN]] {
            assert_eq!((series_mean(&[values], 0.95), series_difference(values, &[1.0, 2.0], 0.95)), (None, None));
        }
        assert_eq!((series_mean(&[], 0.95), series_mean(&[&[1.0, 2.0]], 1.0)), (None, None));
        let level = series_difference(&[1.0; 50], &[2.0; 50], 0.95).unwrap();
        assert_eq!((level.value, level.low, level.high), (1.0, 1.0, 1.0));
    }

    proptest! {
        #[test]
        fn no_series_panics(values in prop::collection::vec(any::<f64>(), 0..60), confidence in -0.5f64..1.5) {
            let _ = series_mean(&[&values], confidence);
            let _ = series_difference(&values, &values, confidence);
        }
    }
}
