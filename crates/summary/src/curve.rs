//! The cumulative curve of a distribution, in as many points as a screen can show.

use stats::Distribution;

/// The share of values at or below each value, rising: about so many points, and both ends exactly.
/// The tail has as many of them as the rest, though few values make it.
pub fn cumulative(values: &Distribution, points: usize) -> Vec<(u64, f64)> {
    let (Some(first), Some(last)) = (values.min(), values.max()) else { return Vec::new() };
    let n = values.n() as f64;
    let mut kept = vec![(first, 0.0)];
    let (mut below, mut shown) = (0, 0.0);
    for (value, count) in values.values() {
        below += count;
        let share = below as f64 / n;
        let tail = (1.0 - share).max(1.0 / n);
        if share - shown >= (2.0 / points as f64).min(tail / 8.0) || value >= last {
            kept.push((value, share));
            shown = share;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Precision;

    #[test]
    fn a_curve_is_thin_rises_and_ends_at_one() {
        let mut times = Distribution::new(Precision::Fine);
        (0..200_000u64).for_each(|i| times.record(1_000 + i * i % 7_919_000));
        let points = cumulative(&times, 400);
        assert!(points.len() < 700, "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        assert_eq!(points.last().unwrap().1, 1.0);
        assert!(cumulative(&Distribution::new(Precision::Fine), 400).is_empty());
    }
}
