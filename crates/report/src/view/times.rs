//! Which percentiles are not shown.

use stats::Quantile;

const DASH: &str = "—";

/// Why percentiles are not shown, where some are not.
pub(crate) fn held(n: u64, things: &str) -> Option<String> {
    let held: Vec<String> = Quantile::SHOWN
        .into_iter()
        .filter(|q| n > 0 && n < q.needs())
        .map(|q| format!("{q} needs {} {things}", quantity::count(q.needs())))
        .collect();
    (!held.is_empty())
        .then(|| format!("{DASH} percentiles: {}, and there are {}.", held.join(", "), quantity::count(n)))
}
