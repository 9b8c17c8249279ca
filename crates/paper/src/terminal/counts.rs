//! Counts of values as horizontal bars, a row a value: also those of the live screen.

use quantity::count;
use unicode_width::UnicodeWidthStr as _;

use crate::canvas::{Canvas, Ink};
use crate::document::Counts;
use crate::plot::Hue;

/// A piece of a line: its text, and how it is meant.
pub type Piece = (String, Option<Ink>);

/// The head and the rows, each in pieces. A value that occurs has at least the shortest bar.
pub fn lines(canvas: &Canvas, of: &Counts) -> Vec<Vec<Piece>> {
    let label = of.rows.iter().map(|(label, _)| label.width()).max().unwrap_or(0).max(of.value.len());
    let most = of.rows.iter().map(|&(_, n)| n).max().unwrap_or(0).max(1);
    let figures = count(most).len().max("count".len());
    let room = canvas.width.clamp(40, 100).saturating_sub(label + figures + 5).max(10);
    let (corner, rule, edge) = if canvas.unicode { ("┌", "─", "│") } else { ("|", "-", "|") };
    let head = format!("{:>label$} {corner}{} {:>figures$}", of.value, rule.repeat(room), "count");
    let mut lines = vec![vec![(head, Some(Ink::Faint))]];
    lines.extend(of.rows.iter().map(|(value, n)| {
        let bar = bar(*n, most, room, canvas.unicode);
        let gap = " ".repeat(room - bar.width().min(room));
        vec![
            (format!("{value:>label$} "), Some(Ink::Faint)),
            (edge.to_owned(), None),
            (bar, Some(Ink::Hue(Hue(1)))),
            (format!("{gap} {:>figures$}", count(*n)), None),
        ]
    }));
    lines
}

fn bar(n: u64, most: u64, room: usize, unicode: bool) -> String {
    let eighths = (u128::from(n) * room as u128 * 8).div_ceil(u128::from(most)) as usize;
    if unicode {
        let end = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
        format!("{}{end}", "█".repeat(eighths / 8))
    } else {
        "#".repeat(eighths.div_ceil(8))
    }
}

/// Draws them under their title.
pub(super) fn draw(canvas: &Canvas, out: &mut String, of: &Counts) {
    if !of.title.is_empty() {
        canvas.heading(out, &of.title);
    }
    for line in lines(canvas, of) {
        for (text, ink) in line {
            out.push_str(&ink.map_or_else(|| text.clone(), |ink| canvas.paint(ink, &text)));
        }
        out.push('\n');
    }
}
