//! JSON text, written straight into a buffer: no tree of values, no allocation for each line.

use record::json;

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

    /// The key of a value that is written to [`Self::buffer`] next.
    pub fn key(&mut self, key: &str) {
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

    /// Text without a character that needs escaping: names that this program itself defines,
    /// addresses.
    pub fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.push(b'"');
    }

    /// Any text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        json::text(self.out, value);
    }

    /// Where the object is written, for fields that come with their keys.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.empty = false;
        self.out
    }

    /// A value that is JSON already.
    pub fn raw(&mut self, key: &str, value: &str) {
        self.key(key);
        self.out.extend_from_slice(record::harmless_json(value).as_bytes());
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
