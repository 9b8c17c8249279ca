//! Records of Endace's cards within another capture format (link type 197).

use super::span::{Layer, NotDecoded, Span};
use crate::capture::ERF_ETHERNET;

/// The Ethernet frame of a record.
pub(super) fn open(span: Span<'_>) -> Result<Span<'_>, NotDecoded> {
    let header = span.header::<16>(Layer::Erf)?;
    if !ERF_ETHERNET.contains(&(header[8] & 0x7f)) {
        return Err(NotDecoded::ErfType(header[8] & 0x7f));
    }
    let mut more = header[8] & 0x80 != 0;
    let mut rest = span.skip(16);
    // Each extension header says in its first bit whether another follows.
    for _ in 0..8 {
        if !more {
            // Two bytes of padding before the frame.
            return Ok(rest.skip(2));
        }
        more = rest.header::<8>(Layer::Erf)?[0] & 0x80 != 0;
        rest = rest.skip(8);
    }
    Err(NotDecoded::Depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_headers_are_skipped() {
        let mut record = vec![0; 16];
        record[8] = 0x82;
        record.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        record.extend([0, 0, 0xaa]);
        assert_eq!(open(Span::whole(&record)).unwrap().data, [0xaa]);
        record[8] = 1;
        assert_eq!(open(Span::whole(&record)).err(), Some(NotDecoded::ErfType(1)));
    }
}
