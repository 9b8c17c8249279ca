//! What a command shows while it goes on, as a drawing for a `ratatui` frame.

use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};

/// Rows that the table of a trace takes of the terminal.
pub const ROWS: u16 = 18;

/// What the legs of receives and their connections take beside them, and then the parts of requests.
pub const ROWS_OF_RECEIVES: u16 = 12;
/// As [`ROWS_OF_RECEIVES`].
pub const ROWS_OF_REQUESTS: u16 = 10;

/// Shows text that a [`crate::Canvas`] was drawn on, in the whole of the frame.
pub fn text(frame: &mut Frame<'_>, text: &str) {
    frame.render_widget(styled(text), frame.area());
}

/// The text with its inks as styles: only what [`crate::Canvas`] itself writes has to be understood.
fn styled(text: &str) -> Text<'static> {
    text.lines()
        .map(|line| {
            let mut style = Style::default();
            let mut spans = Vec::new();
            for (i, piece) in line.split("\x1b[").enumerate() {
                let text = match piece.split_once('m') {
                    Some((code, rest)) if i > 0 => {
                        style = ink(code);
                        rest
                    }
                    _ => piece,
                };
                if !text.is_empty() {
                    spans.push(Span::styled(text.to_owned(), style));
                }
            }
            Line::from(spans)
        })
        .collect()
}

fn ink(code: &str) -> Style {
    let style = Style::default();
    match code {
        "1" => style.add_modifier(Modifier::BOLD),
        "2" => style.add_modifier(Modifier::DIM),
        "32" => style.fg(Color::Green),
        "33" => style.fg(Color::Yellow),
        "34" => style.fg(Color::Blue),
        "35" => style.fg(Color::Magenta),
        "36" => style.fg(Color::Cyan),
        _ => style,
    }
}
