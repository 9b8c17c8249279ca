//! A decimal number with what follows it, read exactly.

use crate::error::Problem;

/// A number that is not negative: `mantissa / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    mantissa: u128,
    places: u32,
}

/// Digits behind the point that are kept. A unit has at most 18 (exabytes, and seconds in
/// nanoseconds have 9), so what lies beyond never reaches a whole number.
const PLACES: usize = 18;

/// Splits text into its number and the unit behind it, without blanks.
pub fn split(text: &str) -> Result<(Number, &str), Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if text.strip_prefix(['-', '−']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
        return Err(Problem::Negative);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if unit.starts_with(',') {
        return Err(Problem::Comma);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return Err(Problem::NotANumber);
    }
    let fraction = fraction.get(..PLACES).unwrap_or(fraction).trim_end_matches('0');
    let mut mantissa = 0_u128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let next = mantissa.checked_mul(10).and_then(|m| m.checked_add(u128::from(digit - b'0')));
        // Whatever the unit, this is above every limit.
        mantissa = next.unwrap_or(u128::MAX);
    }
    Ok((Number { mantissa, places: fraction.len() as u32 }, unit.trim()))
}

impl Number {
    /// Times the size of a unit, rounded to a whole number; saturates.
    pub fn times(self, unit: u64) -> u128 {
        let Some(scaled) = self.mantissa.checked_mul(u128::from(unit)) else { return u128::MAX };
        let divisor = 10_u128.pow(self.places);
        scaled / divisor + u128::from(scaled % divisor * 2 >= divisor)
    }

    /// Whether nothing stands behind the point once it is multiplied by a unit.
    pub fn is_whole_in(self, unit: u64) -> bool {
        self.mantissa.checked_mul(u128::from(unit)).is_none_or(|scaled| scaled % 10_u128.pow(self.places) == 0)
    }

    /// As a float.
    pub fn as_f64(self) -> f64 {
        self.mantissa as f64 / 10_f64.powi(self.places as i32)
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.mantissa == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly_and_rounded_once() {
        let times = |text: &str, unit| split(text).unwrap().0.times(unit);
        assert_eq!(times("0.1s", 1_000_000_000), 100_000_000);
        assert_eq!(times("1.0000000005", 1_000_000_000), 1_000_000_001);
        assert_eq!(times("9007199254740993", 1), 9_007_199_254_740_993);
        assert_eq!(times(&"9".repeat(80), 1), u128::MAX);
        assert_eq!(split(" 1.5 KiB ").unwrap().1, "KiB");
        assert_eq!(split(".5").unwrap().0.as_f64(), 0.5);
    }

    #[test]
    fn what_is_no_number_says_why() {
        for (text, problem) in [
            ("", Problem::Empty),
            ("  ", Problem::Empty),
            ("-1s", Problem::Negative),
            ("1,5s", Problem::Comma),
            ("s", Problem::NotANumber),
            ("-s", Problem::NotANumber),
            (".", Problem::NotANumber),
            ("1.2.3", Problem::NotANumber),
            ("nan", Problem::NotANumber),
            ("+1", Problem::NotANumber),
        ] {
            assert_eq!(split(text), Err(problem), "{text:?}");
        }
    }
}
