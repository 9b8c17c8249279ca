//! Geneve (RFC 8926).

use super::address::be16;
use super::span::{Layer, NotDecoded, Span};

/// The UDP port assigned to it.
pub(super) const PORT: u16 = 6081;

/// The EtherType of what the tunnel carries, and that. Options are skipped.
pub(super) fn open(span: Span<'_>) -> Result<(u16, Span<'_>), NotDecoded> {
    let header = span.header::<8>(Layer::Geneve)?;
    // Version 0; the reserved bits are ignored on receipt.
    if header[0] >> 6 != 0 {
        return Err(NotDecoded::Malformed(Layer::Geneve));
    }
    Ok((be16(header, 2), span.skip(8 + usize::from(header[0] & 0x3f) * 4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_skipped_and_other_versions_refused() {
        let packet = [1, 0, 0x65, 0x58, 0, 0, 1, 0, 9, 9, 9, 9, 7];
        let (kind, rest) = open(Span::whole(&packet)).unwrap();
        assert_eq!((kind, rest.data), (0x6558, &[7][..]));
        assert_eq!(open(Span::whole(&[0x40; 8])).err(), Some(NotDecoded::Malformed(Layer::Geneve)));
    }
}
