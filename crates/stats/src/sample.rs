//! One sample of real values: its mean, spread and quantiles.

/// The values that are finite, in rising order. What is not a number carries no information and
/// would spoil every sum.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut kept: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    kept.sort_by(f64::total_cmp);
    kept
}

/// The arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation with n − 1; `None` below two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let middle = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - middle).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The `share` quantile, interpolated between ranks (type 7 of Hyndman and Fan 1996, the default of
/// R and NumPy).
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values), share)
}

pub(crate) fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let (low, high) = (sorted[below], sorted[above]);
    Some(low + (high - low) * (position - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_numpy() {
        // numpy.quantile(v, [0.5, 0.25, 0.9]) and numpy.std(v, ddof=1).
        let v = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        assert_eq!(median(&v), Some(3.5));
        assert_eq!(quantile(&v, 0.25), Some(1.75));
        assert!((quantile(&v, 0.9).unwrap() - 6.9).abs() < 1e-12);
        assert!((deviation(&v).unwrap() - 2.748_376_143_938_713).abs() < 1e-12);
        assert_eq!((mean(&[]), median(&[]), deviation(&[1.0])), (None, None, None));
        assert_eq!(median(&[f64::NAN, 2.0, f64::INFINITY]), Some(2.0));
    }
}
