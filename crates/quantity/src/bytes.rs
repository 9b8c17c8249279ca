//! Numbers of bytes.

use crate::digits::scaled;
use crate::error::{Kind, Problem, Wrong};
use crate::number::split;

/// Reads `1448`, `64K` or `64KiB` (65,536: powers of 1024, as iperf3 has them for sizes), `64kB` or
/// `64KB` (64,000: powers of 1000). A bare number is bytes.
///
/// # Errors
/// What is no such text, negative, or does not fit 63 bits.
pub fn parse(text: &str) -> Result<u64, Wrong> {
    let wrong = |problem| Kind::Bytes.wrong(problem);
    let (number, unit) = split(text).map_err(wrong)?;
    let unknown = || wrong(Problem::Unit(unit.into()));
    let size = match unit {
        "" | "B" => 1,
        _ => {
            let power = match unit.chars().next().map(|c| c.to_ascii_lowercase()) {
                Some('k') => 1,
                Some('m') => 2,
                Some('g') => 3,
                Some('t') => 4,
                Some('p') => 5,
                Some('e') => 6,
                _ => return Err(unknown()),
            };
            match &unit[1..] {
                "" | "i" | "iB" => 1_024_u64.pow(power),
                "B" => 1_000_u64.pow(power),
                _ => return Err(unknown()),
            }
        }
    };
    let bytes = number.times(size);
    if bytes > i64::MAX as u128 { Err(wrong(Problem::TooLarge("8 EiB".into()))) } else { Ok(bytes as u64) }
}

/// The same within 32 bits.
///
/// # Errors
/// As [`parse`], and from 4 GiB on.
pub fn parse_u32(text: &str) -> Result<u32, Wrong> {
    u32::try_from(parse(text)?).map_err(|_| Kind::Bytes.wrong(Problem::TooLarge(format!("{} bytes", u32::MAX))))
}

const UNITS: [(&str, f64); 7] = [
    ("B", 1.0),
    ("KiB", 1_024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("PiB", 1_125_899_906_842_624.0),
    ("EiB", 1_152_921_504_606_846_976.0),
];

/// Three digits and a binary unit: `512 B`, `16.0 KiB`.
pub fn bytes(n: u64) -> String {
    bytes_to(n as f64, 3)
}

/// The same with so many significant digits, for means too: `16.02 KiB` of four.
pub fn bytes_to(n: f64, digits: usize) -> String {
    scaled(n, &UNITS, digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, n) in [
            ("1448", 1_448),
            ("100B", 100),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("64Ki", 65_536),
            ("64kB", 64_000),
            ("64KB", 64_000),
            ("1.5M", 1_572_864),
            ("1MB", 1_000_000),
            ("16T", 16 << 40),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(n), "{text}");
        }
        assert_eq!(parse_u32("4G").unwrap_err().problem, Problem::TooLarge("4294967295 bytes".into()));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for (text, problem) in [
            ("", Problem::Empty),
            ("x", Problem::NotANumber),
            ("-1", Problem::Negative),
            ("64XB", Problem::Unit("XB".into())),
            ("64kb", Problem::Unit("kb".into())),
            ("64Kbit", Problem::Unit("Kbit".into())),
            ("1e9", Problem::Unit("e9".into())),
            ("9E", Problem::TooLarge("8 EiB".into())),
        ] {
            assert_eq!(parse(text), Err(Kind::Bytes.wrong(problem)), "{text}");
        }
    }

    #[test]
    fn sizes_are_written() {
        assert_eq!(
            [0, 1_023, 1_024, 16_384, 1_023_500, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "16.0 KiB", "0.98 MiB", "16.0 EiB"]
        );
        assert_eq!(bytes_to(16_404.5, 4), "16.02 KiB");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9.]{0,40}[KMGTPEikB]{0,4}") {
            let _ = (parse(&text), parse_u32(&text));
        }

        #[test]
        fn what_is_written_is_read_back(n in 0..=i64::MAX as u64 / 2) {
            let shown = parse(&bytes(n)).unwrap();
            prop_assert!(shown.abs_diff(n) as f64 <= n as f64 * 0.0052, "{} as {}", n, bytes(n));
        }
    }
}
