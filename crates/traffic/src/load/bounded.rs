//! The text of a data file, read into memory that is bounded whatever the text is: a file of some
//! kilobytes can hold millions of values.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::marker::PhantomData;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Values that are read, at most: 64 MiB of them.
pub(super) const VALUES: usize = 4 << 20;
/// What a value of the metadata, or a name, counts for: it takes as much memory as so many values
/// of a series.
const NAMED: usize = 8;

/// What is read of a data file.
pub(super) struct Parts {
    pub version: u64,
    pub metadata: Map<String, Value>,
    pub x_values: Vec<f64>,
    pub results: BTreeMap<String, Vec<Option<f64>>>,
}

/// Reads a text; what is wrong with it is said with the byte up to which it was read.
pub(super) fn read(text: impl Read) -> Result<Parts, serde_json::Error> {
    read_at_most(VALUES, text)
}

fn read_at_most(most: usize, text: impl Read) -> Result<Parts, serde_json::Error> {
    let at = Cell::new(0u64);
    let counted = Counted { text: BufReader::new(text), at: &at };
    let mut reader = serde_json::Deserializer::from_reader(counted);
    let left = Left { most, left: Cell::new(most) };
    let read = reader.deserialize_map(&left).and_then(|flent| reader.end().map(|()| flent));
    read.map_err(|error| {
        let placed = io::Error::other(format!("{error}, byte {} of its text", at.get()));
        // An end that comes too early stays one: its reader says more.
        if error.is_eof() { error } else { serde_json::Error::io(placed) }
    })
}

struct Counted<'a, R> {
    text: BufReader<R>,
    at: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.text.fill_buf()?.read(into)?;
        self.text.consume(n);
        self.at.set(self.at.get() + n as u64);
        Ok(n)
    }
}

/// Values that may still be read.
struct Left {
    most: usize,
    left: Cell<usize>,
}

impl Left {
    fn take<E: de::Error>(&self, values: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(values);
        self.left.set(left.ok_or_else(|| E::custom(format!("more than {} values, which are not read", self.most)))?);
        Ok(())
    }
}

impl<'de> Visitor<'de> for &Left {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with version, metadata, x_values and results")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
        let (mut version, mut metadata, mut x_values, mut results) = (None, None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "version" => version = Some(map.next_value()?),
                "metadata" => metadata = Some(map.next_value_seed(Any(self))?),
                "x_values" => x_values = Some(map.next_value_seed(Column(self, PhantomData))?),
                "results" => results = Some(map.next_value_seed(Columns(self))?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let missing = <A::Error as de::Error>::missing_field;
        let Value::Object(metadata) = metadata.ok_or_else(|| missing("metadata"))? else {
            return Err(de::Error::custom("metadata is no object"));
        };
        Ok(Parts {
            version: version.ok_or_else(|| missing("version"))?,
            metadata,
            x_values: x_values.ok_or_else(|| missing("x_values"))?,
            results: results.ok_or_else(|| missing("results"))?,
        })
    }
}

/// A list of numbers.
struct Column<'a, T>(&'a Left, PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Column<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<T>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Column<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            self.0.take(1)?;
            values.push(value);
        }
        Ok(values)
    }
}

/// Lists of numbers by their names.
struct Columns<'a>(&'a Left);

impl<'de> DeserializeSeed<'de> for Columns<'_> {
    type Value = BTreeMap<String, Vec<Option<f64>>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Columns<'_> {
    type Value = BTreeMap<String, Vec<Option<f64>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("series by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut columns = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            self.0.take(NAMED)?;
            columns.insert(name, map.next_value_seed(Column(self.0, PhantomData))?);
        }
        Ok(columns)
    }
}

/// Any JSON.
struct Any<'a>(&'a Left);

impl<'de> DeserializeSeed<'de> for Any<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        self.0.take(NAMED)?;
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Any(self.0))? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            values.insert(name, map.next_value_seed(Any(self.0))?);
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that are read of the texts below.
    const MOST: usize = 8_000;

    /// What is said of `head` with `piece` after it very often.
    fn refused(head: &str, piece: &str) -> String {
        let text = head.to_owned() + &piece.repeat(2 * MOST);
        read_at_most(MOST, text.as_bytes()).err().unwrap().to_string()
    }

    #[test]
    fn a_small_file_of_very_many_values_is_refused_with_its_byte() {
        for (head, piece, counts_for) in [
            (r#"{"version":4,"metadata":{},"x_values":[0"#, ",0", 1),
            (r#"{"version":4,"metadata":{},"x_values":[],"results":{"a":[0"#, ",0", 1),
            (r#"{"version":4,"metadata":{},"x_values":[],"results":{"a":[]"#, r#","a":[]"#, NAMED),
            (r#"{"version":4,"metadata":{"a":[0"#, ",0", NAMED),
            (r#"{"version":4,"metadata":{"a":0"#, r#","a":0"#, NAMED),
        ] {
            let said = refused(head, piece);
            assert!(said.contains(&format!("more than {MOST} values")), "{head}: {said}");
            let byte: usize = said.split("byte ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
            let expected = MOST / counts_for * piece.len();
            assert!(byte.abs_diff(expected + head.len()) < 64, "{head}: byte {byte}, {expected}");
        }
    }
}
