//! Two long runs. Neighbouring values of a run are alike, so each run is cut into stretches, and
//! stretches are drawn whole.

use stats::{Distribution, Quantile, Shifted};

use crate::{ALONE, Change, SEED, Scale};

/// By how much these quantiles moved from the first run to the second, each judged with this
/// confidence. What too few values carry is omitted. The runs' stretches are in their order, of
/// about the same number of values each.
pub fn quantiles(
    [first, second]: [&[&Distribution]; 2],
    of: &[Quantile],
    confidence: f64,
) -> impl Iterator<Item = (Quantile, Change)> {
    shifts([first, second], of, confidence).map(|(quantile, shifted)| (quantile, shifted.into()))
}

/// The same of many pairs, of which all intervals hold together.
pub fn quantiles_together(pairs: &[[Vec<Distribution>; 2]], of: &[Quantile]) -> Vec<Vec<(Quantile, Change)>> {
    let each = pairs.iter().map(|pair| {
        let [first, second] = pair.each_ref().map(|stretches| stretches.iter().collect::<Vec<_>>());
        shifts([&first, &second], of, ALONE).collect::<Vec<_>>()
    });
    let each: Vec<_> = each.collect();
    let intervals = each.iter().flatten().filter(|(_, shifted)| shifted.shift.is_some()).count();
    let judged = |(quantile, shifted): (Quantile, Shifted)| (quantile, shifted.one_of(intervals).into());
    each.into_iter().map(|pair| pair.into_iter().map(judged).collect()).collect()
}

fn shifts(
    [first, second]: [&[&Distribution]; 2],
    of: &[Quantile],
    confidence: f64,
) -> impl Iterator<Item = (Quantile, Shifted)> {
    let found = stats::shifts(first, second, of, confidence, SEED);
    of.iter().copied().zip(found).filter_map(|(quantile, shifted)| Some((quantile, shifted?)))
}

/// By how much the mean moved: sum and number of each stretch. `None` where a run has no value.
pub fn mean([first, second]: [&[(f64, u64)]; 2], confidence: f64) -> Option<Change> {
    let mean = |of: &[(f64, u64)]| {
        let n: u64 = of.iter().map(|(_, n)| n).sum();
        (n > 0).then(|| of.iter().map(|(sum, _)| sum).sum::<f64>() / n as f64)
    };
    let values = [mean(first)?, mean(second)?];
    let by = stats::mean_shift(first, second, confidence, SEED);
    Some(Change { by, ..Change::without_interval(values, Scale::Difference) })
}
