//! What a view draws on: a width, and whether colour and Unicode may be used.

use record::steers;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::hue::Hue;

/// The properties of the paper that a view is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Columns.
    pub width: usize,
    /// Whether ANSI colours may be used.
    pub colour: bool,
    /// Whether block characters, dashes and `µ` may be used; ASCII takes their place otherwise.
    pub unicode: bool,
}

/// How a piece of text is meant. Colour only repeats what the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// A heading.
    Strong,
    /// Units, labels, axes.
    Faint,
    /// Something that was lost, or that needs attention.
    Warn,
    /// A series of a plot.
    Hue(Hue),
}

impl Ink {
    /// The parameters of ANSI's "select graphic rendition": colours of the terminal's own palette.
    fn code(self) -> String {
        match self {
            Self::Strong => "1".into(),
            Self::Faint => "2".into(),
            Self::Warn => "33".into(),
            Self::Hue(hue) => match hue.on_terminal() {
                Some(dark @ 0..8) => (30 + dark).to_string(),
                Some(bright) => (82 + bright).to_string(),
                None => "39".into(),
            },
        }
    }
}

impl Canvas {
    /// The text in an ink; as it is where there is no colour, or nothing to see.
    pub fn paint(&self, ink: Ink, text: &str) -> String {
        if self.colour && !text.trim().is_empty() { format!("\x1b[{}m{text}\x1b[0m", ink.code()) } else { text.into() }
    }

    /// The text in characters that this canvas has.
    pub fn plain(&self, text: &str) -> String {
        // A name out of a run must not steer the terminal.
        let steers = |c: char| steers(c) && c != '\n';
        if self.unicode {
            return text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect();
        }
        text.chars()
            .map(|c| {
                match c {
                    c if steers(c) => "?",
                    'µ' => "u",
                    '\u{a0}' => " ",
                    '—' | '–' | '−' => "-",
                    '…' => "..",
                    '→' => "->",
                    '←' => "<-",
                    '✓' => "+",
                    '✗' => "x",
                    '○' => "o",
                    '·' => "|",
                    '█' => "#",
                    '×' => "x",
                    '±' => "+-",
                    '≥' => ">=",
                    '≤' => "<=",
                    c if c.is_ascii() => return c.to_string(),
                    _ => "?",
                }
                .to_owned()
            })
            .collect()
    }

    /// The text in characters that this canvas has, cut to a number of columns; an ellipsis ends
    /// what was cut.
    pub fn cut(&self, text: &str, columns: usize) -> String {
        let text = self.plain(text);
        if text.width() <= columns {
            return text;
        }
        let ellipsis = if self.unicode { "…" } else { ".." };
        let (mut kept, mut used) = (String::new(), ellipsis.width());
        for c in text.chars() {
            used += c.width().unwrap_or(0);
            if used > columns {
                break;
            }
            kept.push(c);
        }
        if columns >= ellipsis.width() {
            kept.push_str(ellipsis);
        }
        kept
    }

    /// A heading with the space above it.
    pub fn heading(&self, out: &mut String, text: &str) {
        out.push('\n');
        self.title(out, text);
    }

    /// A title, broken at spaces where it is wider than the canvas: names in it are never cut.
    pub fn title(&self, out: &mut String, text: &str) {
        self.lines(out, Ink::Strong, text);
    }

    /// A paragraph in an ink.
    pub fn lines(&self, out: &mut String, ink: Ink, text: &str) {
        let mut lines = String::new();
        self.paragraph(&mut lines, text, 0);
        for line in lines.lines() {
            out.push_str(&self.paint(ink, line));
            out.push('\n');
        }
    }

    /// A paragraph, broken at spaces to fit the width. Line feeds are spaces: a name that holds one
    /// begins no line.
    pub fn paragraph(&self, out: &mut String, text: &str, indent: usize) {
        let room = self.width.max(40) - indent;
        let mut line = String::new();
        // A figure and its unit stay on one line: a no-break space joins them, which is a space
        // like any other from here on.
        for word in text.split([' ', '\n']).filter(|w| !w.is_empty()).map(|w| self.plain(&w.replace('\u{a0}', " "))) {
            if !line.is_empty() && line.width() + 1 + word.width() > room {
                self.indented(out, &line, indent);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        if !line.is_empty() {
            self.indented(out, &line, indent);
        }
    }

    fn indented(&self, out: &mut String, line: &str, indent: usize) {
        out.push_str(&" ".repeat(indent));
        out.push_str(line);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_and_not_by_bytes() {
        let canvas = Canvas { width: 80, colour: false, unicode: true };
        assert_eq!(canvas.cut("héllo wörld", 6), "héllo…");
        assert_eq!(canvas.cut("日本語", 4), "日…");
        assert_eq!(canvas.cut("short", 5), "short");
        assert_eq!(canvas.cut("abc", 0), "");
        let ascii = Canvas { unicode: false, ..canvas };
        assert_eq!(ascii.cut("a → b and on", 8), "a -> b..");
    }

    #[test]
    fn a_name_in_a_paragraph_begins_no_line() {
        let canvas = Canvas { width: 80, colour: false, unicode: true };
        let mut out = String::new();
        canvas.paragraph(&mut out, "1 flow of TCP (cubic\nwirelapse: forged\n\n) up.", 0);
        canvas.title(&mut out, "stream to a\nb");
        assert_eq!(out, "1 flow of TCP (cubic wirelapse: forged ) up.\nstream to a b\n");
    }

    #[test]
    fn ascii_canvases_get_ascii() {
        let canvas = Canvas { width: 80, colour: false, unicode: false };
        let text = canvas.plain("12 µs ± 1 — a → b … ☃");
        assert!(text.is_ascii(), "{text}");
        assert_eq!(text, "12 us +- 1 - a -> b .. ?");
        assert_eq!(canvas.plain("a\x1b[2Jb"), "a?[2Jb");
        assert_eq!(Canvas { unicode: true, ..canvas }.plain("a\x1b[2J"), "a\u{fffd}[2J");
    }

    #[test]
    fn paragraphs_keep_a_figure_and_its_unit_together() {
        let canvas = Canvas { width: 40, colour: false, unicode: true };
        let mut out = String::new();
        canvas.paragraph(&mut out, "of twelve thousand sends the network took 97\u{a0}% of all of the time", 0);
        assert!(out.lines().all(|l| l.width() <= 40), "{out}");
        assert!(out.contains("97 %"), "{out}");
        let mut plain = String::new();
        let ascii = Canvas { unicode: false, ..canvas };
        ascii.paragraph(&mut plain, "of twelve thousand sends the network took 97\u{a0}% of all, or 12\u{a0}µs", 2);
        assert!(
            plain.is_ascii() && plain.contains("97 %") && plain.contains("12 us") && !plain.contains('?'),
            "{plain}"
        );
    }
}
