//! Two distributions set side by side: how far apart they lie, and by how much each quantile moved.

use serde::{Deserialize, Serialize};

use crate::bootstrap::{Estimate, Method, generator, resample};
use crate::sample::{quantile_of_sorted, sorted};

/// The largest distance between the distribution functions of two samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KolmogorovSmirnov {
    /// 0 where they are the same, 1 where they do not overlap.
    pub distance: f64,
    /// Where it is reached.
    pub at: f64,
    /// Two-sided p, by counting paths where both samples are small and by Kolmogorov's series
    /// otherwise.
    pub p: f64,
}

/// Products of sample sizes up to this are counted out.
const COUNTED: usize = 1_000_000;

/// Kolmogorov and Smirnov's distance; `None` where either sample is empty.
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> Option<KolmogorovSmirnov> {
    let (a, b) = (sorted(a), sorted(b));
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return None;
    }
    let (mut i, mut j, mut widest, mut at) = (0, 0, 0u128, a[0].min(b[0]));
    while i < n || j < m {
        let x = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.min(*y),
            (Some(x), None) | (None, Some(x)) => *x,
            (None, None) => break,
        };
        while a.get(i).is_some_and(|v| *v <= x) {
            i += 1;
        }
        while b.get(j).is_some_and(|v| *v <= x) {
            j += 1;
        }
        // |i/n − j/m|, in units of 1/(n·m).
        let apart = (i as u128 * m as u128).abs_diff(j as u128 * n as u128);
        if apart > widest {
            (widest, at) = (apart, x);
        }
    }
    let distance = widest as f64 / (n as f64 * m as f64);
    let p = if n.saturating_mul(m) <= COUNTED { counted(n, m, widest) } else { series(n, m, distance) };
    Some(KolmogorovSmirnov { distance, at, p })
}

/// The share of all orders of n and m values with a distance of at least `widest`: lattice paths
/// that leave the band, as a probability so that nothing overflows.
fn counted(n: usize, m: usize, widest: u128) -> f64 {
    let inside = |i: usize, j: usize| (i as u128 * m as u128).abs_diff(j as u128 * n as u128) < widest;
    // ways[j]: the share of paths to (i, j) that stayed inside, out of all paths to it.
    let mut ways = vec![0.0; m + 1];
    for i in 0..=n {
        for j in 0..=m {
            ways[j] = if !inside(i, j) {
                0.0
            } else if i + j == 0 {
                1.0
            } else {
                let from_left = if j > 0 { ways[j - 1] * j as f64 } else { 0.0 };
                let from_below = if i > 0 { ways[j] * i as f64 } else { 0.0 };
                (from_left + from_below) / (i + j) as f64
            };
        }
    }
    (1.0 - ways[m]).clamp(0.0, 1.0)
}

fn series(n: usize, m: usize, distance: f64) -> f64 {
    let size = n as f64 * m as f64 / (n as f64 + m as f64);
    let x = distance * size.sqrt();
    if x < 0.2 {
        return 1.0;
    }
    let sum: f64 = (1..=100).map(f64::from).map(|k| (-1f64).powf(k - 1.0) * (-2.0 * (k * x).powi(2)).exp()).sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

/// By how much the `share` quantile of `b` lies above that of `a`, with a percentile bootstrap
/// interval. `None` where either sample has fewer than twelve values.
pub fn quantile_shift(a: &[f64], b: &[f64], share: f64, confidence: f64, seed: u64) -> Option<Estimate> {
    let (a, b) = (sorted(a), sorted(b));
    if a.len().min(b.len()) < crate::bootstrap::FEWEST_RESAMPLED || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let value = quantile_of_sorted(&b, share)? - quantile_of_sorted(&a, share)?;
    let mut rng = generator(seed);
    let mut drawn = Vec::new();
    let mut shifts = Vec::with_capacity(1_000);
    for _ in 0..1_000 {
        let mut one = |from: &[f64]| {
            resample(&mut rng, from, &mut drawn);
            drawn.sort_by(f64::total_cmp);
            quantile_of_sorted(&drawn, share)
        };
        shifts.push(one(&b)? - one(&a)?);
    }
    shifts.sort_by(f64::total_cmp);
    let end = |p: f64| quantile_of_sorted(&shifts, p);
    let tail = (1.0 - confidence) / 2.0;
    let n = a.len() + b.len();
    Some(Estimate { value, low: end(tail)?, high: end(1.0 - tail)?, confidence, n, method: Method::Percentile })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt as _;

    #[test]
    fn agrees_with_scipy() {
        // scipy.stats.ks_2samp: 0.6 at 1.21, p = 0.165834; and the ten pairs of the timestamps
        // table, p = 1.0825e-5.
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let k = kolmogorov_smirnov(&term, &[1.15, 0.88, 0.90, 0.74, 1.21]).unwrap();
        assert_eq!((k.distance, k.at), (0.6, 1.21));
        assert!((k.p - 0.165_834_165_834).abs() < 1e-9, "{k:?}");
        let low: Vec<f64> = (0..10).map(f64::from).collect();
        let high: Vec<f64> = (10..20).map(f64::from).collect();
        assert!((kolmogorov_smirnov(&low, &high).unwrap().p - 1.082_508_822e-5).abs() < 1e-12);
        // Kolmogorov's distribution at 1.36: 0.0495 in every table.
        assert!((series(20_000, 20_000, 1.36 / 100.0) - 0.0495).abs() < 2e-4);
        assert_eq!(kolmogorov_smirnov(&[], &low), None);
        assert_eq!(kolmogorov_smirnov(&low, &low).unwrap().p, 1.0);
    }

    #[test]
    fn a_shift_put_in_is_covered() {
        let mut rng = generator(3);
        let mut covered = 0;
        for seed in 0..60 {
            let a: Vec<f64> = (0..120).map(|_| rng.random::<f64>()).collect();
            let b: Vec<f64> = (0..120).map(|_| rng.random::<f64>() + 0.25).collect();
            covered += u32::from(quantile_shift(&a, &b, 0.9, 0.95, seed).unwrap().covers(0.25));
        }
        assert!((52..=60).contains(&covered), "{covered} of 60");
        assert_eq!(quantile_shift(&[1.0; 3], &[1.0; 9], 0.5, 0.95, 1), None);
    }
}
