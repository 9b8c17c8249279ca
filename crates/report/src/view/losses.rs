//! What was lost, and what share was seen.

use record::{Coverage, Lost, Sampling};

use crate::Canvas;
use crate::canvas::Ink;

pub(super) fn draw(canvas: &Canvas, out: &mut String, lost: &Lost, coverage: &Coverage, sampling: Sampling) {
    canvas.heading(out, "What was not seen");
    let entries: Vec<_> = lost.entries().filter(|e| e.2 > 0).collect();
    if entries.is_empty() {
        out.push_str("Nothing was lost: every counter of losses is zero.\n");
    }
    let width = entries.iter().map(|e| quantity::count(e.2).len()).max().unwrap_or(0);
    for (_, words, n) in entries {
        let line = format!("{:>width$}  {words}", quantity::count(n));
        out.push_str(&canvas.paint(Ink::Warn, &canvas.plain(&line)));
        out.push('\n');
    }
    canvas.paragraph(out, &seen(coverage, sampling), 0);
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
