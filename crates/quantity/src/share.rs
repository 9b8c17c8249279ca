//! Shares of a whole.

use crate::digits::significant;
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

/// A share of 1 in percent, never rounded to all or nothing: `97 %`, `2.1 %`, `< 0.1 %`,
/// `> 99.9 %`; more than all as it is: `111 %`.
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
        format!("{p:.0} %")
    }
}

/// A p value with four decimals, never rounded to zero: `0.0312`, `< 0.0001`.
pub fn p_value(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".into() } else { format!("{p:.4}") }
}

/// A share of 1 in percent with so many significant digits, at most as many behind the point less
/// one: `2.35 %` of three. What is above zero is never shown as zero.
pub fn percent_to(share: f64, digits: usize) -> String {
    let p = share * 100.0;
    if p.is_nan() {
        return "—".into();
    }
    let text = significant(p, digits);
    if p > 0.0 && !text.contains(|c: char| matches!(c, '1'..='9')) {
        let places = digits.saturating_sub(1);
        return format!("< {:.places$} %", 10_f64.powi(-(places as i32)));
    }
    format!("{text} %")
}

/// A share of 1 in percent as it was asked for: `0.25 %`, `12.5 %`, to a millionth of a percent.
pub fn percent_exact(share: f64) -> String {
    format!("{} %", (share * 1e8).round() / 1e6)
}

/// A change as a share of 1, in percent with its sign, as fine as it needs: `+0.82 %`, `−12.3 %`.
pub fn change(share: f64) -> String {
    if share.is_nan() { "—".into() } else { format!("{} %", change_in_points(share)) }
}

/// The number of [`change`] without its unit, for several that share one: `+0.82`, `−12.3`.
pub fn change_in_points(share: f64) -> String {
    let sign = if share > 0.0 {
        "+"
    } else if share < 0.0 {
        "−"
    } else {
        ""
    };
    format!("{sign}{}", points(share.abs()))
}

/// A share of 1 in percent as fine as a change is, without sign and unit: `0.82`, `12.3`.
pub fn points(share: f64) -> String {
    let p = share * 100.0;
    let digits = match p {
        0.0 => 0,
        p if p >= 10.0 => 1,
        p if p >= 0.095 => 2,
        _ => 3,
    };
    format!("{p:.digits$}")
}

/// How many times something is: `43 ×`, `1,100 ×`, to two digits.
pub fn times(ratio: f64) -> String {
    if ratio.is_finite() { format!("{} ×", factor(ratio)) } else { "—".into() }
}

/// The number of [`times`] alone: `43`, `1,100`.
pub fn factor(ratio: f64) -> String {
    if ratio < 9.95 {
        return significant(ratio, 2);
    }
    let unit = 10_f64.powf(ratio.log10().floor() - 1.0);
    crate::count(((ratio / unit).round() * unit) as u64)
}

/// What share `part` is of `whole`. Nothing of nothing is not a number, and [`percent`] shows a
/// dash for it.
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
    fn a_p_value_is_never_zero() {
        assert_eq!([0.5, 0.0001, 0.00009, 0.0].map(p_value), ["0.5000", "0.0001", "< 0.0001", "< 0.0001"]);
    }

    #[test]
    fn how_many_times_has_two_digits() {
        assert_eq!(
            [1.0, 2.04, 9.96, 43.4, 99.6, 1_132.0, 25_400.0, f64::NAN].map(times),
            ["1.0 ×", "2.0 ×", "10 ×", "43 ×", "100 ×", "1,100 ×", "25,000 ×", "—"]
        );
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
        assert_eq!(
            [0.008_23, -0.974, 0.000_02, 0.0, f64::NAN].map(change),
            ["+0.82 %", "−97.4 %", "+0.002 %", "0 %", "—"]
        );
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

    #[test]
    fn more_than_all_is_said() {
        assert_eq!([1.0, 1.004, 1.111, 12.0].map(percent), ["100 %", "100 %", "111 %", "1200 %"]);
    }

    #[test]
    fn a_small_share_keeps_its_digits_and_is_never_nothing() {
        let three = |share| percent_to(share, 3);
        assert_eq!([0.0235, 0.1234, 0.0002, 0.0].map(three), ["2.35 %", "12.3 %", "0.02 %", "0.00 %"]);
        assert_eq!((percent_to(0.000_01, 3), percent_to(f64::NAN, 3)), ("< 0.01 %".into(), "—".into()));
        assert_eq!([0.0025, 0.125, 1e-7].map(percent_exact), ["0.25 %", "12.5 %", "0.00001 %"]);
    }
}
