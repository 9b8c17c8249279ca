//! Settings as people write them: `25ms`, `1gbit`, `0.5%`, `64KiB`, each alone for both directions or as `a→b/b→a`.

use clock::Nanos;

use crate::Error;
use crate::config::{BitRate, Depth, Loss, Reorder};

fn wrong(what: &'static str, text: &str, problem: &str) -> Error {
    Error::Value { what, value: text.into(), problem: problem.into() }
}

/// `VALUE` for both directions, or `A_TO_B/B_TO_A`.
///
/// # Errors
/// Whatever `one` says of either part.
pub fn both<T>(text: &str, one: impl Fn(&str) -> Result<T, Error>) -> Result<[T; 2], Error> {
    let (ab, ba) = text.split_once('/').unwrap_or((text, text));
    Ok([one(ab)?, one(ba)?])
}

/// A number with a unit behind it; `None` where it is not a plain, finite, non-negative number.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit);
    let value: f64 = digits.parse().ok()?;
    value.is_finite().then_some((value, unit.trim()))
}

/// A duration: `25ms`, `1.5s`, `200us`, `900ns`, or `0`.
///
/// # Errors
/// [`Error::Value`] names `what`.
pub fn duration(what: &'static str, text: &str) -> Result<Nanos, Error> {
    let scale = |(value, unit): (f64, &str)| {
        let ns = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "" if value == 0.0 => 1.0,
            _ => return None,
        };
        let ns = (value * ns).round();
        (ns < u64::MAX as f64).then_some(Nanos(ns as u64))
    };
    let problem = "must be a number with ns, us, ms or s, and not negative, such as 25ms";
    number(text).and_then(scale).ok_or_else(|| wrong(what, text, problem))
}

/// A rate on the wire: `1gbit`, `10mbit`, `64kbit`, `9600bit`; `none` for no limit.
///
/// # Errors
/// [`Error::Value`].
pub fn rate(text: &str) -> Result<Option<BitRate>, Error> {
    if text.trim() == "none" {
        return Ok(None);
    }
    let scale = |(value, unit): (f64, &str)| {
        let bits = match unit.trim_end_matches("/s").to_ascii_lowercase().as_str() {
            "bit" => 1.0,
            "kbit" => 1e3,
            "mbit" => 1e6,
            "gbit" => 1e9,
            _ => return None,
        };
        BitRate::new((value * bits).round() as u64)
    };
    let problem =
        "must be more than nothing, in bit, kbit, mbit or gbit a second, such as 100mbit; or none for no limit";
    number(text).and_then(scale).map(Some).ok_or_else(|| wrong("rate", text, problem))
}

/// A share: `0.5%`, or `0`.
///
/// # Errors
/// [`Error::Value`] names `what`, also above 100 %.
pub fn share(what: &'static str, text: &str) -> Result<f64, Error> {
    let found = match number(text) {
        Some((value, "%")) => Some(value / 100.0),
        Some((0.0, "")) => Some(0.0),
        _ => None,
    };
    let problem = "must be a share between 0% and 100%, such as 0.5%";
    found.filter(|p| *p <= 1.0).ok_or_else(|| wrong(what, text, problem))
}

/// Loss in bursts: `SHARExLENGTH`, such as `1%x8` (1 % of the segments, 8 in a row on average), or the four chances of
/// Gilbert and Elliott: `GOOD_TO_BAD,BAD_TO_GOOD,LOST_IN_BAD,LOST_IN_GOOD`.
///
/// # Errors
/// [`Error::Value`].
pub fn burst_loss(text: &str) -> Result<Loss, Error> {
    const WHAT: &str = "burst loss";
    let parts: Vec<&str> = text.split(',').collect();
    if let [good_to_bad, bad_to_good, in_bad, in_good] = parts[..] {
        return Ok(Loss::GilbertElliott {
            good_to_bad: share(WHAT, good_to_bad)?,
            bad_to_good: share(WHAT, bad_to_good)?,
            loss_in_good: share(WHAT, in_good)?,
            loss_in_bad: share(WHAT, in_bad)?,
        });
    }
    let problem = "must be SHARExLENGTH such as 1%x8 with a length of at least 1, or four shares with commas between";
    let (portion, length) = text.split_once('x').ok_or_else(|| wrong(WHAT, text, problem))?;
    let length: f64 = length.trim().parse().map_err(|_| wrong(WHAT, text, problem))?;
    let problem = "there are no such bursts: so large a share needs longer ones, and all of them cannot be lost";
    Loss::bursts(share(WHAT, portion)?, length).ok_or_else(|| wrong(WHAT, text, problem))
}

/// Segments held back: `SHARE@TIME`, such as `1%@2ms`; without a time, by 1 ms.
///
/// # Errors
/// [`Error::Value`].
pub fn reorder(text: &str) -> Result<Reorder, Error> {
    let (portion, by) = text.split_once('@').unwrap_or((text, "1ms"));
    Ok(Reorder { share: share("reorder", portion)?, by: duration("reorder", by)? })
}

/// The depth of a queue: bytes on the wire (`64KB`, `64KiB`, `1MB`, `100000B`) or time (`20ms`).
///
/// # Errors
/// [`Error::Value`] names `what`.
pub fn depth(what: &'static str, text: &str) -> Result<Depth, Error> {
    let scale = |(value, unit): (f64, &str)| {
        let bytes = match unit {
            "B" => 1.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            _ => return None,
        };
        let bytes = (value * bytes).round();
        // Enough for a minute at the highest rate.
        (bytes < 1e13).then_some(Depth::Bytes(bytes as u64))
    };
    if let Some(found) = number(text).and_then(scale) {
        return Ok(found);
    }
    let problem = "must be bytes (B, kB, KiB, MB, MiB) or time (us, ms, s), such as 64KiB or 20ms";
    duration(what, text).map(Depth::Time).map_err(|_| wrong(what, text, problem))
}

/// Above what size packets vanish, in bytes; `none` for nowhere.
///
/// # Errors
/// [`Error::Value`].
pub fn black_hole(text: &str) -> Result<Option<u32>, Error> {
    if text.trim() == "none" {
        return Ok(None);
    }
    let problem = "must be the bytes of the largest IP packet that gets through, such as 1400; or none";
    text.trim().parse().map(Some).map_err(|_| wrong("black hole", text, problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_are_read_as_people_write_them() {
        let delay = |text: &str| both(text, |t| duration("delay", t)).unwrap();
        assert_eq!(delay("25ms"), [Nanos::from_millis(25); 2]);
        assert_eq!(delay("1.5s/20us"), [Nanos::from_millis(1_500), Nanos::from_micros(20)]);
        assert_eq!(rate("1gbit").unwrap().unwrap().bits(), 1_000_000_000);
        assert_eq!(rate("2.5Mbit/s").unwrap().unwrap().bits(), 2_500_000);
        assert_eq!(rate("none").unwrap(), None);
        assert_eq!(share("loss", "0.5%").unwrap(), 0.005);
        assert_eq!(depth("queue", "64KiB").unwrap(), Depth::Bytes(65_536));
        assert_eq!(depth("queue", "20ms").unwrap(), Depth::Time(Nanos::from_millis(20)));
        assert_eq!(both("1400/none", black_hole).unwrap(), [Some(1_400), None]);
        assert!(black_hole("-5").is_err() && black_hole("1400B").is_err());
        assert_eq!(reorder("1%@2ms").unwrap(), Reorder { share: 0.01, by: Nanos::from_millis(2) });
        assert!((burst_loss("1%x8").unwrap().share() - 0.01).abs() < 1e-12);
        assert!((burst_loss("1%,25%,100%,0%").unwrap().share() - 0.01 / 0.26).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in ["-1ms", "25", "ms", "", "1e3ms", "NaNms", "infs", "99999999999999999999s", "1ms/", "1 hour"] {
            assert!(both(text, |t| duration("delay", t)).unwrap_err().is_wrong_use(), "{text:?}");
        }
        for text in ["0", "0bit", "-1mbit", "1", "1GB", "gbit", "0.1bit"] {
            assert!(rate(text).is_err(), "{text:?}");
        }
        for text in ["150%", "-1%", "1", "0.5", "%"] {
            assert!(share("loss", text).is_err(), "{text:?}");
        }
        for text in ["1%", "1%x", "1%x0.5", "100%x2", "99%x1", "1%,2%,3%", "1%xNaN"] {
            assert!(burst_loss(text).is_err(), "{text:?}");
        }
        for text in ["64", "64XB", "-1B", "1e20MB", "99999999999999MB"] {
            assert!(depth("queue", text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            let _ = both(&text, |t| duration("delay", t));
            let _ = (rate(&text), share("loss", &text), burst_loss(&text), reorder(&text), depth("queue", &text));
        }
    }
}
