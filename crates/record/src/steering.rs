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

/// JSON text in which what [`steers`] a terminal is written as `\u` and a number: whoever parses it
/// reads the same. Characters below U+0020 are escaped in any JSON.
pub fn harmless_json(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c >= '\u{7f}' && steers(c);
    if !text.contains(steers) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match steers(c) {
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
    fn json_steers_no_terminal_and_says_the_same() {
        let text = "a\u{7f}\u{9b}31m\u{202e}\u{2066}\u{2028}\u{e9}";
        let quoted = format!("\"{text}\"");
        assert_eq!(harmless_json(&quoted), "\"a\\u007f\\u009b31m\\u202e\\u2066\\u2028\u{e9}\"");
        assert!(matches!(harmless_json("{\"a\":\"\u{e9}\"}\n"), Cow::Borrowed(_)));
        assert!((0..=u32::from(char::MAX)).filter_map(char::from_u32).all(|c| !steers(c) || c <= '\u{ffff}'));
    }
}
