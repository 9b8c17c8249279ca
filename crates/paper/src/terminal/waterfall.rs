//! The slowest records as text, each as a waterfall of its legs.
//!
//! Drawn by hand: a bar begins where the one above it ends, to an eighth of a character, and
//! ratatui's bars all begin at the edge.

use record::Nanos;
use unicode_width::UnicodeWidthStr as _;

use crate::canvas::{Canvas, Ink};
use crate::document::{Waterfall, Waterfalls};

/// Draws as many as a terminal is to show.
pub(super) fn draw(canvas: &Canvas, out: &mut String, of: &Waterfalls) {
    let shown = of.items.len().min(of.shown);
    if shown == 0 {
        return;
    }
    let title = match shown {
        1 => format!("The slowest {}{}", of.thing, of.which),
        n => format!("The {n} slowest {}s{}", of.thing, of.which),
    };
    canvas.heading(out, &title);
    for (i, item) in of.items.iter().take(shown).enumerate() {
        if i > 0 {
            out.push('\n');
        }
        headline(canvas, out, i, item);
        bars(canvas, out, item);
        if let Some(why) = item.missing {
            canvas.paragraph(out, why, 3);
        }
        let whole: Vec<String> = item.figures.iter().map(|figure| figure.replace(' ', "\u{a0}")).collect();
        canvas.paragraph(out, &whole.join(" · "), 3);
    }
}

/// The slowest in one sentence, where there is no room for its legs.
pub(super) fn in_words(canvas: &Canvas, of: &Waterfalls) -> Option<String> {
    let item = of.items.first().filter(|_| of.shown > 0)?;
    let longest = item.bars.iter().max_by_key(|bar| bar.time).map(|bar| format!("{} {}", bar.name, bar.figure));
    // What it is, and when it began, stand first and last.
    let ends = [item.what.first(), item.what.last().filter(|_| item.what.len() > 1)];
    let said: Vec<String> =
        std::iter::once(item.total.to_string()).chain(ends.into_iter().flatten().cloned()).chain(longest).collect();
    let mut out = String::new();
    canvas.paragraph(&mut out, &format!("The slowest {}{}: {}.", of.thing, of.which, said.join(" · ")), 0);
    Some(out)
}

/// Its place and time, what it is, and the ends of its connection; what a line has no room for goes
/// below.
fn headline(canvas: &Canvas, out: &mut String, index: usize, item: &Waterfall) {
    let head = canvas.plain(&format!("{}. {}", index + 1, item.total));
    out.push_str(&canvas.paint(Ink::Strong, &head));
    let mut used = head.width();
    for piece in item.what.iter().cloned().chain([item.connection.to_string()]) {
        let piece = canvas.plain(&piece);
        let beside = used + 3 + piece.width() <= canvas.width;
        out.push_str(&if beside { canvas.plain(" · ") } else { "\n   ".into() });
        out.push_str(&piece);
        used = if beside { used } else { 0 } + 3 + piece.width();
    }
    out.push('\n');
}

/// The legs one under the other, each where it lies in the whole.
fn bars(canvas: &Canvas, out: &mut String, item: &Waterfall) {
    let label = item.bars.iter().map(|b| b.name.width()).max().unwrap_or(0).max(8);
    // Beside the bar stand the leg and its time (16 columns and the label) and why it took long
    // (27), which goes below where it is longer.
    let columns = (canvas.width.clamp(60, 120) - 43 - label).max(16);
    let mut done = Nanos::ZERO;
    for bar in &item.bars {
        let ink = Ink::Hue(bar.hue);
        let drawn = stroke(done, bar.time, item.total, columns, canvas.unicode);
        done += bar.time;
        let note = canvas.plain(&bar.note);
        let beside = columns + label + 16 + note.width() <= canvas.width;
        let line = format!(
            "   {} {} {}  {}",
            canvas.paint(ink, &format!("{:<label$}", bar.name)),
            canvas.paint(ink, &drawn),
            canvas.plain(&format!("{:>9}", bar.figure)),
            if beside { &note } else { "" },
        );
        out.push_str(line.trim_end());
        out.push('\n');
        if !beside {
            canvas.paragraph(out, &bar.note, 3 + label + 1);
        }
    }
}

/// A bar from `from` for `length`, of a whole that is `columns` wide. Whatever took any time shows
/// at least a sliver.
fn stroke(from: Nanos, length: Nanos, whole: Nanos, columns: usize, unicode: bool) -> String {
    let scale = columns as f64 * 8.0 / whole.0.max(1) as f64;
    let (start, end) = (from.0 as f64 * scale, (from.0.saturating_add(length.0)) as f64 * scale);
    let start = ((start / 8.0).floor() as usize).min(columns - 1);
    let eighths = (end.round() as usize).clamp(start * 8 + 1, columns * 8) - start * 8;
    let (full, part) = (eighths / 8, eighths % 8);
    let mut text = " ".repeat(start);
    if unicode {
        text.push_str(&"█".repeat(full));
        text.extend([None, Some('▏'), Some('▎'), Some('▍'), Some('▌'), Some('▋'), Some('▊'), Some('▉')][part]);
    } else {
        text.push_str(&"#".repeat(full));
        if full == 0 {
            text.push('|');
        }
    }
    let used = text.chars().count();
    text.push_str(&" ".repeat(columns.saturating_sub(used)));
    text
}
