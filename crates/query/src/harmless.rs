//! Text of others on its way to a terminal: runs hold names that programs and containers chose for
//! themselves.

use std::borrow::Cow;
use std::io::{self, Write};

/// Text in which what steers a terminal is `�`; lines and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    let steers = |c: char| record::steers(c) && !matches!(c, '\n' | '\t');
    if text.contains(steers) { text.replace(steers, "\u{fffd}").into() } else { text.into() }
}

/// What becomes of the bytes that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// As [`text`].
    Text,
    /// JSON: what steers is escaped, so whoever parses it reads the same.
    Json,
    /// Nothing: they are no text.
    Bytes,
}

/// A writer that gives on what steers no terminal.
pub struct Harmless<W> {
    out: W,
    form: As,
    /// The beginning of a character of which the rest is still to come.
    begun: Vec<u8>,
}

impl<W> Harmless<W> {
    /// Before `out`.
    pub fn new(out: W, form: As) -> Self {
        Self { out, form, begun: Vec::new() }
    }
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.form == As::Bytes {
            return self.out.write(bytes);
        }
        let all = [self.begun.as_slice(), bytes].concat();
        let whole = match std::str::from_utf8(&all) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => all.len(),
        };
        let now = String::from_utf8_lossy(&all[..whole]);
        let tame = if self.form == As::Json { record::harmless_json(&now) } else { text(&now) };
        self.out.write_all(tame.as_bytes())?;
        self.begun = all[whole..].to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_found_wherever_a_write_ends() {
        let said = "a\u{1b}[2J\u{9b}5A\u{202e}é\n\tb";
        for (form, expected) in [
            (As::Text, "a\u{fffd}[2J\u{fffd}5A\u{fffd}é\n\tb"),
            // Arrow escapes what is below U+0020.
            (As::Json, "a\u{1b}[2J\\u009b5A\\u202eé\n\tb"),
            (As::Bytes, said),
        ] {
            for length in 1..=said.len() {
                let mut out = Vec::new();
                let mut writer = Harmless::new(&mut out, form);
                for piece in said.as_bytes().chunks(length) {
                    writer.write_all(piece).unwrap();
                }
                assert_eq!(String::from_utf8(out).unwrap(), expected, "{form:?} by {length}");
            }
        }
    }
}
