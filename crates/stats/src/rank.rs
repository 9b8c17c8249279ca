//! Tests that use ranks alone, and so ask nothing of the shape of the distribution.
//!
//! The distributions of both statistics are counted out where the samples are small and nothing is
//! tied, and taken as normal (with ties and continuity corrected for) otherwise. No crate has these
//! with both forms at present.

use statrs::distribution::ContinuousCDF as _;

use crate::bootstrap::normal;

/// Up to this many pairs (Wilcoxon), or values of either sample (Mann and Whitney), everything is
/// counted out.
const COUNTED: usize = 50;

/// The ranks of the values, from 1; tied values share the mean of theirs. And Σ(t³ − t) over the
/// groups of tied values.
pub(crate) fn ranks(values: &[f64]) -> (Vec<f64>, f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut ties = 0.0;
    let mut from = 0;
    while from < order.len() {
        let mut to = from + 1;
        while to < order.len() && values[order[to]] == values[order[from]] {
            to += 1;
        }
        for &i in &order[from..to] {
            ranks[i] = (from + 1 + to) as f64 / 2.0;
        }
        let t = (to - from) as f64;
        ties += t.powi(3) - t;
        from = to;
    }
    (ranks, ties)
}

/// Wilcoxon's signed-rank test that differences are even about zero, two-sided; zeros are excluded.
/// `None` where all are zeros.
pub fn wilcoxon(differences: &[f64]) -> Option<f64> {
    let kept: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0 && d.is_finite()).collect();
    let n = kept.len();
    if n == 0 {
        return None;
    }
    let (ranks, ties) = ranks(&kept.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let positive: f64 = kept.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, r)| r).sum();
    let total = (n * (n + 1)) as f64 / 2.0;
    let smaller = positive.min(total - positive);
    if n <= COUNTED && ties == 0.0 && n == differences.len() {
        // How many of the 2^n choices of signs give each sum.
        let mut ways = vec![0.0; total as usize + 1];
        ways[0] = 1.0;
        for rank in 1..=n {
            for sum in (rank..ways.len()).rev() {
                ways[sum] += ways[sum - rank];
            }
        }
        let tail: f64 = ways[..=smaller as usize].iter().sum();
        return Some((2.0 * tail / 2f64.powi(n as i32)).min(1.0));
    }
    let variance = total * (2 * n + 1) as f64 / 12.0 - ties / 48.0;
    two_sided(total / 2.0 - smaller, variance)
}

/// Mann and Whitney's test that neither sample tends to be larger, two-sided. `None` where either
/// is empty or all is tied.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return None;
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let (ranks, ties) = ranks(&all);
    let u: f64 = ranks[..n].iter().sum::<f64>() - (n * (n + 1)) as f64 / 2.0;
    let (pairs, whole) = ((n * m) as f64, (n + m) as f64);
    let smaller = u.min(pairs - u);
    if n <= COUNTED && m <= COUNTED && ties == 0.0 {
        let ways = orders(n, m);
        let all: f64 = ways.iter().sum();
        let tail: f64 = ways[..=smaller as usize].iter().sum();
        return Some((2.0 * tail / all).min(1.0));
    }
    let variance = pairs / 12.0 * (whole + 1.0 - ties / (whole * (whole - 1.0)));
    two_sided(pairs / 2.0 - smaller, variance)
}

/// In how many orders of n and m values each U comes about: the Gaussian binomial coefficient,
/// built up as the product of (1 − x^(m+i)) / (1 − x^i).
fn orders(n: usize, m: usize) -> Vec<f64> {
    let length = n * m + 1;
    let mut ways = vec![0.0; length];
    ways[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..length).rev() {
            ways[u] -= ways[u - m - i];
        }
        for u in i..length {
            ways[u] += ways[u - i];
        }
    }
    ways
}

fn two_sided(distance: f64, variance: f64) -> Option<f64> {
    // Half a rank towards the middle: the statistic moves in whole ranks, the normal does not.
    (variance > 0.0).then(|| (2.0 * normal().sf((distance - 0.5).max(0.0) / variance.sqrt())).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }

    #[test]
    fn agrees_with_scipy_and_published_tables() {
        // Hollander and Wolfe (1973), depression before and after, in thousandths;
        // scipy.stats.wilcoxon(method='exact').
        let before = [1_830.0, 500.0, 1_620.0, 2_480.0, 1_680.0, 1_880.0, 1_550.0, 3_060.0, 1_300.0];
        let after = [878.0, 647.0, 598.0, 2_050.0, 1_060.0, 1_290.0, 1_060.0, 3_140.0, 1_290.0];
        let differences: Vec<f64> = before.iter().zip(&after).map(|(b, a)| b - a).collect();
        near(wilcoxon(&differences), 0.039_062_5);
        // The same book's permeability constants; scipy.stats.mannwhitneyu(method='exact').
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        near(mann_whitney(&term, &[1.15, 0.88, 0.90, 0.74, 1.21]), 0.254_412_254_412);
        // Ties and a zero difference: scipy's normal forms with correction.
        let x = [125.0, 115.0, 130.0, 140.0, 140.0, 115.0, 140.0, 125.0, 140.0, 135.0];
        let y = [110.0, 122.0, 125.0, 120.0, 140.0, 124.0, 123.0, 137.0, 135.0, 145.0];
        let d: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
        near(wilcoxon(&d), 0.635_289_318_835);
        near(mann_whitney(&x, &y), 0.492_029_123_740);
    }

    #[test]
    fn what_says_nothing_gives_nothing() {
        assert_eq!(wilcoxon(&[0.0, 0.0]), None);
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0]), None);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }
}
