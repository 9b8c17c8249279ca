//! Permutation tests: how often would chance alone, given these very values, make as large a
//! difference?

use rand::RngExt as _;

use crate::bootstrap::generator;
use crate::sample::mean;

/// Draws where not everything is gone through.
const DRAWS: u32 = 20_000;

/// Up to this many pairs, every choice of signs is gone through.
const COUNTED: usize = 14;

/// Sign-flip test of paired differences against zero, two-sided. `None` of nothing.
pub fn paired(differences: &[f64], seed: u64) -> Option<f64> {
    let observed = mean(differences)?.abs() * differences.len() as f64;
    // Sums of the same values in another order differ in their last bits.
    let reached = |sum: f64| sum.abs() >= observed * (1.0 - 1e-12);
    if differences.len() <= COUNTED {
        let all = 1u32 << differences.len();
        let count = (0..all)
            .filter(|signs| {
                reached(differences.iter().enumerate().map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d }).sum())
            })
            .count();
        return Some(count as f64 / f64::from(all));
    }
    let mut rng = generator(seed);
    let count = (0..DRAWS)
        .filter(|_| reached(differences.iter().map(|d| if rng.random::<bool>() { -d } else { *d }).sum()))
        .count();
    Some((count + 1) as f64 / f64::from(DRAWS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_scipy() {
        // scipy.stats.permutation_test(…, permutation_type='samples', n_resamples=inf): 0.02734375.
        let d = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];
        assert_eq!(paired(&d, 1), Some(0.027_343_75));
        let many: Vec<f64> = (0..20).map(|i| f64::from(i) - 9.5).collect();
        assert!(paired(&many, 1).unwrap() > 0.95);
        assert_eq!(paired(&[], 1), None);
    }
}
