//! Pieces of a line of the screen: text in a column, the bar of a send's legs, the strip of the
//! last minute.

use ratatui::text::Span;
use record::{Leg, Nanos};
use summary::TimedKind;
use summary::live::Strip;
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

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BARS_ASCII: [char; 8] = ['.', ',', ':', '-', '=', '+', '*', '#'];

/// A bar of one character, of eight heights; `step` counts from 0.
pub(super) fn small_bar(canvas: &Canvas, step: usize) -> char {
    let bars = if canvas.unicode { BARS } else { BARS_ASCII };
    bars[step.min(bars.len() - 1)]
}

/// The times up to which each height but the highest of a strip stands for, in every row the same.
const HEIGHTS: [Nanos; 7] = [
    Nanos::from_millis(1),
    Nanos::from_millis(3),
    Nanos::from_millis(10),
    Nanos::from_millis(30),
    Nanos::from_millis(100),
    Nanos::from_millis(300),
    Nanos::from_millis(1_000),
];
/// From this height on a strip is in the colour of what is wrong: more than 300 ms.
const SLOW: usize = 6;

/// A strip of the last minute: how slow the slowest send or request of each stretch was.
pub(super) fn strip(canvas: &Canvas, strip: &Strip) -> Vec<Span<'static>> {
    let height = |time: Nanos| HEIGHTS.iter().take_while(|most| time > **most).count();
    strip
        .times()
        .map(|time| match time.map(height) {
            None => Span::raw(" "),
            Some(step) => {
                let text = small_bar(canvas, step).to_string();
                if step >= SLOW { Span::styled(text, style(canvas, Ink::Warn)) } else { Span::raw(text) }
            }
        })
        .collect()
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
