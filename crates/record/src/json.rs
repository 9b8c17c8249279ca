//! JSON text of records, written straight into a buffer: no tree of values, no allocation for each
//! line.
//!
//! What `serde_json` writes, byte for byte, but for what [steers](crate::steers) a terminal: lines
//! are read there as well, so that is escaped.

use std::borrow::Cow;

use crate::harmless_json;
use crate::table::{Cell, Fields, Kind, Record, Value};

/// Appends a record as an object, without a line's end; with its kind first where its table has
/// one.
pub fn object<R: Record>(out: &mut Vec<u8>, record: &R) {
    if R::KIND.is_empty() {
        out.push(b'{');
    } else {
        kind(out, R::KIND);
    }
    fields(out, record, !R::KIND.is_empty());
    out.push(b'}');
}

/// Begins a line, up to its kind.
pub fn kind(out: &mut Vec<u8>, kind: &str) {
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.push(b'"');
}

/// Appends the fields of a record, with a comma before the first where others precede it.
pub fn fields<R: Record>(out: &mut Vec<u8>, record: &R, others_precede: bool) {
    record.each(&mut Pairs { out, comma: others_precede });
}

/// Appends a list, each item by `item`.
pub fn array<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, item: impl Fn(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (i, value) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        item(out, value);
    }
    out.push(b']');
}

/// Writes keys and values.
struct Pairs<'a> {
    out: &'a mut Vec<u8>,
    /// Whether a comma goes before the next key.
    comma: bool,
}

impl Fields for Pairs<'_> {
    /// Inlined, so that the key is a constant and only the value's own branch is left.
    #[inline(always)]
    fn field<C: Cell>(&mut self, json_key: &'static str, value: &C) {
        self.out.extend_from_slice(&json_key.as_bytes()[usize::from(!self.comma)..]);
        self.comma = true;
        value.write_json(self.out);
    }
}

/// Appends the value of a field of this kind.
#[inline]
pub(crate) fn value(out: &mut Vec<u8>, kind: Kind, value: Value<'_>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Number(n) => number(out, n),
        Value::Flag(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        Value::Text(word) if kind == Kind::Word => {
            out.push(b'"');
            out.extend_from_slice(word.as_bytes());
            out.push(b'"');
        }
        Value::Text(any) => text(out, &any),
        Value::Real(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Json(json) => out.extend_from_slice(harmless_json(&json.to_string()).as_bytes()),
    }
}

/// Appends a number. Most numbers of a record are 0.
#[inline]
pub fn number(out: &mut Vec<u8>, n: u64) {
    match n {
        0..10 => out.push(b'0' + n as u8),
        _ => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
    }
}

/// Whether a byte of a text is written as it is.
#[inline]
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..0x7f) && byte != b'"' && byte != b'\\'
}

/// Appends any text, quoted and escaped.
#[inline]
pub fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    // All at once, so that the compiler can compare many bytes together; nearly every text is
    // plain.
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
    if let Ok(Cow::Owned(harmless)) = std::str::from_utf8(&out[start..]).map(harmless_json) {
        out.truncate(start);
        out.extend_from_slice(harmless.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;
    use proptest::prelude::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Inner {
        n: Option<Nanos>,
    }
    #[derive(Debug, Default)]
    struct Outer {
        text: String,
        inner: Inner,
        list: Vec<Inner>,
    }
    crate::columns! {
        Inner: "inner", "", blank = Inner::default();
        n_ns = n, null "there is none", "a time";
    }
    crate::inside!(Inner);
    crate::columns! {
        Outer: "outer", "outer", blank = Outer::default();
        text = text, "any text";
        inner = inner, "a record";
        list = list, "a list of them";
    }

    fn json(value: &impl Cell) -> String {
        let mut out = Vec::new();
        value.write_json(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_record_holds_records_and_lists_of_them() {
        let inner = Inner { n: Some(Nanos(12)) };
        let outer = Outer { text: "a \"b\"".into(), inner: inner.clone(), list: vec![Inner::default(), inner.clone()] };
        let mut out = Vec::new();
        object(&mut out, &outer);
        let wanted = "{\"kind\":\"outer\",\"text\":\"a \\\"b\\\"\",\"inner\":{\"n_ns\":12},\"list\":[{\"n_ns\":null},{\"n_ns\":12}]}";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
        // The same by way of a tree.
        let tree = serde_json::to_value(crate::table::object::of(&outer)).unwrap();
        assert_eq!(tree["list"][1]["n_ns"], 12);
        assert_eq!(tree, serde_json::Value::from(crate::table::object::of(&outer)));
        let Value::Json(value) = inner.value() else { panic!("a record is JSON") };
        assert_eq!(Inner::from_value(Value::Json(value)).unwrap(), inner);
    }

    #[test]
    fn values_are_written_as_serde_json_writes_them() {
        for n in [0u64, 1, 9, 10, 11, 99, 100, 101, 999, 1_000, 1_010, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            assert_eq!(json(&n), n.to_string());
        }
        for text in ["", "plain", "a \"quoted\" \\ one", "tab\tline\nreturn\r\u{8}\u{c}\u{1}\u{1f}", "σ² ≤ 3 µs"] {
            assert_eq!(json(&text.to_owned()), serde_json::to_string(text).unwrap());
        }
        assert_eq!(json(&"\u{7f}\u{9b}\u{202e}\u{3c3}".to_owned()), "\"\\u007f\\u009b\\u202e\u{3c3}\"");
        assert_eq!(json(&vec![1u64, 20]), "[1,20]");
        assert_eq!((json(&None::<u64>), json(&Some(true))), ("null".into(), "true".into()));
    }

    proptest! {
        #[test]
        fn any_text_reads_back(text: String) {
            let written = json(&text);
            prop_assert!(!written.contains(crate::steers));
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }
}
