//! Whether the order of the runs mattered, and which runs stand apart.

use serde::{Deserialize, Serialize};
use statrs::distribution::ContinuousCDF as _;

use crate::bootstrap::normal;
use crate::sample::median;

/// A trend of values over their order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Kendall's tau-b between order and value, −1 to 1.
    pub tau: f64,
    /// Its two-sided p, by the normal form with ties corrected for.
    pub p: f64,
    /// Median slope between all pairs (Theil and Sen), in the values' unit a run.
    pub slope: f64,
    /// Values.
    pub n: usize,
}

/// The trend of `values` in the order given; `None` below three values, or where all are the same.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    let mut slopes = Vec::with_capacity(n * n / 2);
    let mut balance = 0i64;
    let mut tied_pairs = 0u64;
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i + 1) {
            slopes.push((b - a) / (j - i) as f64);
            match b.partial_cmp(a)? {
                std::cmp::Ordering::Equal => tied_pairs += 1,
                order => balance += order as i64,
            }
        }
    }
    let pairs = slopes.len() as f64;
    let untied = pairs - tied_pairs as f64;
    if n < 3 || untied == 0.0 {
        return None;
    }
    // Groups of t tied values: Σ t(t−1)(2t+5).
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 =
        sorted.chunk_by(|a, b| a == b).map(|group| group.len() as f64).map(|t| t * (t - 1.0) * (2.0 * t + 5.0)).sum();
    let count = n as f64;
    let variance = (count * (count - 1.0) * (2.0 * count + 5.0) - ties) / 18.0;
    let z = balance.unsigned_abs() as f64 / variance.sqrt();
    Some(Trend {
        tau: balance as f64 / (pairs * untied).sqrt(),
        p: (2.0 * normal().sf(z)).min(1.0),
        slope: median(&slopes)?,
        n,
    })
}

/// The indices of values that stand apart: 0.6745·|v − median|/MAD above 3.5 (Iglewicz and Hoaglin
/// 1993). Where more than half of the values are the same, whatever differs from them by more than
/// the mean distance times 3.5 / 0.7979.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some(middle) = median(values) else { return Vec::new() };
    let distances: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let mad = median(&distances).unwrap_or(0.0);
    let unit = if mad > 0.0 { mad / 0.6745 } else { distances.iter().sum::<f64>() / distances.len() as f64 / 0.7979 };
    distances.iter().enumerate().filter(|(_, d)| unit > 0.0 && **d / unit > 3.5).map(|(i, _)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_scipy() {
        // scipy.stats.kendalltau(range(10), v, method='asymptotic') and theilslopes.
        let t = trend(&[3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0]).unwrap();
        assert!((t.tau - 0.276_026_223_737).abs() < 1e-9, "{t:?}");
        assert!((t.p - 0.277_289_258_089).abs() < 1e-6, "{t:?}");
        assert!((t.slope - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(trend(&[1.0, 2.0]), None);
        assert_eq!(trend(&[1.0; 5]), None);
        assert_eq!(trend(&[1.0, f64::NAN, 2.0]), None);
        assert!(trend(&(0..10).map(f64::from).collect::<Vec<_>>()).unwrap().p < 1e-4);
    }

    #[test]
    fn what_stands_apart_is_named() {
        assert_eq!(outliers(&[2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3]), [8, 9]);
        assert_eq!(outliers(&[5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 9.0]), [7]);
        assert!(outliers(&[1.0, 1.0, 1.0]).is_empty());
        assert!(outliers(&[]).is_empty());
    }
}
