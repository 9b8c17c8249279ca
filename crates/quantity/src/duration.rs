//! Lengths of time.

use clock::Nanos;

use crate::digits::scaled;
use crate::error::{Kind, Problem, Wrong};
use crate::number::split;

/// A century: more is a slip, and would not fit the arithmetic of clocks.
const MOST: Nanos = Nanos(36_525 * 24 * 3_600 * 1_000_000_000);

/// Reads `900ns`, `200us`, `200µs`, `500ms`, `1.5s`, `5m`, `1h`, `30d`, and `0`. Rounded to the
/// nanosecond.
///
/// # Errors
/// What is no such text, negative, above a century, or without a unit: `20` could be seconds or
/// milliseconds.
pub fn parse(text: &str) -> Result<Nanos, Wrong> {
    let wrong = |problem| Kind::Duration.wrong(problem);
    let (number, unit) = split(text).map_err(wrong)?;
    if unit.is_empty() && !number.is_zero() {
        return Err(wrong(Problem::NoUnit));
    }
    seconds(text)
}

/// As [`parse`], where a bare number is seconds: how long a measurement takes.
///
/// # Errors
/// As [`parse`], but for a unit that is missing.
pub fn seconds(text: &str) -> Result<Nanos, Wrong> {
    let wrong = |problem| Kind::Duration.wrong(problem);
    let (number, unit) = split(text).map_err(wrong)?;
    let unit = match unit {
        "ns" => 1,
        // U+00B5 and U+03BC: keyboards and fonts have either.
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "" | "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 24 * 3_600_000_000_000,
        other => return Err(wrong(Problem::Unit(other.into()))),
    };
    let ns = number.times(unit);
    if ns > u128::from(MOST.0) {
        return Err(wrong(Problem::TooLarge("100 years".into())));
    }
    Ok(Nanos(ns as u64))
}

/// The same, and longer than no time at all.
///
/// # Errors
/// As [`parse`], and zero.
pub fn above_zero(text: &str) -> Result<Nanos, Wrong> {
    parse(text).and_then(longer_than_nothing)
}

/// As [`seconds`], and longer than no time at all.
///
/// # Errors
/// As [`seconds`], and zero.
pub fn seconds_above_zero(text: &str) -> Result<Nanos, Wrong> {
    seconds(text).and_then(longer_than_nothing)
}

fn longer_than_nothing(time: Nanos) -> Result<Nanos, Wrong> {
    if time.0 > 0 { Ok(time) } else { Err(Kind::Duration.wrong(Problem::Zero)) }
}

/// Nanoseconds with so many significant digits: `40.12 ms` of four. [`Nanos`] itself shows three.
pub fn time_to(ns: f64, digits: usize) -> String {
    scaled(ns, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)], digits)
}

/// The time as it is written in a plan, to the nanosecond and in the largest unit that keeps it
/// whole: `1500ms`.
pub fn exact_duration(time: Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let (size, name) = units.into_iter().find(|u| time.0 % u.0 == 0).unwrap_or((1, "ns"));
    format!("{}{name}", time.0 / size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, ns) in [
            ("10s", 10_000_000_000),
            ("10 s", 10_000_000_000),
            ("500ms", 500_000_000),
            ("5m", 300_000_000_000),
            ("5min", 300_000_000_000),
            ("1h", 3_600_000_000_000),
            ("30d", 30 * 86_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("200us", 200_000),
            ("200µs", 200_000),
            ("200μs", 200_000),
            ("900ns", 900),
            ("0", 0),
            ("0.0000000004s", 0),
        ] {
            assert_eq!(parse(text), Ok(Nanos(ns)), "{text}");
        }
        assert_eq!(above_zero("1ns"), Ok(Nanos(1)));
        assert_eq!((seconds("10"), seconds("20ms")), (Ok(Nanos::from_secs(10)), Ok(Nanos::from_millis(20))));
        assert_eq!(seconds_above_zero("0.5"), Ok(Nanos::from_millis(500)));
        assert_eq!(seconds_above_zero("0").unwrap_err().problem, Problem::Zero);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for (text, problem) in [
            ("", Problem::Empty),
            ("s", Problem::NotANumber),
            ("-1s", Problem::Negative),
            ("1D", Problem::Unit("D".into())),
            ("10S", Problem::Unit("S".into())),
            ("1 hour", Problem::Unit("hour".into())),
            ("1e3ms", Problem::Unit("e3ms".into())),
            ("1s/", Problem::Unit("s/".into())),
            ("99999999999999999999s", Problem::TooLarge("100 years".into())),
            ("876601h", Problem::TooLarge("100 years".into())),
            ("36526d", Problem::TooLarge("100 years".into())),
        ] {
            assert_eq!(parse(text), Err(Kind::Duration.wrong(problem)), "{text}");
        }
        assert_eq!(above_zero("0s"), Err(Kind::Duration.wrong(Problem::Zero)));
    }

    #[test]
    fn times_are_written() {
        assert_eq!([40_123_456.0, 999_960_000.0, 12.0].map(|v| time_to(v, 4)), ["40.12 ms", "1.000 s", "12 ns"]);
        assert_eq!([1_500_000_000, 2_000_000_000, 1_001].map(|n| exact_duration(Nanos(n))), ["1500ms", "2s", "1001ns"]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9.]{0,40}[a-zµ]{0,3}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read_back(ns in 0..MOST.0) {
            prop_assert_eq!(parse(&exact_duration(Nanos(ns))), Ok(Nanos(ns)));
            let shown = parse(&Nanos(ns).to_string()).unwrap();
            prop_assert!(shown.0.abs_diff(ns) as f64 <= ns as f64 * 0.005, "{} as {}", ns, Nanos(ns));
            let four = parse(&time_to(ns as f64, 4)).unwrap();
            prop_assert!(four.0.abs_diff(ns) as f64 <= ns as f64 * 0.0005, "{} as {}", ns, time_to(ns as f64, 4));
        }
    }
}
