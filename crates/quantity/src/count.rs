//! Whole numbers of things.

use std::ops::RangeInclusive;

use crate::error::{Kind, Problem, Wrong};
use crate::number::split;

/// Reads `12345`, `12,345`, `10k`, `2M`, `1G`: powers of 1000.
///
/// # Errors
/// What is no such text, negative, a fraction, or above 10^18.
pub fn parse(text: &str) -> Result<u64, Wrong> {
    let wrong = |problem| Kind::Count.wrong(problem);
    let joined = without_thousands(text.trim()).ok_or_else(|| wrong(Problem::Comma))?;
    let (number, unit) = split(&joined).map_err(wrong)?;
    let size = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        other => return Err(wrong(Problem::Unit(other.into()))),
    };
    if !number.is_whole_in(size) {
        return Err(wrong(Problem::Fraction));
    }
    match number.times(size) {
        n if n > 1_000_000_000_000_000_000 => Err(wrong(Problem::TooLarge("1000000000 G".into()))),
        n => Ok(n as u64),
    }
}

/// Reads a count within bounds.
///
/// # Errors
/// The parser that is given back refuses what [`parse`] refuses, and what lies outside.
pub fn within(bounds: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, Wrong> + Clone {
    move |text| match parse(text)? {
        n if n < *bounds.start() => Err(Kind::Count.wrong(Problem::TooSmall(bounds.start().to_string()))),
        n if n > *bounds.end() => Err(Kind::Count.wrong(Problem::TooLarge(bounds.end().to_string()))),
        n => Ok(n),
    }
}

/// The text without the commas that separate its thousands; `None` where a comma stands anywhere
/// else.
fn without_thousands(text: &str) -> Option<String> {
    let Some((first, rest)) = text.split_once(',') else { return Some(text.into()) };
    let digits = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
    let fits = (1..=3).contains(&first.len()) && digits(first) && rest.split(',').all(|g| g.len() == 3 && digits(g));
    fits.then(|| text.replace(',', ""))
}

/// A count with commas between its thousands: `12,345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with the thing counted: `1 send`, `12,345 sends`.
pub fn counted(n: u64, thing: &str) -> String {
    let plural = match (n, thing.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {thing}{plural}", count(n))
}

/// A place in a row, from 1: `first`, `second`, …, `11th`.
pub fn ordinal(n: usize) -> String {
    const WORDS: [&str; 10] =
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
    match n.checked_sub(1).and_then(|i| WORDS.get(i)) {
        Some(word) => (*word).to_owned(),
        None => format!("{n}th"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_read_as_people_write_them() {
        for (text, n) in [
            ("0", 0),
            ("12345", 12_345),
            ("12,345", 12_345),
            ("1,000,000", 1_000_000),
            ("10k", 10_000),
            ("1.5M", 1_500_000),
        ] {
            assert_eq!(parse(text), Ok(n), "{text}");
        }
        assert_eq!(within(1..=10)("10"), Ok(10));
    }

    #[test]
    fn places_are_words_up_to_ten() {
        assert_eq!([1, 2, 10, 11].map(ordinal), ["first", "second", "tenth", "11th"]);
    }

    #[test]
    fn what_is_no_count_is_refused() {
        for (text, problem) in [
            ("", Problem::Empty),
            ("many", Problem::NotANumber),
            ("-5", Problem::Negative),
            ("1.5", Problem::Fraction),
            ("1,5", Problem::Comma),
            ("1,5000", Problem::Comma),
            (",500", Problem::Comma),
            ("5s", Problem::Unit("s".into())),
        ] {
            assert_eq!(parse(text), Err(Kind::Count.wrong(problem)), "{text}");
        }
        assert_eq!(within(1..=10)("0").unwrap_err().problem, Problem::TooSmall("1".into()));
        assert_eq!(within(1..=10)("11").unwrap_err().problem, Problem::TooLarge("10".into()));
    }

    #[test]
    fn counts_are_written() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [counted(1, "send"), counted(0, "send"), counted(2_000, "send"), counted(2, "process")],
            ["1 send", "0 sends", "2,000 sends", "2 processes"]
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9,.]{0,40}[kMG]{0,2}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read_back(n in 0..=1_000_000_000_000_000_000_u64) {
            prop_assert_eq!(parse(&count(n)), Ok(n));
        }
    }
}
