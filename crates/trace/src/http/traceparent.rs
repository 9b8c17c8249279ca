//! The header `traceparent` of W3C Trace Context (section 3.2). What is not valid counts as not
//! given.

use record::{SpanId, TraceContext, TraceId};

use crate::layout::TRACEPARENT_BYTES;

/// The bit of the flags that says that the trace may have been recorded.
const SAMPLED: u8 = 1;

/// By the value of the header, with one or more bytes after it.
pub(super) fn parse(bytes: &[u8]) -> Option<TraceContext> {
    let (value, rest) = bytes.split_at_checked(TRACEPARENT_BYTES as usize)?;
    let mut fields = value.split(|&byte| byte == b'-');
    let version = two_digits(fields.next()?)?;
    let trace = TraceId::from_digits(fields.next()?)?;
    let span = SpanId::from_digits(fields.next()?)?;
    let flags = two_digits(fields.next()?)?;
    // Later versions may go on with further fields; the last one is none.
    let ends = match rest.first()? {
        b'\r' | b'\n' | b' ' | b'\t' => true,
        b'-' => version > 0,
        _ => false,
    };
    (fields.next().is_none() && ends && version != 0xff).then_some(TraceContext {
        trace,
        span,
        sampled: flags & SAMPLED != 0,
    })
}

fn two_digits(digits: &[u8]) -> Option<u8> {
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 || !digits.iter().all(is_digit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn parsed(text: &str) -> Option<(String, String, bool)> {
        parse(text.as_bytes()).map(|found| (found.trace.to_string(), found.span.to_string(), found.sampled))
    }

    #[test]
    fn a_valid_value_gives_its_ids_and_whether_it_is_sampled() {
        for (flags, sampled) in [("00", false), ("01", true), ("02", false), ("03", true), ("ff", true)] {
            for end in ["\r", "\n", " ", "\t", "\r\n\r\n"] {
                let found = parsed(&format!("00-{TRACE}-{SPAN}-{flags}{end}"));
                assert_eq!(found, Some((TRACE.into(), SPAN.into(), sampled)), "{flags}{end:?}");
            }
        }
    }

    #[test]
    fn of_a_later_version_the_fields_that_are_known_are_read() {
        for version in ["01", "cc", "fe"] {
            for end in ["\r", "-what-comes-then"] {
                assert!(parsed(&format!("{version}-{TRACE}-{SPAN}-01{end}")).is_some(), "{version}{end}");
            }
        }
    }

    #[test]
    fn what_is_not_valid_counts_as_not_given() {
        for wrong in [
            // All zero.
            format!("00-{}-{SPAN}-01\r", "0".repeat(32)),
            format!("00-{TRACE}-{}-01\r", "0".repeat(16)),
            // Versions that are none, or that end where another field begins.
            format!("ff-{TRACE}-{SPAN}-01\r"),
            format!("0-{TRACE}-{SPAN}-011\r"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01x"),
            format!("00-{TRACE}-{SPAN}-01,"),
            // Capital letters, other characters, other lengths.
            format!("00-{}-{SPAN}-01\r", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01\r", SPAN.to_uppercase()),
            format!("0A-{TRACE}-{SPAN}-01\r"),
            format!("00-{TRACE}-{SPAN}-+1\r"),
            format!("00-{TRACE}-{SPAN}-0g\r"),
            format!("00-{}g-{SPAN}-01\r", &TRACE[1..]),
            format!("00-{}-{SPAN}0-01\r", &TRACE[1..]),
            format!("00-{TRACE}0-{}-01\r", &SPAN[1..]),
            format!("00-{TRACE}-{SPAN}--1\r"),
            // Not whole.
            format!("00-{TRACE}-{SPAN}-01"),
            String::new(),
        ] {
            assert_eq!(parsed(&wrong), None, "{wrong:?}");
        }
        let whole = format!("00-{TRACE}-{SPAN}-01\r");
        assert!(parsed(&whole).is_some() && (0..whole.len()).all(|end| parsed(&whole[..end]).is_none()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>, at in 0..56_usize, byte: u8) {
            parse(&bytes);
            let mut almost = format!("00-{TRACE}-{SPAN}-01\r").into_bytes();
            almost[at] = byte;
            parse(&almost);
        }
    }
}
