//! JSON text, written straight into a buffer: no tree of values, no allocation for each line.

use std::borrow::Cow;

/// Writes one object; keys come in the order they are given.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    fn key(&mut self, key: &str) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    pub fn number(&mut self, key: &str, value: impl itoa::Integer) {
        self.key(key);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    pub fn number_or_null(&mut self, key: &str, value: Option<impl itoa::Integer>) {
        match value {
            Some(value) => self.number(key, value),
            None => self.raw(key, "null"),
        }
    }

    /// Text without a character that needs escaping: names that this program itself defines, addresses.
    pub fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.push(b'"');
    }

    /// Any text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        text(self.out, value);
    }

    /// Where the object is written, for fields that come with their keys.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.empty = false;
        self.out
    }

    /// A value that is JSON already.
    pub fn raw(&mut self, key: &str, json: &str) {
        self.key(key);
        self.out.extend_from_slice(record::harmless_json(json).as_bytes());
    }

    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.key(key);
        let mut inner = Object::begin(self.out);
        fill(&mut inner);
        inner.end();
    }

    pub fn end(self) {
        self.out.push(b'}');
    }
}

/// Any text, quoted and escaped, and what [steers](record::steers) a terminal too: lines are read there as well.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let start = out.len();
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        match special[0] {
            byte @ 0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            byte => out.extend_from_slice(&[b'\\', byte]),
        }
        rest = &special[1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
    if text.bytes().any(|byte| byte >= 0x7f)
        && let Ok(written) = std::str::from_utf8(&out[start..])
        && let Cow::Owned(harmless) = record::harmless_json(written)
    {
        out.truncate(start);
        out.extend_from_slice(harmless.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_reads_back(text: String, n: i64) {
            let mut out = Vec::new();
            let mut object = Object::begin(&mut out);
            object.text("text", &text);
            object.number("n", n);
            object.number_or_null("none", None::<u32>);
            object.object("in", |o| o.word("a", "b"));
            object.end();
            let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
            prop_assert!(!std::str::from_utf8(&out).unwrap().contains(record::steers));
            prop_assert_eq!(read, serde_json::json!({ "text": text, "n": n, "none": null, "in": { "a": "b" } }));
        }
    }
}
