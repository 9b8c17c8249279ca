//! Which trace a request belongs to, as its sender says (W3C Trace Context).

use std::borrow::Cow;
use std::fmt;

use crate::table::{Cell, Kind, Value, text};

/// Bytes as hexadecimal digits, two a byte, in small letters.
macro_rules! hex {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $wrong:literal;) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $bytes]);

        impl $name {
            /// By its digits; `None` where they are others than these, or all of them zero, which
            /// identifies nothing.
            pub fn from_digits(digits: &[u8]) -> Option<Self> {
                let mut bytes = [0; $bytes];
                if digits.len() != 2 * bytes.len() {
                    return None;
                }
                for (byte, two) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    *byte = digit(two[0])? << 4 | digit(two[1])?;
                }
                bytes.iter().any(|&byte| byte != 0).then_some(Self(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl Cell for $name {
            const KIND: Kind = Kind::Word;
            fn value(&self) -> Value<'_> {
                Value::Text(Cow::Owned(self.to_string()))
            }
            fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
                Self::from_digits(text(value)?.as_bytes()).ok_or($wrong)
            }
        }
    };
}

hex! {
    /// A trace: all that was done for one request from outside.
    TraceId, 16, "is no trace id: 32 hexadecimal digits, not all zero";
}

hex! {
    /// A span: one piece of the work of a trace.
    SpanId, 8, "is no span id: 16 hexadecimal digits, not all zero";
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// What the header `traceparent` of a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span that sent the request: at a server the parent of its own.
    pub span: SpanId,
    /// Whether its sender may have recorded it. Traces that are not sampled are mostly in no store.
    pub sampled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_read_back() {
        let digits = "0af7651916cd43dd8448eb211c80319c";
        let id = TraceId::from_digits(digits.as_bytes()).unwrap();
        assert_eq!((id.0[0], id.0[15], id.to_string().as_str()), (0x0a, 0x9c, digits));
        assert_eq!(TraceId::from_value(id.value()), Ok(id));
        let span = SpanId::from_digits(b"00f067aa0ba902b7").unwrap();
        assert_eq!(SpanId::from_value(span.value()), Ok(span));
    }

    #[test]
    fn what_identifies_nothing_is_none() {
        for wrong in
            ["", "00f067aa0ba902b", "00f067aa0ba902b70", "00F067AA0BA902B7", "00f067aa0ba902bg", "0000000000000000"]
        {
            assert_eq!(SpanId::from_digits(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert!(TraceId::from_value(Value::Text("00f067aa0ba902b7".into())).is_err());
    }
}
