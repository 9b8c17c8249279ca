//! The interval of a share that was counted.

/// The chance of at most `hits` in `n` at that share.
fn at_most(hits: u32, n: u32, share: f64) -> f64 {
    // As a logarithm: the chance of no hit is too small to be held where n is large.
    let mut term = f64::from(n) * (1.0 - share).ln();
    let mut sum = term.exp();
    for k in 0..hits {
        term += (f64::from(n - k) / f64::from(k + 1) * share / (1.0 - share)).ln();
        sum += term.exp();
    }
    sum.min(1.0)
}

/// The shares that `hits` of `n` are compatible with, with that confidence (Clopper and Pearson
/// 1934).
pub fn interval(hits: u32, n: u32, confidence: f64) -> (f64, f64) {
    if hits > n / 2 {
        let (low, high) = interval(n - hits, n, confidence);
        return (1.0 - high, 1.0 - low);
    }
    let tail = (1.0 - confidence) / 2.0;
    let solve = |wanted: &dyn Fn(f64) -> bool| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if wanted(middle) { low = middle } else { high = middle }
        }
        low
    };
    let low = if hits == 0 { 0.0 } else { solve(&|share| 1.0 - at_most(hits - 1, n, share) < tail) };
    let high = solve(&|share| at_most(hits, n, share) > tail);
    (low, high)
}
