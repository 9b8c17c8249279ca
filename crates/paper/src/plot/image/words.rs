//! The words of an image: how wide they are, and what of them there is room for.

use super::LETTER;
use crate::plot::names::without_middle;

pub(super) fn text_width(text: &str, letter: f64) -> f64 {
    text.chars().count() as f64 * letter * 0.56
}

/// Cut to a number of pixels.
pub(super) fn cut(text: &str, room: f64) -> String {
    without_middle(text, (room / (LETTER * 0.56)) as usize)
}

/// Broken at spaces into lines of at most so many pixels; what two lines do not hold is cut.
pub(super) fn two_lines(text: &str, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && text_width(&lines[last], LETTER) + text_width(word, LETTER) + 6.0 > room {
            if lines.len() == 2 {
                lines[last].push('…');
                return lines;
            }
            lines.push(String::new());
        }
        let last = lines.len() - 1;
        if !lines[last].is_empty() {
            lines[last].push(' ');
        }
        lines[last].push_str(word);
    }
    lines
}
