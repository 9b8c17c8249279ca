//! Tables, with keys that are known by being taken.

use toml::de::DeTable;

use crate::{At, Value, Wrong};

/// A table of which keys are taken.
#[derive(Debug)]
pub struct Table<'a> {
    at: At<'a>,
    what: String,
    /// In the order of the file.
    left: Vec<(Key<'a>, Value<'a>)>,
    /// Keys that were asked for, whether they were there or not.
    known: Vec<String>,
}

/// A key, with its place.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    at: At<'a>,
    name: String,
}

impl<'a> Key<'a> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its place.
    pub const fn at(&self) -> At<'a> {
        self.at
    }

    /// The key of a table within the table of `outer`.
    pub(crate) fn within(self, outer: &Self) -> Self {
        Self { at: outer.at, name: format!("{}.{}", outer.name, self.name) }
    }

    /// The error that there is no such `kind` of thing, with the nearest of those that there are.
    pub fn unknown<'k>(&self, kind: &str, known: impl IntoIterator<Item = &'k str>) -> Wrong {
        self.at.wrong(format!("there is no {kind} {:?}: {}", self.name, advice(&self.name, known)))
    }
}

/// What may have been meant by a name: the nearest of those that are known, or all of them.
fn advice<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match quantity::near(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => match known[..] {
            [] => "remove it".to_owned(),
            [one] => format!("write `{one}`"),
            ref all => format!("write one of {}", all.join(", ")),
        },
    }
}

impl<'a> Table<'a> {
    pub(crate) fn new(at: At<'a>, what: &str, table: DeTable<'a>) -> Self {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let left = entries
            .into_iter()
            .map(|(key, value)| {
                let key = Key { at: at.moved(key.span().start), name: key.into_inner().into_owned() };
                let value = Value::new(key.at, value);
                (key, value)
            })
            .collect();
        Self { at, what: what.to_owned(), left, known: Vec::new() }
    }

    /// Gives the table to `take`, and refuses what it leaves.
    pub(crate) fn read<T, E: From<Wrong>>(mut self, take: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let taken = take(&mut self)?;
        match self.left.first() {
            Some((key, _)) => Err(self.unknown(key).into()),
            None => Ok(taken),
        }
    }

    fn unknown(&self, key: &Key<'_>) -> Wrong {
        let advice = advice(&key.name, self.known.iter().map(String::as_str));
        key.at.wrong(format!("there is no key {:?} in {}: {advice}", key.name, self.what))
    }

    /// The value of a key, where it is there.
    pub fn take(&mut self, key: &str) -> Option<Value<'a>> {
        if !self.known.iter().any(|known| known == key) {
            self.known.push(key.to_owned());
        }
        let at = self.left.iter().position(|(there, _)| there.name == key)?;
        Some(self.left.remove(at).1)
    }

    /// The value of a key that must be there. Take it after all others: where it is missing and a
    /// similar key is left over, that one is the error.
    ///
    /// # Errors
    /// [`Wrong`] with `problem` where there is none.
    pub fn need(&mut self, key: &str, problem: &str) -> Result<Value<'a>, Wrong> {
        match self.take(key) {
            Some(value) => Ok(value),
            None => Err(match self.left.iter().find(|(left, _)| quantity::near(&left.name, [key]).is_some()) {
                Some((left, _)) => self.unknown(left),
                None => self.at.wrong(problem),
            }),
        }
    }

    /// All that is left, in the order of the file: for tables with names as keys.
    pub fn rest(&mut self) -> Vec<(Key<'a>, Value<'a>)> {
        std::mem::take(&mut self.left)
    }

    /// As [`Self::rest`], with what is in tables within as well: `a.b = 1` has the key `a.b`,
    /// whether `"a.b"` is one key or `a` is a table.
    pub fn leaves(&mut self) -> Vec<(Key<'a>, Value<'a>)> {
        self.rest().into_iter().flat_map(|(key, value)| value.leaves(key)).collect()
    }

    /// Where the table begins.
    pub const fn at(&self) -> At<'a> {
        self.at
    }
}
