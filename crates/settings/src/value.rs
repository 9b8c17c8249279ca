//! Values, each read as what its setting is.

use std::fmt::Display;
use std::ops::RangeInclusive;

use clock::Nanos;
use toml::Spanned;
use toml::de::DeValue;

use crate::{At, Key, Table, Wrong};

/// A value, with its place.
#[derive(Debug)]
pub struct Value<'a> {
    /// Where its key is; for an element of a list, where the element is.
    named_at: At<'a>,
    at: At<'a>,
    value: DeValue<'a>,
}

impl<'a> Value<'a> {
    pub(crate) fn new(named_at: At<'a>, value: Spanned<DeValue<'a>>) -> Self {
        Self { named_at, at: named_at.moved(value.span().start), value: value.into_inner() }
    }

    /// Its place.
    pub const fn at(&self) -> At<'a> {
        self.at
    }

    /// The error that `problem` is in this value.
    pub fn wrong(&self, problem: impl Into<String>) -> Wrong {
        self.at.wrong(problem)
    }

    /// Whether it is a table.
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// What TOML calls its kind: `string`, `integer`, `array`, ….
    pub fn kind(&self) -> &'static str {
        self.value.type_str()
    }

    /// Text, or a number as text.
    ///
    /// # Errors
    /// [`Wrong`] for any other kind of value.
    pub fn text(&self) -> Result<String, Wrong> {
        match &self.value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.to_string()),
            other => {
                let instead = numbers(other).map(|all| format!(": several numbers are one text, {all:?}"));
                let kind = other.type_str();
                Err(self.wrong(format!("text or a number is needed here, not {kind}{}", instead.unwrap_or_default())))
            }
        }
    }

    /// As [`Self::text`], with `true` as `on` and `false` as `off`.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn text_or_switch(&self) -> Result<String, Wrong> {
        match self.value.as_bool() {
            Some(on) => Ok(if on { "on" } else { "off" }.into()),
            None => self.text(),
        }
    }

    /// As [`Self::text`], and not empty: a name or a path.
    ///
    /// # Errors
    /// As [`Self::text`], and where it is empty.
    pub fn name(&self) -> Result<String, Wrong> {
        let text = self.text()?;
        if text.is_empty() { Err(self.wrong("this is empty")) } else { Ok(text) }
    }

    /// What `parse` makes of the text.
    ///
    /// # Errors
    /// As [`Self::text`], and with the text before what `parse` says of it.
    pub fn parsed<T, E: Display>(&self, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Wrong> {
        let text = self.text()?;
        parse(&text).map_err(|error| self.wrong(format!("{text:?}: {error}")))
    }

    /// A duration of at least `least`.
    ///
    /// # Errors
    /// As [`Self::parsed`], and where it is shorter.
    pub fn duration(&self, least: Nanos) -> Result<Nanos, Wrong> {
        let duration = self.parsed(quantity::parse::duration)?;
        if duration >= least {
            return Ok(duration);
        }
        let least = quantity::exact_duration(least);
        Err(self.wrong(format!("{:?} is too short: at least {least}", self.text()?)))
    }

    /// A whole number in a range.
    ///
    /// # Errors
    /// [`Wrong`] with the range.
    pub fn whole(&self, range: RangeInclusive<u32>) -> Result<u32, Wrong> {
        let number = self.text()?.parse().ok().filter(|number| range.contains(number));
        let (least, most) = range.into_inner();
        number.ok_or_else(|| self.wrong(format!("a whole number from {least} to {most} is needed here")))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// [`Wrong`] for anything else.
    pub fn flag(&self) -> Result<bool, Wrong> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false is needed here"))
    }

    /// The elements of a list.
    ///
    /// # Errors
    /// [`Wrong`] with `problem` where it is none.
    pub fn list(self, problem: &str) -> Result<Vec<Self>, Wrong> {
        let at = self.at;
        match self.value {
            DeValue::Array(array) => {
                Ok(array.into_iter().map(|one| Self::new(at.moved(one.span().start), one)).collect())
            }
            _ => Err(at.wrong(problem)),
        }
    }

    /// The elements of a list; anything else is a list of one.
    pub fn list_or_one(self) -> Vec<Self> {
        match self.value {
            DeValue::Array(_) => self.list("").unwrap_or_default(),
            _ => vec![self],
        }
    }

    /// The value under its key, or of a table all that is in it, each under both keys with a point
    /// between them.
    pub(crate) fn leaves(self, key: Key<'a>) -> Vec<(Key<'a>, Self)> {
        match self.value {
            DeValue::Table(table) => {
                let within = Table::new(self.at, "", table).rest().into_iter();
                within.flat_map(|(inner, value)| value.leaves(inner.within(&key))).collect()
            }
            _ => vec![(key, self)],
        }
    }

    /// What `take` takes from a table, which messages call `what`, such as `[store]`.
    ///
    /// # Errors
    /// [`Wrong`] where it is no table, or a key is left over; whatever `take` gives.
    pub fn table<T, E: From<Wrong>>(
        self,
        what: &str,
        take: impl FnOnce(&mut Table<'a>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (named_at, at) = (self.named_at, self.at);
        match self.value {
            DeValue::Table(table) => Table::new(named_at, what, table).read(take),
            _ => Err(at.wrong(format!("{what} is a table: write {what} once, and its keys in lines below it")).into()),
        }
    }
}

/// The numbers of a list, with blanks between them.
fn numbers(value: &DeValue<'_>) -> Option<String> {
    let one = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::Integer(number) => Some(number.to_string()),
        _ => None,
    };
    let all: Vec<String> = value.as_array()?.iter().map(one).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| all.join(" "))
}
