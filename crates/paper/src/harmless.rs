//! The last writer before a terminal, a pipe or a log: what steers a terminal does not pass it,
//! whoever wrote it and wherever a write ends.
//!
//! Runs, captures and peers bring names that others chose. Whatever draws them replaces such
//! characters itself, so that columns keep their width; this writer is for what forgot to.

use std::borrow::Cow;
use std::io::{self, Write};

use record::{harmless_json, has_steering, steers};

/// Text in which what steers a terminal is `�`; lines and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    let counts = |c: char| !matches!(c, '\n' | '\t');
    if !has_steering(text, counts) {
        return text.into();
    }
    text.replace(|c: char| steers(c) && counts(c), "\u{fffd}").into()
}

/// The same of each line that ends as those of CSV do (RFC 4180): a carriage
/// return alone makes a terminal write the rest of the line over its beginning.
fn lines<'a>(text: &'a str, tame: impl Fn(&'a str) -> Cow<'a, str>) -> Cow<'a, str> {
    if !text.contains("\r\n") {
        return tame(text);
    }
    text.split("\r\n").map(tame).collect::<Vec<_>>().join("\r\n").into()
}

/// How much of `text` is whole: all but a carriage return at its end.
fn whole_lines(text: &str) -> usize {
    text.strip_suffix('\r').unwrap_or(text).len()
}

/// What becomes of the bytes that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// As [`text`], but lines may end in `\r\n`.
    Text,
    /// The same, but colours pass (SGR, ECMA-48 8.3.117): a report is drawn in them.
    Drawn,
    /// JSON: what steers is escaped, so whoever parses it reads the same.
    Json,
    /// Nothing: they are no text.
    Bytes,
}

/// A writer that gives on what steers no terminal.
#[derive(Debug)]
pub struct Harmless<W> {
    out: W,
    form: As,
    /// The beginning of a character, a colour or a line's end of which the rest is still to come.
    begun: Vec<u8>,
}

impl<W> Harmless<W> {
    /// Before `out`.
    pub fn new(out: W, form: As) -> Self {
        Self { out, form, begun: Vec::new() }
    }
}

/// How much of `text` is whole: all but the beginning of a colour at its end.
fn whole_colours(text: &str) -> usize {
    match text.rfind('\u{1b}') {
        Some(at) if matches!(colour(&text[at..]), Colour::Begun) => at,
        _ => text.len(),
    }
}

enum Colour {
    /// So many bytes long.
    Whole(usize),
    Begun,
    None,
}

/// Digits and semicolons of the longest colour: no renderer writes half as many.
const LONGEST: usize = 32;

/// What begins with an escape character.
fn colour(text: &str) -> Colour {
    let mut after = text.bytes().skip(1).peekable();
    match after.next() {
        None => return Colour::Begun,
        Some(b'[') => {}
        Some(_) => return Colour::None,
    }
    let mut digits = 0;
    while digits < LONGEST && after.next_if(|byte| matches!(byte, b'0'..=b'9' | b';')).is_some() {
        digits += 1;
    }
    match after.next() {
        None => Colour::Begun,
        Some(b'm') => Colour::Whole(digits + 3),
        Some(_) => Colour::None,
    }
}

/// As [`text`], but colours stay.
fn drawn(mut rest: &str) -> Cow<'_, str> {
    if !rest.contains('\u{1b}') {
        return text(rest);
    }
    let mut out = String::with_capacity(rest.len());
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&text(&rest[..at]));
        let length = match colour(&rest[at..]) {
            Colour::Whole(length) => {
                out.push_str(&rest[at..at + length]);
                length
            }
            Colour::Begun | Colour::None => {
                out.push('\u{fffd}');
                1
            }
        };
        rest = &rest[at + length..];
    }
    out.push_str(&text(rest));
    out.into()
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.form == As::Bytes {
            return self.out.write(bytes);
        }
        let all = if self.begun.is_empty() { Cow::from(bytes) } else { [self.begun.as_slice(), bytes].concat().into() };
        let (now, whole) = match std::str::from_utf8(&all) {
            Ok(text) => (Cow::from(text), all.len()),
            Err(error) => {
                let whole = if error.error_len().is_none() { error.valid_up_to() } else { all.len() };
                (String::from_utf8_lossy(&all[..whole]), whole)
            }
        };
        let (said, held) = now.split_at(match self.form {
            As::Drawn => whole_colours(&now).min(whole_lines(&now)),
            As::Text => whole_lines(&now),
            As::Json | As::Bytes => now.len(),
        });
        let tame = match self.form {
            As::Drawn => lines(said, drawn),
            As::Text => lines(said, text),
            As::Json | As::Bytes => harmless_json(said),
        };
        self.out.write_all(tame.as_bytes())?;
        self.begun = [held.as_bytes(), &all[whole..]].concat();
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
        let said = "a\u{1b}[2J\u{9b}5A\u{1b}]0;x\u{7}\u{1b}[1;31mé\u{1b}[0m\u{202e}\r\n\tb\rc";
        for (form, expected) in [
            (As::Text, "a\u{fffd}[2J\u{fffd}5A\u{fffd}]0;x\u{fffd}\u{fffd}[1;31mé\u{fffd}[0m\u{fffd}\r\n\tb\u{fffd}c"),
            (As::Drawn, "a\u{fffd}[2J\u{fffd}5A\u{fffd}]0;x\u{fffd}\u{1b}[1;31mé\u{1b}[0m\u{fffd}\r\n\tb\u{fffd}c"),
            // JSON has none below U+0020.
            (As::Json, "a\u{1b}[2J\\u009b5A\u{1b}]0;x\u{7}\u{1b}[1;31mé\u{1b}[0m\\u202e\r\n\tb\rc"),
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

    #[test]
    fn what_only_begins_like_a_colour_is_none() {
        let endless = format!("\u{1b}[{}", "1;".repeat(40));
        for said in ["\u{1b}[31", "\u{1b}[31;x", "\u{1b}\u{1b}[2Jm", endless.as_str()] {
            let mut out = Vec::new();
            let mut writer = Harmless::new(&mut out, As::Drawn);
            write!(writer, "{said}A").unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(out.ends_with('A') && !out.contains('\u{1b}'), "{said:?}: {out:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut out = Vec::new();
        Harmless::new(&mut out, As::Text).write_all(b"a\x9bJ\xff\xc2\x9bb").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\u{fffd}J\u{fffd}\u{fffd}b");
    }
}
