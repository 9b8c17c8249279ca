//! GTP-U, the tunnel of mobile networks between base station and core (3GPP TS 29.281).

use super::span::{Layer, NotDecoded, Span};

/// The UDP port assigned to it.
pub(super) const PORT: u16 = 2152;

/// A message that carries a user's packet.
const USER_DATA: u8 = 0xff;

/// The IP packet of a message that carries one.
pub(super) fn open(span: Span<'_>) -> Result<Span<'_>, NotDecoded> {
    let header = span.header::<8>(Layer::Gtp)?;
    // Version 1, protocol type GTP.
    if header[0] >> 4 != 3 || header[1] != USER_DATA {
        return Err(NotDecoded::Malformed(Layer::Gtp));
    }
    if header[0] & 7 == 0 {
        return Ok(span.skip(8));
    }
    let mut next = span.header::<12>(Layer::Gtp)?[11] * u8::from(header[0] & 4 != 0);
    let mut rest = span.skip(12);
    // Each extension says its length in units of 4 bytes, and in its last byte what comes next.
    for _ in 0..8 {
        if next == 0 {
            return Ok(rest);
        }
        let length = usize::from(rest.header::<4>(Layer::Gtp)?[0]) * 4;
        next = match rest.data.get(length.wrapping_sub(1)) {
            Some(next) => *next,
            None if length == 0 => return Err(NotDecoded::Malformed(Layer::Gtp)),
            None => return Err(NotDecoded::Truncated(Layer::Gtp)),
        };
        rest = rest.skip(length);
    }
    Err(NotDecoded::Depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_headers_are_skipped() {
        let plain = [0x30, 0xff, 0, 1, 0, 0, 0, 1, 0x45];
        assert_eq!(open(Span::whole(&plain)).unwrap().data, [0x45]);
        let extended = [0x34, 0xff, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 0, 0, 0x45];
        assert_eq!(open(Span::whole(&extended)).unwrap().data, [0x45]);
        let echo = [0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(open(Span::whole(&echo)).err(), Some(NotDecoded::Malformed(Layer::Gtp)));
        let endless = [0x34, 0xff, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0, 0, 0];
        assert_eq!(open(Span::whole(&endless)).err(), Some(NotDecoded::Malformed(Layer::Gtp)));
    }
}
