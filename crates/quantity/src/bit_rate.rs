//! Bits a second.

use crate::digits::scaled;
use crate::error::{Kind, Problem, Wrong};
use crate::number::split;

/// Far above every link, and within the arithmetic of those who multiply it.
const MOST: u128 = 1_000_000_000_000_000_000;

/// Reads `10M`, `10Mbit`, `10mbit/s`, `10Mbps`, `1gbit`: powers of 1000 in either case, as `-b` of
/// iperf3 and tc's `rate` have them. A bare number is bits a second. Gives whole bits a second,
/// zero included.
///
/// Only `b` is taken for bits: `10MB/s` is refused rather than read as either.
///
/// # Errors
/// What is no such text, negative, in bytes, or above 10^18.
pub fn parse(text: &str) -> Result<u64, Wrong> {
    let wrong = |problem| Kind::BitRate.wrong(problem);
    let (number, unit) = split(text).map_err(wrong)?;
    let (size, rest) = match unit.chars().next().map(|c| c.to_ascii_lowercase()) {
        Some('k') => (1_000, &unit[1..]),
        Some('m') => (1_000_000, &unit[1..]),
        Some('g') => (1_000_000_000, &unit[1..]),
        Some('t') => (1_000_000_000_000, &unit[1..]),
        _ => (1, unit),
    };
    match rest {
        "" | "b" | "b/s" | "bps" => {}
        "B" | "B/s" | "Bps" => return Err(wrong(Problem::BytesNotBits)),
        bits if ["bit", "bits", "bit/s", "bits/s"].iter().any(|b| bits.eq_ignore_ascii_case(b)) => {}
        _ => return Err(wrong(Problem::Unit(unit.into()))),
    }
    let bits = number.times(size);
    if bits > MOST {
        return Err(wrong(Problem::TooLarge("1000000 Tbit/s".into())));
    }
    Ok(bits as u64)
}

/// Three digits and a unit, in powers of 1000: `941 Mbit/s`, `9.41 Gbit/s`.
pub fn bit_rate(bits_per_second: f64) -> String {
    bit_rate_to(bits_per_second, 3)
}

/// The same with so many significant digits: `941.5 Mbit/s` of four.
pub fn bit_rate_to(bits_per_second: f64, digits: usize) -> String {
    let units = [("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)];
    scaled(bits_per_second, &units, digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        let ten = ["10M", "10m", "10Mbps", "10mbit", "10Mbit", "10Mbit/s", "10 Mbit/s", "10Mb/s", "10000k", "10000000"];
        for text in ten {
            assert_eq!(parse(text), Ok(10_000_000), "{text}");
        }
        for (text, bits) in [
            ("1gbit", 1_000_000_000),
            ("1.5Gbit/s", 1_500_000_000),
            ("9600bit", 9_600),
            ("1T", 1_000_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(bits), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for (text, problem) in [
            ("fast", Problem::NotANumber),
            ("-1mbit", Problem::Negative),
            ("10MB/s", Problem::BytesNotBits),
            ("10MBps", Problem::BytesNotBits),
            ("10Mibit", Problem::Unit("Mibit".into())),
            ("10 horse", Problem::Unit("horse".into())),
            ("1e9", Problem::Unit("e9".into())),
            ("9999999999T", Problem::TooLarge("1000000 Tbit/s".into())),
        ] {
            assert_eq!(parse(text), Err(Kind::BitRate.wrong(problem)), "{text}");
        }
    }

    #[test]
    fn rates_are_written() {
        let shown = [0.0, 850.0, 999.6, 941_480_000.0, 9_416_000_000.0].map(bit_rate);
        assert_eq!(shown, ["0 bit/s", "850 bit/s", "1.00 kbit/s", "941 Mbit/s", "9.42 Gbit/s"]);
        assert_eq!(bit_rate_to(941.48e6, 4), "941.5 Mbit/s");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9.]{0,40}[kmgtbisp/]{0,6}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read_back(bits in 0..1_000_000_000_000_000_u64) {
            let shown = parse(&bit_rate(bits as f64)).unwrap();
            prop_assert!(shown.abs_diff(bits) as f64 <= bits as f64 * 0.005, "{}", bits);
        }
    }
}
