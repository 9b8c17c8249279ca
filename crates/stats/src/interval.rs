//! A distribution-free interval for a quantile.
//!
//! The number of `n` independent values that lie at or below the true `q` quantile is binomial with
//! parameters `n` and `q`, whatever the distribution. So the values of two ranks enclose the
//! quantile with a probability that only the ranks decide (David and Nagaraja, *Order Statistics*,
//! third edition, section 7.1).

/// Ranks of the values that enclose a quantile; 1 is the smallest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The lower end.
    pub low: u64,
    /// The upper end.
    pub high: u64,
}

/// The ranks, among `n` independent values, that enclose the `q` quantile with at least this
/// `confidence`, with no more than half of the remaining probability on either side. `None` where
/// `n` is too small for both ends to exist, or where `q` or `confidence` is not within (0, 1).
pub fn quantile_ranks(n: u64, q: f64, confidence: f64) -> Option<Ranks> {
    let inside = |share: f64| share > 0.0 && share < 1.0;
    if n == 0 || !inside(q) || !inside(confidence) {
        return None;
    }
    let tail = (1.0 - confidence) / 2.0;
    // The value of rank `low` is above the quantile when fewer than `low` values are at or below
    // it: P(B ≤ low − 1) ≤ tail.
    let low = largest_within(n, q, tail)?;
    // By symmetry, counting from the top: n − B is binomial with 1 − q.
    let high = n - largest_within(n, 1.0 - q, tail)? + 1;
    (low <= high).then_some(Ranks { low, high })
}

/// The largest `k` in 1..=n with P(B ≤ k − 1) ≤ `tail`, for B binomial with `n` and `q`.
fn largest_within(n: u64, q: f64, tail: f64) -> Option<u64> {
    let mean = n as f64 * q;
    let deviation = (mean * (1.0 - q)).sqrt();
    // Beyond ten deviations nothing is left that could reach the tail; a smaller sum starts at zero
    // and is whole.
    let start = (mean - 10.0 * deviation - 10.0).max(0.0).floor();
    let mut at = start;
    let mut probability = ln_probability(n as f64, q, start).exp();
    let odds = q / (1.0 - q);
    let mut below = 0.0;
    let mut found = None;
    while at < n as f64 {
        below += probability;
        if below > tail {
            break;
        }
        at += 1.0;
        found = Some(at as u64);
        probability *= (n as f64 - at + 1.0) / at * odds;
    }
    found
}

/// ln P(B = k).
fn ln_probability(n: f64, q: f64, k: f64) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k) + k * q.ln() + (n - k) * (-q).ln_1p()
}

/// ln(x!), by Stirling's series from 16 upwards (error below 1e-12) and by its product below.
fn ln_factorial(x: f64) -> f64 {
    if x < 16.0 {
        return (2..=x as u32).map(|i| f64::from(i).ln()).sum();
    }
    let (inverse, y) = (1.0 / x, x);
    (y + 0.5) * y.ln() - y + 0.5 * std::f64::consts::TAU.ln() + inverse / 12.0 - inverse.powi(3) / 360.0
        + inverse.powi(5) / 1_260.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_published_ranks_for_the_median() {
        // The sign-test ranks of statistics tables, two-sided 95 %.
        for (n, low, high) in [(6, 1, 6), (10, 2, 9), (20, 6, 15), (50, 18, 33), (100, 40, 61)] {
            assert_eq!(quantile_ranks(n, 0.5, 0.95), Some(Ranks { low, high }), "n = {n}");
        }
        assert_eq!(quantile_ranks(5, 0.5, 0.95), None);
    }

    #[test]
    fn rare_quantiles_need_many_values() {
        // 0.999^n ≤ 2.5 % first holds at n = 3688.
        assert_eq!(quantile_ranks(3_687, 0.999, 0.95), None);
        assert_eq!(quantile_ranks(3_688, 0.999, 0.95).map(|r| r.high), Some(3_688));
    }

    #[test]
    fn large_counts_follow_the_normal_approximation() {
        for n in [1_000_000_u64, 1_000_000_000] {
            let r = quantile_ranks(n, 0.99, 0.95).unwrap();
            let half = 1.959_964 * (n as f64 * 0.99 * 0.01).sqrt();
            assert!((r.low as f64 - (n as f64 * 0.99 - half)).abs() < 4.0, "{r:?}");
            assert!((r.high as f64 - (n as f64 * 0.99 + half)).abs() < 4.0, "{r:?}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (n, q, c) in [(0, 0.5, 0.95), (100, 0.0, 0.95), (100, 1.0, 0.95), (100, 0.5, 1.0), (100, f64::NAN, 0.9)] {
            assert_eq!(quantile_ranks(n, q, c), None);
        }
    }
}
