//! A report as a line of JSON.
//!
//! What `serde_json` writes, byte for byte, but for what [steers](record::steers) a terminal: that is escaped. A report has some 250 keys, and to look at each byte of each of them, as is needed where keys are
//! not known, took nearly half of the time that a report takes.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::ser::{self, SerializeMap, SerializeSeq, SerializeStruct};

use crate::report::Report;

impl Report {
    /// Appends the report as one JSON object, without a line's end.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        // Nothing in a report can fail: there are no maps with keys that are no strings, and a list takes what it is given.
        let written = self.serialize(Json(out));
        debug_assert!(written.is_ok(), "{written:?}");
    }
}

/// Writes values as JSON.
struct Json<'a>(&'a mut Vec<u8>);

/// A value of a type that reports do not have.
#[derive(Debug)]
struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that reports do not have")
    }
}

impl std::error::Error for Unsupported {}

impl ser::Error for Unsupported {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// A list, object or map that is under way.
struct Under<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
    end: u8,
}

impl<'a> Under<'a> {
    fn begin(out: &'a mut Vec<u8>, begin: u8, end: u8) -> Self {
        out.push(begin);
        Self { out, first: true, end }
    }

    #[inline]
    fn separate(&mut self) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
    }

    fn finish(self) {
        self.out.push(self.end);
    }
}

/// Whether a byte of a string is written as it is.
#[inline]
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..0x7f) && byte != b'"' && byte != b'\\'
}

#[inline]
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    // All at once, so that the compiler can look at many together; nearly every string is plain.
    if text.bytes().fold(true, |plain, b| plain & is_plain(b)) {
        out.extend_from_slice(text.as_bytes());
    } else {
        escaped(out, text);
    }
    out.push(b'"');
}

#[cold]
fn escaped(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    for byte in text.bytes() {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..0x20 => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
                continue;
            }
            plain => {
                out.push(plain);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    if let Ok(written) = std::str::from_utf8(&out[start..])
        && let Cow::Owned(harmless) = record::harmless_json(written)
    {
        out.truncate(start);
        out.extend_from_slice(harmless.as_bytes());
    }
}

macro_rules! numbers {
    ($($method:ident: $number:ty),*) => {
        $(#[inline]
        fn $method(self, n: $number) -> Result<(), Unsupported> {
            // Most numbers of a report are 0.
            match n {
                0..10 => self.0.push(b'0' + n as u8),
                _ => self.0.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
            }
            Ok(())
        })*
    };
}

macro_rules! unsupported {
    ($($method:ident($($of:ty),*) -> $to:ty;)*) => {
        $(fn $method(self, $(_: $of),*) -> Result<$to, Unsupported> {
            Err(Unsupported)
        })*
    };
}

impl<'a> ser::Serializer for Json<'a> {
    type Ok = ();
    type Error = Unsupported;
    type SerializeSeq = Under<'a>;
    type SerializeMap = Under<'a>;
    type SerializeStruct = Under<'a>;
    type SerializeTuple = Under<'a>;
    type SerializeTupleStruct = ser::Impossible<(), Unsupported>;
    type SerializeTupleVariant = ser::Impossible<(), Unsupported>;
    type SerializeStructVariant = ser::Impossible<(), Unsupported>;

    numbers!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    unsupported! {
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }

    #[inline]
    fn serialize_bool(self, v: bool) -> Result<(), Unsupported> {
        self.0.extend_from_slice(if v { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_char(self, v: char) -> Result<(), Unsupported> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, v: &str) -> Result<(), Unsupported> {
        string(self.0, v);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Unsupported> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unsupported> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Unsupported> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Unsupported> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Unsupported> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Unsupported> {
        Err(Unsupported)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Under<'a>, Unsupported> {
        Ok(Under::begin(self.0, b'[', b']'))
    }

    fn serialize_tuple(self, _: usize) -> Result<Under<'a>, Unsupported> {
        self.serialize_seq(None)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Under<'a>, Unsupported> {
        Ok(Under::begin(self.0, b'{', b'}'))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Under<'a>, Unsupported> {
        self.serialize_map(None)
    }
}

impl SerializeSeq for Under<'_> {
    type Ok = ();
    type Error = Unsupported;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unsupported> {
        self.separate();
        value.serialize(Json(self.out))
    }

    fn end(self) -> Result<(), Unsupported> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeTuple for Under<'_> {
    type Ok = ();
    type Error = Unsupported;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unsupported> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), Unsupported> {
        SerializeSeq::end(self)
    }
}

impl SerializeMap for Under<'_> {
    type Ok = ();
    type Error = Unsupported;

    /// A key that is a number is written as a string.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unsupported> {
        self.separate();
        let at = self.out.len();
        key.serialize(Json(self.out))?;
        if self.out.get(at).is_some_and(u8::is_ascii_digit) {
            self.out.insert(at, b'"');
            self.out.push(b'"');
        }
        self.out.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unsupported> {
        value.serialize(Json(self.out))
    }

    fn end(self) -> Result<(), Unsupported> {
        self.finish();
        Ok(())
    }
}

impl SerializeStruct for Under<'_> {
    type Ok = ();
    type Error = Unsupported;

    /// The names of fields need no escapes. Within the function that knows the name it is a few moves of a known length.
    #[inline(always)]
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Unsupported> {
        debug_assert!(key.bytes().all(is_plain), "{key}");
        let comma = usize::from(!std::mem::replace(&mut self.first, false));
        self.out.reserve(key.len() + 4);
        self.out.extend_from_slice(&b",\""[1 - comma..]);
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        value.serialize(Json(self.out))
    }

    fn end(self) -> Result<(), Unsupported> {
        self.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn json<T: Serialize>(value: &T) -> String {
        let mut out = Vec::new();
        value.serialize(Json(&mut out)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_kind_of_value_is_written_as_serde_json_writes_it() {
        let edges = [0, 1, 9, 10, 11, 99, 100, 101, 999, 1_000, 1_010, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let texts = ["", "plain", "a \"quoted\" \\ one", "tab\tline\nreturn\r\u{8}\u{c}\u{1}\u{1f}", "σ² ≤ 3 µs"];
        assert_eq!(json(&edges), serde_json::to_string(&edges).unwrap());
        (0..100_000u64).for_each(|n| assert_eq!(json(&n), n.to_string()));
        assert_eq!(json(&texts), serde_json::to_string(&texts).unwrap());
        let map: BTreeMap<u8, Option<bool>> = [(5, None), (20, Some(true)), (255, Some(false))].into();
        assert_eq!(json(&map), serde_json::to_string(&map).unwrap());
        assert_eq!(json(&(1u8, 'x', "\"")), serde_json::to_string(&(1u8, 'x', "\"")).unwrap());
        assert_eq!(json(&"\u{7f}\u{9b}\u{202e}\u{3c3}"), "\"\\u007f\\u009b\\u202e\u{3c3}\"");
        let empty: [[u8; 0]; 2] = [[], []];
        assert_eq!(json(&empty), "[[],[]]");
    }
}
