//! What is said of each kind of run, as documents. One file each.

pub mod capture;
pub mod comparison;
pub mod delay;
pub mod doctor;
pub mod fleet;
pub mod hosts;
pub mod lab;
pub mod overhead;
pub mod probe;
pub mod reception;
pub mod study;
pub mod trace;
pub mod watch;
pub mod workload;

use stats::Distribution;

use paper::document::Table;

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

/// Points that a distribution's curve is drawn with, at most.
const CURVE_POINTS: usize = 400;

/// Times below this are drawn at it, nanoseconds: on a logarithmic axis they would take more room
/// than all that matters.
pub(crate) const SHORTEST: u64 = 100;

/// What has to be said of times below [`SHORTEST`], where there are any.
pub(crate) fn shortest_note<'a>(mut times: impl Iterator<Item = &'a Distribution>) -> &'static str {
    let any = times.any(|t| t.min().is_some_and(|min| min < SHORTEST));
    if any { " Times below 100 ns are drawn at 100 ns." } else { "" }
}

/// The share of values at or below each time: as many points as a screen can show, and both ends
/// exactly.
pub(crate) fn curve(times: &Distribution) -> Vec<[f64; 2]> {
    let n = times.n();
    if n == 0 {
        return Vec::new();
    }
    let first = times.min().unwrap_or(0).max(SHORTEST) as f64;
    let mut points = vec![[first, 0.0]];
    let (mut below, mut shown) = (0, 0.0);
    let last = times.max().unwrap_or(0);
    for (value, count) in times.values() {
        below += count;
        let share = below as f64 / n as f64;
        // The tail is drawn as densely as the rest, though few values make it.
        let tail = (1.0 - share).max(1.0 / n as f64);
        if share - shown >= (2.0 / CURVE_POINTS as f64).min(tail / 8.0) || value >= last {
            points.push([paper::plot::tidy(value.max(SHORTEST) as f64), paper::plot::tidy(share)]);
            shown = share;
        }
    }
    points
}

/// The command line as one would type it.
pub(crate) fn command(words: &[String]) -> String {
    words
        .iter()
        .map(|w| if w.is_empty() || w.contains([' ', '\'', '"', '$', '\\']) { format!("{w:?}") } else { w.clone() })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_thin_rises_and_ends_at_one() {
        let mut times = Distribution::new(stats::Precision::Fine);
        (0..200_000u64).for_each(|i| times.record(1_000 + i * i % 7_919_000));
        let points = curve(&times);
        assert!(points.len() < 700, "{}", points.len());
        assert!(points.is_sorted_by(|a, b| a[0] <= b[0] && a[1] <= b[1]));
        assert_eq!(points.last().unwrap()[1], 1.0);
        assert!(curve(&Distribution::new(stats::Precision::Fine)).is_empty());
    }
}
