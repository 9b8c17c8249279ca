//! Events a second: sends, frames, transactions.

use std::num::NonZeroU32;

use crate::digits::significant;
use crate::error::{Kind, Problem, Wrong};
use crate::number::{Number, split};

/// The number and the size of its prefix.
fn read(text: &str) -> Result<(Number, u64), Wrong> {
    let wrong = |problem| Kind::PerSecond.wrong(problem);
    let (number, unit) = split(text).map_err(wrong)?;
    let prefix = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("pps")).unwrap_or(unit).trim_end();
    let size = match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        _ => return Err(wrong(Problem::Unit(unit.into()))),
    };
    if number.is_zero() { Err(wrong(Problem::Zero)) } else { Ok((number, size)) }
}

/// Reads `1000/s`, `0.5/s`, `20k/s`, `1.5Mpps`; `/s` may be omitted. Powers of 1000. Above zero.
///
/// # Errors
/// What is no such text, zero, negative, or above 10^15.
pub fn parse(text: &str) -> Result<f64, Wrong> {
    let (number, size) = read(text)?;
    let rate = number.as_f64() * size as f64;
    if rate > 1e15 { Err(Kind::PerSecond.wrong(Problem::TooLarge("1000000 G/s".into()))) } else { Ok(rate) }
}

/// The same in whole numbers, up to 4 294 967 295 a second.
///
/// # Errors
/// As [`parse`], and fractions.
pub fn whole(text: &str) -> Result<NonZeroU32, Wrong> {
    let (number, size) = read(text)?;
    if !number.is_whole_in(size) {
        return Err(Kind::PerSecond.wrong(Problem::Fraction));
    }
    let rate = u32::try_from(number.times(size)).ok().and_then(NonZeroU32::new);
    rate.ok_or_else(|| Kind::PerSecond.wrong(Problem::TooLarge(format!("{}/s", u32::MAX))))
}

/// Three digits, in powers of 1000: `24.4/s`, `845/s`, `15.7 M/s`.
pub fn per_second(rate: f64) -> String {
    let (size, prefix) = match rate.abs() {
        r if r < 999.5 => (1.0, ""),
        r if r < 999_500.0 => (1e3, " k"),
        r if r < 999_500_000.0 => (1e6, " M"),
        _ => (1e9, " G"),
    };
    let value = rate / size;
    let text = if size == 1.0 && value.fract() == 0.0 { format!("{value:.0}") } else { significant(value, 3) };
    format!("{text}{prefix}/s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, rate) in [
            ("200/s", 200.0),
            ("7", 7.0),
            ("0.5", 0.5),
            ("20k/s", 20_000.0),
            ("20 k/s", 20_000.0),
            ("1.5Mpps", 1_500_000.0),
            ("14.88M", 14_880_000.0),
        ] {
            assert_eq!(parse(text), Ok(rate), "{text}");
        }
        assert_eq!(whole("1.5k/s").map(NonZeroU32::get), Ok(1_500));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for (text, problem) in [
            ("", Problem::Empty),
            ("0", Problem::Zero),
            ("0/s", Problem::Zero),
            ("-1", Problem::Negative),
            ("1/m", Problem::Unit("/m".into())),
            ("9999999999G", Problem::TooLarge("1000000 G/s".into())),
        ] {
            assert_eq!(parse(text), Err(Kind::PerSecond.wrong(problem)), "{text}");
        }
        assert_eq!(whole("1.5/s"), Err(Kind::PerSecond.wrong(Problem::Fraction)));
        assert_eq!(whole("5G"), Err(Kind::PerSecond.wrong(Problem::TooLarge("4294967295/s".into()))));
    }

    #[test]
    fn rates_are_written() {
        assert_eq!([24.39, 845.0, 999.6, 15_700_000.0].map(per_second), ["24.4/s", "845/s", "1.00 k/s", "15.7 M/s"]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9.]{0,40}[kmg/sp]{0,4}") {
            let _ = (parse(&text), whole(&text));
        }

        #[test]
        fn what_is_written_is_read_back(rate in 0.01..1e12_f64) {
            let shown = parse(&per_second(rate)).unwrap();
            // Below 1 the digits behind the point are what is left.
            prop_assert!((shown - rate).abs() <= (rate * 0.0051).max(0.0051), "{} as {}", rate, per_second(rate));
        }
    }
}
