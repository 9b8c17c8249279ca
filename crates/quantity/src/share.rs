//! Shares of a whole.

use crate::error::{Kind, Problem, Wrong};
use crate::number::split;

/// Reads `0.5%`, `100 %`, and `0`. Gives a number from 0 to 1.
///
/// # Errors
/// What is no such text, negative, above 100 %, or without `%`: `1` could be 1 % or all.
pub fn parse(text: &str) -> Result<f64, Wrong> {
    let wrong = |problem| Kind::Share.wrong(problem);
    let (number, unit) = split(text).map_err(wrong)?;
    match unit {
        "%" => {}
        "" if number.is_zero() => {}
        "" => return Err(wrong(Problem::NoUnit)),
        other => return Err(wrong(Problem::Unit(other.into()))),
    }
    let share = number.as_f64() / 100.0;
    if share > 1.0 { Err(wrong(Problem::TooLarge("100%".into()))) } else { Ok(share) }
}

/// A share of 1 in percent, never rounded to all or nothing: `97 %`, `2.1 %`, `< 0.1 %`, `> 99.9 %`.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p.is_nan() {
        "—".into()
    } else if p <= 0.0 {
        "0 %".into()
    } else if p < 0.1 {
        "< 0.1 %".into()
    } else if p < 9.95 {
        format!("{p:.1} %")
    } else if p < 99.5 {
        format!("{p:.0} %")
    } else if p < 99.95 {
        format!("{p:.1} %")
    } else if p < 100.0 {
        "> 99.9 %".into()
    } else {
        "100 %".into()
    }
}

/// What share `part` is of `whole`. Nothing of nothing is not a number, and [`percent`] shows a dash for it.
pub fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { f64::NAN } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_read_as_people_write_them() {
        for (text, share) in [("0.5%", 0.005), ("0", 0.0), ("0%", 0.0), ("100%", 1.0), ("50 %", 0.5)] {
            assert_eq!(parse(text), Ok(share), "{text}");
        }
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for (text, problem) in [
            ("%", Problem::NotANumber),
            ("-1%", Problem::Negative),
            ("1", Problem::NoUnit),
            ("0.5", Problem::NoUnit),
            ("150%", Problem::TooLarge("100%".into())),
            ("5s", Problem::Unit("s".into())),
        ] {
            assert_eq!(parse(text), Err(Kind::Share.wrong(problem)), "{text}");
        }
    }

    #[test]
    fn shares_are_written() {
        assert_eq!(
            [0.0, 0.000_1, 0.021, 0.5, 0.996, 0.999_9, 1.0, f64::NAN].map(percent),
            ["0 %", "< 0.1 %", "2.1 %", "50 %", "99.6 %", "> 99.9 %", "100 %", "—"]
        );
        assert!(share(0, 0).is_nan());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9.]{0,40}%?") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read_back(share in 0.001..0.999_f64) {
            let shown = parse(&percent(share)).unwrap();
            prop_assert!((shown - share).abs() <= if share < 0.099_5 { 0.000_51 } else { 0.005_1 }, "{}", share);
        }
    }
}
