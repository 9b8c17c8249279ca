//! What is said of each kind of run, as documents. One file each.

pub mod advice;
pub mod capture;
pub mod comparison;
pub mod delay;
pub mod doctor;
pub mod fleet;
pub mod hosts;
pub mod instructions;
pub mod lab;
pub mod overhead;
pub mod probe;
pub mod reception;
pub mod service_map;
pub mod study;
pub mod trace;
pub mod watch;
pub mod workload;

use stats::Distribution;

use paper::document::Table;
use paper::plot::tidy;

/// Why a figure is missing: there are too few values for that percentile.
pub(crate) const TOO_FEW: &str = "too few values for this percentile";
/// Why a figure is missing: nothing was measured.
pub(crate) const NONE: &str = "nothing was measured";

/// A table of keys and values.
pub(crate) fn facts(title: &str, rows: impl IntoIterator<Item = (&'static str, String)>) -> Table {
    let mut table = Table::new(title, ["", ""]);
    table.extend(rows.into_iter().map(|(k, v)| [k.to_owned(), v]));
    table
}

/// Points that a distribution's curve is drawn with, about.
const CURVE_POINTS: usize = 400;

/// Times below this are drawn at it, nanoseconds: on a logarithmic axis they would take more room
/// than all that matters.
pub(crate) const SHORTEST: u64 = 100;

/// What has to be said of times below [`SHORTEST`], where there are any.
pub(crate) fn shortest_note<'a>(mut times: impl Iterator<Item = &'a Distribution>) -> &'static str {
    let any = times.any(|t| t.min().is_some_and(|min| min < SHORTEST));
    if any { " Times below 100 ns are drawn at 100 ns." } else { "" }
}

/// The share of values at or below each time.
pub(crate) fn curve(times: &Distribution) -> Vec<[f64; 2]> {
    let point = |(time, share): (u64, f64)| [tidy(time.max(SHORTEST) as f64), tidy(share)];
    summary::cumulative(times, CURVE_POINTS).into_iter().map(point).collect()
}

/// The command line as one would type it.
pub(crate) fn command(words: &[String]) -> String {
    words
        .iter()
        .map(|w| if w.is_empty() || w.contains([' ', '\'', '"', '$', '\\']) { format!("{w:?}") } else { w.clone() })
        .collect::<Vec<_>>()
        .join(" ")
}
