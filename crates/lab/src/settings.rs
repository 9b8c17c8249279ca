//! The settings of a direction by name, as people write them: on the command line, in a schedule,
//! in a topology.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::direction::{Direction, Loss};
use crate::parse::{self, Wrong};

/// A setting of a direction.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in files; on the command line with hyphens.
    pub name: &'static str,
    set: fn(&mut Direction, &str) -> Result<(), Wrong>,
}

/// Every setting that can change while a path runs.
pub const SETTINGS: [Setting; 13] = [
    Setting { name: "delay", set: |d, text| parse::duration(text).map(|v| d.delay = v) },
    Setting { name: "jitter", set: |d, text| parse::duration(text).map(|v| d.jitter = v) },
    Setting { name: "jitter_shape", set: |d, text| parse::jitter_shape(text).map(|v| d.jitter_shape = v) },
    Setting { name: "jitter_memory", set: |d, text| parse::share(text).map(|v| d.jitter_memory = v) },
    Setting { name: "rate", set: |d, text| parse::rate(text).map(|v| d.rate = v) },
    Setting { name: "loss", set: |d, text| parse::loss(text).map(|v| d.loss = v) },
    Setting {
        name: "burst_loss",
        set: |d, text| or_none(text, parse::burst_loss).map(|v| d.loss = v.unwrap_or(Loss::None)),
    },
    Setting { name: "reorder", set: |d, text| or_none(text, parse::reorder).map(|v| d.reorder = v) },
    Setting { name: "duplicate", set: |d, text| parse::share(text).map(|v| d.duplicate = v) },
    Setting { name: "queue", set: |d, text| or_none(text, parse::depth).map(|v| d.queue = v) },
    Setting { name: "qdisc", set: |d, text| parse::discipline(text).map(|v| d.qdisc = v) },
    Setting { name: "ecn", set: |d, text| or_none(text, parse::depth).map(|v| d.ecn = v) },
    Setting { name: "black_hole", set: |d, text| parse::black_hole(text).map(|v| d.black_hole = v) },
];

/// A value of a setting, where `none` takes it off.
///
/// # Errors
/// Whatever `parse` says of it.
pub fn or_none<T>(text: &str, parse: impl Fn(&str) -> Result<T, Wrong>) -> Result<Option<T>, Wrong> {
    if text.trim() == "none" { Ok(None) } else { parse(text).map(Some) }
}

impl Setting {
    /// The setting called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Whether `text` is a value of it, for both directions or for either ([`each`]).
    ///
    /// # Errors
    /// [`Wrong`] says what is wrong with it.
    pub fn check(&self, text: &str) -> Result<(), Wrong> {
        for one in each(text)?.into_iter().flatten() {
            (self.set)(&mut Direction::default(), one)?;
        }
        Ok(())
    }
}

/// `VALUE` is for both directions, `A_TO_B/B_TO_A` for each, `A_TO_B/` and `/B_TO_A` for one alone.
///
/// # Errors
/// [`Wrong::NoValue`] where there is none for either.
pub fn each(text: &str) -> Result<[Option<&str>; 2], Wrong> {
    let (ab, ba) = text.split_once('/').unwrap_or((text, text));
    let sides = [ab, ba].map(|side| Some(side.trim()).filter(|side| !side.is_empty()));
    if sides == [None; 2] { Err(Wrong::NoValue) } else { Ok(sides) }
}

/// What of a direction becomes another: settings by name, with their values as people write them.
/// What is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Change(BTreeMap<String, String>);

impl Change {
    /// Has the change set `setting` to `text`, in place of what it set before.
    pub fn set(&mut self, setting: &Setting, text: &str) {
        self.0.insert(setting.name.to_owned(), text.to_owned());
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `to` with the change made. Whether there can be such a direction is for [`Direction`] to
    /// say.
    ///
    /// # Errors
    /// [`Error::Value`] names the setting that is not known, or has no such value.
    pub fn applied(&self, to: &Direction) -> Result<Direction, Error> {
        let mut to = to.clone();
        for (name, text) in &self.0 {
            let refuse = |problem: String| Error::Value { what: "setting", value: format!("{name} {text}"), problem };
            let setting = Setting::named(name).ok_or_else(|| refuse("there is no such setting".into()))?;
            (setting.set)(&mut to, text).map_err(|wrong| refuse(wrong.to_string()))?;
        }
        Ok(to)
    }
}

/// A change of both directions from one value of each setting, see [`each`].
///
/// # Errors
/// [`Wrong`] says what is wrong with the value.
pub fn set_each(changes: &mut [Change; 2], setting: &Setting, text: &str) -> Result<(), Wrong> {
    setting.check(text)?;
    for (change, value) in changes.iter_mut().zip(each(text)?) {
        if let Some(value) = value {
            change.set(setting, value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Depth;
    use crate::ethernet::BitRate;
    use clock::Nanos;

    fn change(settings: &[(&str, &str)]) -> [Change; 2] {
        let mut both = <[Change; 2]>::default();
        for (name, text) in settings {
            set_each(&mut both, Setting::named(name).unwrap(), text).unwrap();
        }
        both
    }

    #[test]
    fn what_is_not_named_stays() {
        let before = Direction { delay: Nanos::from_millis(3), rate: Some(BitRate::mbit(5)), ..Direction::default() };
        let [ab, ba] = change(&[("delay", "/9ms"), ("queue", "20ms"), ("loss", "1%/")]);
        let (ab, ba) = (ab.applied(&before).unwrap(), ba.applied(&before).unwrap());
        let queue = Some(Depth::Time(Nanos::from_millis(20)));
        assert_eq!(ab, Direction { loss: Loss::Independent(0.01), queue, ..before.clone() });
        assert_eq!(ba, Direction { delay: Nanos::from_millis(9), queue, ..before });
    }

    #[test]
    fn none_takes_a_setting_off() {
        let full =
            change(&[("rate", "1mbit"), ("queue", "1s"), ("ecn", "1ms"), ("reorder", "1%"), ("burst_loss", "1%x2")]);
        let none = change(&[
            ("rate", "none"),
            ("queue", "none"),
            ("ecn", "none"),
            ("reorder", "none"),
            ("burst_loss", "none"),
        ]);
        let on = full[0].applied(&Direction::default()).unwrap();
        assert_ne!(on, Direction::default());
        assert_eq!(none[0].applied(&on).unwrap(), Direction::default());
    }

    #[test]
    fn no_value_and_no_setting_are_refused() {
        assert!(each("/").is_err() && each("").is_err());
        let delay = Setting::named("delay").unwrap();
        for text in ["", "/", "5", "5ms/x", "5ms/6ms/7ms"] {
            assert!(delay.check(text).is_err(), "{text:?}");
        }
        let unknown: Change = serde_json::from_str(r#"{"dealy":"5ms"}"#).unwrap();
        assert!(unknown.applied(&Direction::default()).unwrap_err().is_wrong_use());
    }
}
