//! Characters that no text of others may bring to a terminal.

/// Whether a character steers a terminal, or changes the order in which the text around it is shown: control characters, and the
/// directional formatting characters of Unicode's Bidirectional Algorithm (UAX #9). `\n` and `\t` are among them.
pub fn steers(c: char) -> bool {
    let directional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || directional || matches!(c, '\u{2028}' | '\u{2029}')
}
