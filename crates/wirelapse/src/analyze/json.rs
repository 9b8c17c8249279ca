//! JSON for captures of a hundred thousand connections and more, where writing the reports takes longer than reading the packets.
//!
//! The same text as `serde_json` writes. It is quicker because the names of a struct's fields, which are most of a report, are
//! copied as they stand: a Rust name has nothing that JSON escapes. What a report hardly has is left to `serde_json`.

use serde::Serialize;
use serde::ser::{self, Serializer};
use serde_json::{Error, to_writer};

/// Appends `value` to `out` as one line.
///
/// # Errors
/// Those of the value's own `Serialize`, and a map whose key is neither a text nor a number.
pub fn line(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Error> {
    value.serialize(&mut Json { out })?;
    out.push(b'\n');
    Ok(())
}

struct Json<'a> {
    out: &'a mut Vec<u8>,
}

impl Json<'_> {
    #[inline]
    fn number(&mut self, n: u64) {
        // Most figures of most connections are zero.
        if n < 10 {
            self.out.push(b'0' + n as u8);
        } else {
            self.out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
        }
    }

    /// Ends a list or an object: what was written last may be the comma before an element that does not come.
    #[inline]
    fn close(&mut self, with: u8) {
        match self.out.last_mut() {
            Some(comma @ b',') => *comma = with,
            _ => self.out.push(with),
        }
    }
}

/// Those that `serde_json` writes, for which nothing quicker is needed.
macro_rules! left_to_serde_json {
    ($($method:ident: $type:ty),+) => {
        $(fn $method(self, value: $type) -> Result<(), Error> {
            to_writer(&mut *self.out, &value)
        })+
    };
}

impl<'a, 'o> Serializer for &'a mut Json<'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'a, 'o>;
    type SerializeTuple = List<'a, 'o>;
    type SerializeTupleStruct = List<'a, 'o>;
    type SerializeTupleVariant = ser::Impossible<(), Error>;
    type SerializeMap = Object<'a, 'o>;
    type SerializeStruct = Object<'a, 'o>;
    type SerializeStructVariant = ser::Impossible<(), Error>;

    left_to_serde_json! { serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_f32: f32,
    serialize_f64: f64, serialize_char: char, serialize_bytes: &[u8] }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    #[inline]
    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.number(value.into());
        Ok(())
    }

    #[inline]
    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.number(value.into());
        Ok(())
    }

    #[inline]
    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.number(value.into());
        Ok(())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.number(value);
        Ok(())
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), Error> {
        // Without an early end, so that many bytes are looked at in one step.
        let escaped = |all: bool, byte: &u8| all | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\');
        if value.as_bytes().iter().fold(false, escaped) {
            return to_writer(&mut *self.out, value);
        }
        self.out.push(b'"');
        self.out.extend_from_slice(value.as_bytes());
        self.out.push(b'"');
        Ok(())
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut object = self.serialize_map(Some(1))?;
        ser::SerializeMap::serialize_entry(&mut object, variant, value)?;
        ser::SerializeMap::end(object)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a, 'o>, Error> {
        self.out.push(b'[');
        Ok(List(self))
    }

    fn serialize_tuple(self, length: usize) -> Result<List<'a, 'o>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<List<'a, 'o>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(unknown(name))
    }

    #[inline]
    fn serialize_map(self, _: Option<usize>) -> Result<Object<'a, 'o>, Error> {
        self.out.push(b'{');
        Ok(Object(self))
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Object<'a, 'o>, Error> {
        self.serialize_map(Some(length))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(unknown(name))
    }
}

/// No output of `analyze` has enumerations with more than one value in a case.
fn unknown(name: &str) -> Error {
    ser::Error::custom(format!("{name} has cases of several values, which this writer does not write"))
}

/// A list under way; a comma stands after each element.
struct List<'a, 'o>(&'a mut Json<'o>);

impl List<'_, '_> {
    #[inline]
    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        value.serialize(&mut *self.0)?;
        self.0.out.push(b',');
        Ok(())
    }
}

macro_rules! list {
    ($($trait:ident: $element:ident),+) => {
        $(impl ser::$trait for List<'_, '_> {
            type Ok = ();
            type Error = Error;

            #[inline]
            fn $element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.0.close(b']');
                Ok(())
            }
        })+
    };
}

list! { SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field }

/// An object under way; a comma stands after each member.
struct Object<'a, 'o>(&'a mut Json<'o>);

impl ser::SerializeMap for Object<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        let start = self.0.out.len();
        key.serialize(&mut *self.0)?;
        match self.0.out.get(start) {
            Some(b'"') => {}
            // A key is a text, so a number is put between quotation marks.
            Some(b'0'..=b'9' | b'-') => {
                self.0.out.insert(start, b'"');
                self.0.out.push(b'"');
            }
            _ => return Err(ser::Error::custom("a key must be a text or a number")),
        }
        self.0.out.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.0)?;
        self.0.out.push(b',');
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.0.close(b'}');
        Ok(())
    }
}

impl ser::SerializeStruct for Object<'_, '_> {
    type Ok = ();
    type Error = Error;

    // Where each name is known, so that copying it is a store or two instead of a call.
    #[inline(always)]
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        let out = &mut *self.0.out;
        out.push(b'"');
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        value.serialize(&mut *self.0)?;
        self.0.out.push(b',');
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.0.close(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn as_serde_json(value: &impl Serialize) {
        let mut ours = Vec::new();
        line(&mut ours, value).unwrap();
        let theirs = serde_json::to_string(value).unwrap() + "\n";
        assert_eq!(String::from_utf8(ours).unwrap(), theirs);
    }

    #[derive(Serialize)]
    enum Case {
        #[serde(rename = "a \"case\"")]
        Plain,
        With(u8),
    }

    #[derive(Serialize)]
    struct Pair(u8, Option<&'static str>);

    #[derive(Serialize)]
    struct Everything {
        empty: Vec<u8>,
        list: Vec<Option<u64>>,
        nested: Vec<Vec<(u16, bool)>>,
        map: BTreeMap<u8, &'static str>,
        words: BTreeMap<&'static str, i64>,
        none: BTreeMap<u8, u8>,
        text: String,
        cases: [Case; 2],
        pair: Pair,
        real: [f64; 3],
        unit: (),
        sign: [i32; 2],
        letter: char,
        address: std::net::SocketAddr,
    }

    #[test]
    fn it_is_the_text_of_serde_json() {
        let every_byte: String = (0..0x180u32).filter_map(char::from_u32).collect();
        as_serde_json(&Everything {
            empty: vec![],
            list: vec![Some(0), Some(9), Some(10), Some(u64::MAX), None],
            nested: vec![vec![], vec![(1, true), (65_535, false)]],
            map: BTreeMap::from([(7, "a"), (40, "b,")]),
            words: BTreeMap::from([("one\n", -1), ("two", 2)]),
            none: BTreeMap::new(),
            text: every_byte,
            cases: [Case::Plain, Case::With(3)],
            pair: Pair(4, Some("plain, µs, \u{2264}")),
            real: [0.1, f64::NAN, 1e300],
            unit: (),
            sign: [-5, 5],
            letter: '"',
            address: "[2001:db8::1]:443".parse().unwrap(),
        });
    }

    #[test]
    fn a_key_that_is_neither_text_nor_number_is_refused() {
        let key = BTreeMap::from([((1, 2), 3)]);
        assert!(line(&mut Vec::new(), &key).is_err() && serde_json::to_string(&key).is_err());
    }
}
