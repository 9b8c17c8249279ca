//! Settings as people write them: `25ms`, `1gbit`, `0.5%`, `64KiB`, each alone for both directions
//! or as `a→b/b→a`.
//!
//! Quantities are those of the crate `quantity`, spelt as everywhere in the program; here is what
//! only a path has.

use clock::Nanos;

use crate::direction::{CodelSettings, Depth, Discipline, FqCodelSettings, JitterShape, Loss, PieSettings, Reorder};
use crate::ethernet::BitRate;

/// Why a setting cannot be. Its words do not repeat the text: the caller names the setting and the
/// text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// A quantity that is none.
    #[error(transparent)]
    Quantity(#[from] quantity::Wrong),
    /// A link that carries nothing.
    #[error("a rate must be above zero; write none for no limit")]
    NoRate,
    /// Bursts in neither of their two forms.
    #[error("these are no bursts; write SHARExLENGTH such as 1%x8, or four shares with commas between")]
    Bursts,
    /// Bursts that no chain of losses makes.
    #[error(
        "there are no such bursts; so large a share needs longer ones of at least 1, and not everything can be lost"
    )]
    NoSuchBursts,
    /// A depth in neither bytes nor time.
    #[error("the depth of a queue needs a unit: write bytes such as 64KiB or a time such as 20ms")]
    Depth,
    /// A queue discipline that is none.
    #[error(
        "this is no queue discipline; write fifo, codel, fq_codel or pie, with its settings after a colon: codel:target=5ms,interval=100ms,ecn"
    )]
    Discipline,
    /// What a discipline is not given.
    #[error("{name} has no such setting {setting:?}; it has {known}")]
    DisciplineSetting {
        /// The discipline.
        name: &'static str,
        /// What was given.
        setting: String,
        /// What it has.
        known: &'static str,
    },
    /// A shape that is none.
    #[error("the shapes are uniform, normal, exponential and pareto")]
    JitterShape,
    /// A value for neither direction.
    #[error("there is no value; write VALUE for both directions, A_TO_B/B_TO_A, A_TO_B/ or /B_TO_A")]
    NoValue,
    /// A size of packets that is none.
    #[error("write the bytes of the largest IP packet that gets through, such as 1400, or none")]
    BlackHole,
}

/// `VALUE` for both directions, or `A_TO_B/B_TO_A`.
///
/// # Errors
/// Whatever `one` says of either value.
pub fn both<T>(text: &str, one: impl Fn(&str) -> Result<T, Wrong>) -> Result<[T; 2], Wrong> {
    let (ab, ba) = text.split_once('/').unwrap_or((text, text));
    Ok([one(ab)?, one(ba)?])
}

/// A duration: `25ms`, `1.5s`, `200us`, `900ns`, or 0.
///
/// # Errors
/// [`Wrong::Quantity`].
pub fn duration(text: &str) -> Result<Nanos, Wrong> {
    Ok(quantity::parse::duration(text)?)
}

/// A rate on the wire: `1gbit`, `10M`, `64kbit`, `9600`; `none` for no limit. A slash in `Mbit/s`
/// would end the direction.
///
/// # Errors
/// [`Wrong::Quantity`], and zero.
pub fn rate(text: &str) -> Result<Option<BitRate>, Wrong> {
    if text.trim() == "none" {
        return Ok(None);
    }
    BitRate::new(quantity::parse::bit_rate(text)?).map(Some).ok_or(Wrong::NoRate)
}

/// A share: `0.5%`, or `0`.
///
/// # Errors
/// [`Wrong::Quantity`], also above 100 %.
pub fn share(text: &str) -> Result<f64, Wrong> {
    Ok(quantity::parse::share(text)?)
}

/// Each segment lost by itself: a share, where `0` is no loss at all.
///
/// # Errors
/// As [`share`].
pub fn loss(text: &str) -> Result<Loss, Wrong> {
    share(text).map(|p| if p > 0.0 { Loss::Independent(p) } else { Loss::None })
}

/// Loss in bursts: `0` for none, `SHARExLENGTH`, such as `1%x8` (1 % of the segments, 8 in a row on
/// average), or the four chances of Gilbert and Elliott:
/// `GOOD_TO_BAD,BAD_TO_GOOD,LOST_IN_BAD,LOST_IN_GOOD`.
///
/// # Errors
/// [`Wrong`] says what is wrong with them.
pub fn burst_loss(text: &str) -> Result<Loss, Wrong> {
    if share(text) == Ok(0.0) {
        return Ok(Loss::None);
    }
    let fields: Vec<&str> = text.split(',').collect();
    if let [good_to_bad, bad_to_good, in_bad, in_good] = fields[..] {
        return Ok(Loss::GilbertElliott {
            good_to_bad: share(good_to_bad)?,
            bad_to_good: share(bad_to_good)?,
            loss_in_good: share(in_good)?,
            loss_in_bad: share(in_bad)?,
        });
    }
    let (portion, length) = text.split_once('x').ok_or(Wrong::Bursts)?;
    let length: f64 = length.trim().parse().map_err(|_| Wrong::Bursts)?;
    Loss::bursts(share(portion)?, length).ok_or(Wrong::NoSuchBursts)
}

/// Segments held back: `SHARE@TIME`, such as `1%@2ms`; without a time, by 1 ms.
///
/// # Errors
/// [`Wrong::Quantity`].
pub fn reorder(text: &str) -> Result<Reorder, Wrong> {
    let (portion, by) = text.split_once('@').unwrap_or((text, "1ms"));
    Ok(Reorder { share: share(portion)?, by: duration(by)? })
}

/// The depth of a queue: bytes on the wire (`64KiB`, `64K`, `64kB`, `100000B`) or time (`20ms`). A
/// number alone could be either and is refused.
///
/// # Errors
/// [`Wrong`].
pub fn depth(text: &str) -> Result<Depth, Wrong> {
    /// Enough for a minute at the highest rate.
    const MOST: u64 = 10_000_000_000_000;
    if text.trim().ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(Wrong::Depth);
    }
    // `m` is a minute, as wherever a time may stand.
    if let Ok(time) = quantity::parse::duration(text) {
        return Ok(Depth::Time(time));
    }
    let bytes = quantity::parse::bytes(text)?;
    if bytes < MOST { Ok(Depth::Bytes(bytes)) } else { Err(Wrong::Depth) }
}

/// How the delay varies: `uniform`, `normal`, `exponential`, `pareto`.
///
/// # Errors
/// [`Wrong::JitterShape`].
pub fn jitter_shape(text: &str) -> Result<JitterShape, Wrong> {
    JitterShape::ALL.into_iter().find(|shape| shape.name() == text.trim()).ok_or(Wrong::JitterShape)
}

/// A queue discipline: `fifo`, `codel`, `fq_codel` or `pie`, with settings after a colon, such as
/// `codel:target=5ms,interval=100ms,ecn`.
///
/// # Errors
/// [`Wrong`] says what is wrong with it.
pub fn discipline(text: &str) -> Result<Discipline, Wrong> {
    let (name, settings) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
    let settings = settings.split(',').map(str::trim).filter(|setting| !setting.is_empty());
    let pairs = settings.map(|setting| setting.split_once('=').map_or((setting, ""), |(key, value)| (key, value)));
    match name {
        "fifo" => match pairs.map(|(key, _)| key).next() {
            None => Ok(Discipline::Fifo),
            Some(key) => Err(unknown("fifo", key, "none")),
        },
        "codel" => {
            let mut codel = CodelSettings::DEFAULT;
            for pair in pairs {
                set_codel("codel", &mut codel, pair, "target, interval, ecn and noecn")?;
            }
            Ok(Discipline::Codel(codel))
        }
        "fq_codel" => {
            let mut queue = FqCodelSettings::DEFAULT;
            for (key, value) in pairs {
                match key {
                    "flows" => queue.flows = quantity::parse::bytes_u32(value)?,
                    _ => {
                        let known = "flows, target, interval, ecn and noecn";
                        set_codel("fq_codel", &mut queue.codel, (key, value), known)?;
                    }
                }
            }
            Ok(Discipline::FqCodel(queue))
        }
        "pie" => {
            let mut pie = PieSettings::DEFAULT;
            for (key, value) in pairs {
                match (key, value) {
                    ("target", _) => pie.target = duration(value)?,
                    ("update", _) => pie.update = duration(value)?,
                    ("ecn", "") => pie.ecn = true,
                    ("noecn", "") => pie.ecn = false,
                    _ => return Err(unknown("pie", key, "target, update, ecn and noecn")),
                }
            }
            Ok(Discipline::Pie(pie))
        }
        _ => Err(Wrong::Discipline),
    }
}

fn set_codel(name: &'static str, to: &mut CodelSettings, pair: (&str, &str), known: &'static str) -> Result<(), Wrong> {
    match pair {
        ("target", value) => to.target = duration(value)?,
        ("interval", value) => to.interval = duration(value)?,
        ("ecn", "") => to.ecn = true,
        ("noecn", "") => to.ecn = false,
        (key, _) => return Err(unknown(name, key, known)),
    }
    Ok(())
}

fn unknown(name: &'static str, setting: &str, known: &'static str) -> Wrong {
    Wrong::DisciplineSetting { name, setting: setting.into(), known }
}

/// Above what size packets vanish, in bytes; `none` for nowhere.
///
/// # Errors
/// [`Wrong::BlackHole`].
pub fn black_hole(text: &str) -> Result<Option<u32>, Wrong> {
    match text.trim() {
        "none" => Ok(None),
        bytes => quantity::parse::bytes_u32(bytes).map(Some).map_err(|_| Wrong::BlackHole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_are_read_as_people_write_them() {
        let delay = |text: &str| both(text, duration).unwrap();
        assert_eq!(delay("25ms"), [Nanos::from_millis(25); 2]);
        assert_eq!(delay("1.5s/20us"), [Nanos::from_millis(1_500), Nanos::from_micros(20)]);
        assert_eq!(rate("1gbit").unwrap().unwrap().bits(), 1_000_000_000);
        assert_eq!(rate("2.5Mbit/s").unwrap().unwrap().bits(), 2_500_000);
        assert_eq!(rate("none").unwrap(), None);
        assert_eq!(share("0.5%").unwrap(), 0.005);
        assert_eq!(depth("64KiB").unwrap(), Depth::Bytes(65_536));
        assert_eq!(depth("20ms").unwrap(), Depth::Time(Nanos::from_millis(20)));
        assert_eq!(both("1400/none", black_hole).unwrap(), [Some(1_400), None]);
        assert!(black_hole("-5").is_err() && black_hole("1400x").is_err());
        assert_eq!(reorder("1%@2ms").unwrap(), Reorder { share: 0.01, by: Nanos::from_millis(2) });
        assert_eq!(both("0/0%", burst_loss).unwrap(), [Loss::None; 2]);
        assert!((burst_loss("1%x8").unwrap().share() - 0.01).abs() < 1e-12);
        assert!((burst_loss("1%,25%,100%,0%").unwrap().share() - 0.01 / 0.26).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in ["-1ms", "ms", "", "1e3ms", "NaNms", "infs", "99999999999999999999s", "1ms/", "1 hour", "20"] {
            assert!(both(text, duration).is_err(), "{text:?}");
        }
        for text in ["0", "0bit", "-1mbit", "1GB", "gbit", "0.1bit"] {
            assert!(rate(text).is_err(), "{text:?}");
        }
        for text in ["150%", "-1%", "1", "0.5", "%"] {
            assert!(share(text).is_err(), "{text:?}");
        }
        for text in ["1%", "1%x", "1%x0.5", "100%x2", "99%x1", "1%,2%,3%", "1%xNaN"] {
            assert!(burst_loss(text).is_err(), "{text:?}");
        }
        for text in ["64", "64XB", "-1B", "1e20MB", "99999999999999MB"] {
            assert!(depth(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            let _ = both(&text, duration);
            let _ = (rate(&text), share(&text), burst_loss(&text), reorder(&text), depth(&text));
        }
    }
}
