//! What was lost, and what share was seen.

use record::{Coverage, Sampling};

/// The share that was seen, for the headline: nothing where all was.
pub(crate) fn partial(coverage: &Coverage) -> Option<String> {
    let time = quantity::share(coverage.armed.0.into(), coverage.followed.0.into());
    let bytes = quantity::share(coverage.bytes_armed.into(), coverage.bytes_written.into());
    (time < 0.995 || bytes < 0.995).then(|| {
        format!(
            "Coverage: {} of the connections' time and {} of their bytes.",
            quantity::whole(quantity::percent(time)),
            quantity::whole(quantity::percent(bytes))
        )
    })
}

/// The share that was really seen, by time and by TCP's own count of bytes.
pub(crate) fn seen(coverage: &Coverage, sampling: Sampling) -> String {
    let time = quantity::share(coverage.armed.0.into(), coverage.followed.0.into());
    let bytes = quantity::share(coverage.bytes_armed.into(), coverage.bytes_written.into());
    let asked = super::sampling(sampling);
    if time.is_nan() && bytes.is_nan() {
        return format!("Asked for: {asked}. What share was seen is not known, because no connection was followed.");
    }
    format!(
        "Asked for: {asked}. Really watched: {} of the connections' time and {} of the {} that TCP counted.",
        quantity::percent(time).replace(' ', "\u{a0}"),
        quantity::percent(bytes).replace(' ', "\u{a0}"),
        quantity::bytes(coverage.bytes_written).replace(' ', "\u{a0}"),
    )
}
