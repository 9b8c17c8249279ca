//! Numbers that follow from others: a test draws the same ones each time, in whatever order it
//! asks.

/// A number from 0 to below 1 (SplitMix64).
pub fn uniform(of: &[u64]) -> f64 {
    let mixed = of.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |state, value| {
        let mut z = (state ^ value.wrapping_mul(0xbf58_476d_1ce4_e5b9)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    });
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// One of the standard normal distribution (Box and Muller).
pub fn normal(of: &[u64]) -> f64 {
    let again: Vec<u64> = of.iter().copied().chain([1]).collect();
    (-2.0 * (1.0 - uniform(of)).ln()).sqrt() * (std::f64::consts::TAU * uniform(&again)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_spread_as_the_distribution_says_and_repeat() {
        let drawn: Vec<f64> = (0..10_000).map(|n| normal(&[n])).collect();
        let mean = |of: &dyn Fn(f64) -> f64| drawn.iter().map(|n| of(*n)).sum::<f64>() / drawn.len() as f64;
        let (middle, square) = (mean(&|n| n), mean(&|n| n * n));
        let within_one = mean(&|n| f64::from(u8::from(n.abs() < 1.0)));
        assert!(middle.abs() < 0.04 && (square - 1.0).abs() < 0.06, "{middle} {square}");
        assert!((within_one - 0.683).abs() < 0.02, "{within_one}");
        assert_eq!(normal(&[9]).to_bits(), drawn[9].to_bits());
    }
}
