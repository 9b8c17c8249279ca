//! Characters that no text of others may bring to a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character steers a terminal, or changes the order in which the text around it is
/// shown: control characters, and the directional formatting characters of Unicode's Bidirectional
/// Algorithm (UAX #9). `\n` and `\t` are among them.
pub fn steers(c: char) -> bool {
    let directional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || directional || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether `text` has a character that [`steers`] and for which `counts` is true.
///
/// Every line that is printed passes here, so most of it is taken in blocks: few bytes begin a
/// character that steers.
pub fn has_steering(text: &str, counts: impl Fn(char) -> bool) -> bool {
    const BLOCK: usize = 64;
    let bytes = text.as_bytes();
    bytes.chunks(BLOCK).enumerate().any(|(block, part)| {
        part.iter().fold(false, |found, &byte| found | may_begin_steering(byte))
            && part.iter().enumerate().any(|(i, &byte)| {
                let rest = || text[block * BLOCK + i..].chars().next();
                may_begin_steering(byte) && rest().is_some_and(|c| steers(c) && counts(c))
            })
    })
}

/// The first byte in UTF-8 of a character that [`steers`]: itself below U+0080, else that of
/// U+0080 to U+00BF, U+0600 to U+063F, or U+2000 to U+2FFF. None of them continues another one.
fn may_begin_steering(byte: u8) -> bool {
    (byte < b' ') | (byte == 0x7f) | (byte == 0xc2) | (byte == 0xd8) | (byte == 0xe2)
}

/// JSON text in which what [`steers`] a terminal is written as `\u` and a number: whoever parses it
/// reads the same. Characters below U+0020 are escaped in any JSON.
pub fn harmless_json(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c >= '\u{7f}';
    if !has_steering(text, is_escaped) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) && steers(c) {
            // All of them are below U+FFFF. Writing into a string cannot fail.
            true => drop(write!(out, "\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_steers_is_found_wherever_it_stands() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let mut first = [0; 4];
            let first = c.encode_utf8(&mut first).as_bytes()[0];
            assert!(!steers(c) || may_begin_steering(first), "{c:?}");
            assert_eq!(has_steering(c.encode_utf8(&mut [0; 4]), |_| true), steers(c), "{c:?}");
        }
        for before in 0..200 {
            let plain = "\u{2212}\u{b5}a".repeat(before);
            assert!(!has_steering(&plain, |_| true));
            assert!(has_steering(&format!("{plain}\u{202e}b"), |c| c > '\u{9f}'));
            assert!(!has_steering(&format!("{plain}\n{plain}"), |c| c != '\n'));
        }
    }

    #[test]
    fn json_steers_no_terminal_and_says_the_same() {
        let text = "a\u{7f}\u{9b}31m\u{202e}\u{2066}\u{2028}\u{e9}";
        let quoted = format!("\"{text}\"");
        assert_eq!(harmless_json(&quoted), "\"a\\u007f\\u009b31m\\u202e\\u2066\\u2028\u{e9}\"");
        assert!(matches!(harmless_json("{\"a\":\"\u{e9}\"}\n"), Cow::Borrowed(_)));
        assert!((0..=u32::from(char::MAX)).filter_map(char::from_u32).all(|c| !steers(c) || c <= '\u{ffff}'));
    }
}
