//! Netlink attributes (`struct nlattr`): a pure walk over bytes.

use crate::ParseError;

/// One attribute: its type without the nested and byte-order bits, and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The type.
    pub kind: u16,
    /// The payload, without padding.
    pub data: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The payload as one unsigned number of 1, 2, 4 or 8 bytes in the machine's byte order; `None`
    /// for other lengths.
    pub fn number(&self) -> Option<u64> {
        match *self.data {
            [a] => Some(a.into()),
            [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
            [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            _ => None,
        }
    }

    /// The payload as text up to its first zero byte; `None` where it is not UTF-8.
    pub fn text(&self) -> Option<&'a str> {
        let end = self.data.iter().position(|b| *b == 0).unwrap_or(self.data.len());
        std::str::from_utf8(&self.data[..end]).ok()
    }

    /// The attributes nested in this one.
    pub fn nested(&self) -> Attributes<'a> {
        attributes(self.data)
    }
}

/// The attributes in `bytes`, one after the other. After an error the walk ends.
pub fn attributes(bytes: &[u8]) -> Attributes<'_> {
    Attributes { bytes, offset: 0 }
}

/// See [`attributes`].
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
    offset: usize,
}

const HEADER: usize = 4;
/// `NLA_TYPE_MASK`: the upper two bits say "nested" and "network byte order".
const TYPE_MASK: u16 = 0x3fff;

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let offset = self.offset;
        self.offset = self.bytes.len();
        let what = "a netlink attribute";
        if rest.len() < HEADER {
            return Some(Err(ParseError::Truncated { what, offset, need: HEADER, have: rest.len() }));
        }
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        if length < HEADER {
            return Some(Err(ParseError::Malformed { what, offset, why: "its length is less than its header's" }));
        }
        let Some(data) = rest.get(HEADER..length) else {
            return Some(Err(ParseError::Truncated { what, offset, need: length, have: rest.len() }));
        };
        self.offset = offset + length.next_multiple_of(4);
        Some(Ok(Attribute { kind: u16::from_ne_bytes([rest[2], rest[3]]) & TYPE_MASK, data }))
    }
}

/// Appends an attribute to a message under construction, padded to four bytes.
pub(crate) fn put(message: &mut Vec<u8>, kind: u16, data: &[u8]) {
    message.extend_from_slice(&((HEADER + data.len()) as u16).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(data);
    message.resize(message.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn truncated_and_malformed_are_distinguished() {
        let short = [8, 0, 1, 0, 9];
        assert!(matches!(attributes(&short).next(), Some(Err(ParseError::Truncated { need: 8, have: 5, .. }))));
        let tiny = [3, 0, 1, 0];
        assert!(matches!(attributes(&tiny).next(), Some(Err(ParseError::Malformed { .. }))));
    }

    proptest! {
        #[test]
        fn what_was_put_is_read_back(list in prop::collection::vec((0u16..TYPE_MASK, prop::collection::vec(any::<u8>(), 0..30)), 0..20)) {
            let mut bytes = Vec::new();
            for (kind, data) in &list {
                put(&mut bytes, *kind, data);
            }
            let back: Vec<_> = attributes(&bytes).map(|a| a.map(|a| (a.kind, a.data.to_vec()))).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(back, list);
        }

        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let all: Vec<_> = attributes(&bytes).collect();
            prop_assert!(all.len() <= bytes.len());
            prop_assert!(all.iter().rev().skip(1).all(Result::is_ok));
        }
    }
}
