//! Pieces of a line of the screen: text in a column, and the bar of a send's legs.

use ratatui::text::Span;
use record::Leg;
use summary::TimedKind;
use unicode_width::UnicodeWidthStr as _;

use super::style;
use crate::colour::ink_of;
use paper::Canvas;
use paper::Ink;

/// A bar of legs, each with its letter: at the beginning where colours distinguish them, all over
/// where there is none.
pub(super) fn bar(canvas: &Canvas, shares: &[(Leg, f64)], width: usize) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let (mut before, mut drawn) = (0.0, 0);
    for (leg, share) in shares {
        before += share;
        let end = ((before * width as f64).round() as usize).min(width);
        let cells = end.saturating_sub(drawn);
        drawn = drawn.max(end);
        let letter = leg.name().chars().next().unwrap_or(' ').to_string();
        let text = match cells {
            2.. if canvas.colour && canvas.unicode => letter + &"█".repeat(cells - 1),
            cells => letter.repeat(cells),
        };
        spans.push(Span::styled(text, style(canvas, leg_ink(*leg))));
    }
    spans
}

/// The ink of a leg of sends.
pub(super) fn leg_ink(leg: Leg) -> Ink {
    let known = TimedKind::Sends.legs().iter().find(|timed| timed.name.name() == leg.name());
    known.map_or(Ink::Faint, ink_of)
}

pub(super) fn left(canvas: &Canvas, text: &str, width: usize) -> String {
    let text = canvas.cut(text, width);
    let pad = width.saturating_sub(text.width());
    text + &" ".repeat(pad)
}

pub(super) fn right(canvas: &Canvas, text: &str, width: usize) -> String {
    let text = canvas.cut(text, width);
    " ".repeat(width.saturating_sub(text.width())) + &text
}
