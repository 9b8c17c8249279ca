//! Two sides with values that are not in pairs.

use crate::bootstrap::{Estimate, Method, student};
use crate::sample::{deviation, mean};

/// The mean of `after` minus that of `before`, with its interval (Welch 1947): the two are independent and may vary unequally. `None` below two
/// values on either side.
pub fn mean_difference(before: &[f64], after: &[f64], confidence: f64) -> Option<Estimate> {
    let value = mean(after)? - mean(before)?;
    let share = |values: &[f64]| Some(deviation(values)?.powi(2) / values.len() as f64);
    let (a, b) = (share(before)?, share(after)?);
    let (n, m) = (before.len(), after.len());
    let degrees = match a + b {
        0.0 => n + m - 2,
        both => (both.powi(2) / (a.powi(2) / (n - 1) as f64 + b.powi(2) / (m - 1) as f64)) as usize,
    };
    let reach = student(degrees, 0.5 + confidence / 2.0) * (a + b).sqrt();
    let (low, high) = (value - reach, value + reach);
    Some(Estimate { value, low, high, confidence, n: n + m, method: Method::StudentT })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::generator;
    use rand::RngExt as _;

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
    fn one_value_gives_no_interval() {
        assert_eq!(mean_difference(&[1.0], &[2.0, 3.0], 0.95), None);
        assert_eq!(mean_difference(&[1.0, 1.0], &[2.0, 2.0], 0.95).map(|e| (e.low, e.high)), Some((1.0, 1.0)));
    }
}
