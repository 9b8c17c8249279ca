//! Two sides with values that are not in pairs.

use crate::bootstrap::{Estimate, Method, student};
use crate::judgement::POWER;
use crate::sample::{deviation, mean};

/// The mean of `after` minus that of `before`, with its interval (Welch 1947): the two are
/// independent and may vary unequally. `None` below two values on either side.
pub fn mean_difference(before: &[f64], after: &[f64], confidence: f64) -> Option<Estimate> {
    let value = mean(after)? - mean(before)?;
    let (error, degrees) = error(before, after)?;
    let reach = student(degrees, 0.5 + confidence / 2.0) * error;
    let (low, high) = (value - reach, value + reach);
    Some(Estimate { value, low, high, confidence, n: before.len() + after.len(), method: Method::StudentT })
}

/// The smallest true difference that [`mean_difference`] shows four times in five, at the spread of
/// these values.
pub fn mean_difference_seen(before: &[f64], after: &[f64], confidence: f64) -> Option<f64> {
    let (error, degrees) = error(before, after)?;
    Some((student(degrees, 0.5 + confidence / 2.0) + student(degrees, POWER)) * error)
}

/// The standard error of the difference of the means, and its degrees of freedom.
fn error(before: &[f64], after: &[f64]) -> Option<(f64, usize)> {
    let share = |values: &[f64]| Some(deviation(values)?.powi(2) / values.len() as f64);
    let (a, b) = (share(before)?, share(after)?);
    let degrees = welch(&[(a, (before.len() - 1) as f64), (b, (after.len() - 1) as f64)]);
    Some(((a + b).sqrt(), degrees))
}

/// The degrees of freedom of a sum of independent means, each with its variance and its own
/// degrees: at most all of them together.
pub(crate) fn welch(means: &[(f64, f64)]) -> usize {
    let all: f64 = means.iter().map(|(_, degrees)| degrees).sum();
    let variance: f64 = means.iter().map(|(variance, _)| variance).sum();
    let spread: f64 = means.iter().map(|(variance, degrees)| variance * variance / degrees).sum();
    // Variances too small to be squared, or too great, leave no figure.
    let degrees = variance * variance / spread;
    if degrees.is_finite() { degrees.min(all) as usize } else { all as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::generator;
    use rand::RngExt as _;

    #[test]
    fn degrees_are_at_most_all_of_them() {
        assert_eq!(welch(&[(1.0, 9.0), (1.0, 9.0)]), 18);
        assert_eq!(welch(&[(4.0, 3.0), (1e-9, 50.0)]), 3);
        for variance in [0.0, 1e-162, 1e-160, f64::MAX, f64::INFINITY, f64::NAN] {
            assert!((1..=53).contains(&welch(&[(variance, 3.0), (variance, 50.0)])), "{variance}");
        }
    }

    #[test]
    fn the_interval_covers_in_nineteen_of_twenty() {
        let mut rng = generator(5);
        let mut normal = |spread: f64| ((0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0) * spread;
        let covered = (0..1_000).filter(|_| {
            let a: Vec<f64> = (0..3).map(|_| normal(1.0)).collect();
            let b: Vec<f64> = (0..4).map(|_| 5.0 + normal(3.0)).collect();
            mean_difference(&a, &b, 0.95).unwrap().covers(5.0)
        });
        let covered = covered.count();
        assert!((930..=985).contains(&covered), "{covered} of 1,000");
    }

    #[test]
    fn the_smallest_difference_that_is_stated_is_seen_four_times_in_five() {
        let mut rng = generator(9);
        let mut normal = |spread: f64| ((0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0) * spread;
        // What three and three values of spread 1 and 2 could show on the average.
        let mut drawn = |off: f64| {
            let a: Vec<f64> = (0..3).map(|_| normal(1.0)).collect();
            let b: Vec<f64> = (0..3).map(|_| off + normal(2.0)).collect();
            (a, b)
        };
        let smallest = (0..2_000).map(|_| drawn(0.0)).map(|(a, b)| mean_difference_seen(&a, &b, 0.95).unwrap());
        let smallest = smallest.sum::<f64>() / 2_000.0;
        let seen = (0..2_000).map(|_| drawn(smallest)).filter(|(a, b)| {
            let difference = mean_difference(a, b, 0.95).unwrap();
            !difference.covers(0.0)
        });
        let seen = seen.count();
        assert!((1_400..=1_900).contains(&seen), "{seen} of 2,000");
        assert_eq!(mean_difference_seen(&[1.0], &[2.0, 3.0], 0.95), None);
    }

    #[test]
    fn one_value_gives_no_interval() {
        assert_eq!(mean_difference(&[1.0], &[2.0, 3.0], 0.95), None);
        assert_eq!(mean_difference(&[1.0, 1.0], &[2.0, 2.0], 0.95).map(|e| (e.low, e.high)), Some((1.0, 1.0)));
    }
}
