//! PPPoE, session stage (RFC 2516), and the PPP protocol number within.

use super::address::be16;
use super::ether_type;
use super::span::{Layer, NotDecoded, Span};

/// The EtherType that the PPP protocol stands for, and what follows.
pub(super) fn open(span: Span<'_>) -> Result<(u16, Span<'_>), NotDecoded> {
    let header = span.header::<7>(Layer::Pppoe)?;
    if header[0] != 0x11 || header[1] != 0 {
        return Err(NotDecoded::Malformed(Layer::Pppoe));
    }
    let session = span.skip(6).limit(be16(header, 4).into());
    // The number may be compressed to one byte, which then is odd (RFC 1661, section 2).
    let (protocol, length) = match header[6] {
        one if one & 1 == 1 => (u16::from(one), 1),
        _ => (be16(span.header::<8>(Layer::Pppoe)?, 6), 2),
    };
    match protocol {
        0x21 => Ok((ether_type::IPV4, session.skip(length))),
        0x57 => Ok((ether_type::IPV6, session.skip(length))),
        other => Err(NotDecoded::PppProtocol(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lengths_of_the_protocol_number() {
        let long = [0x11, 0, 0, 1, 0, 3, 0, 0x21, 0x45];
        let (kind, rest) = open(Span::whole(&long)).unwrap();
        assert_eq!((kind, rest.data), (ether_type::IPV4, &[0x45][..]));
        let short = [0x11, 0, 0, 1, 0, 2, 0x57, 0x60, 9, 9];
        let (kind, rest) = open(Span::whole(&short)).unwrap();
        assert_eq!((kind, rest.data), (ether_type::IPV6, &[0x60][..]));
        assert_eq!(open(Span::whole(&[0x11, 0, 0, 1, 0, 2, 0xc0, 0x21])).err(), Some(NotDecoded::PppProtocol(0xc021)));
        assert_eq!(open(Span::whole(&[0x21, 0, 0, 1, 0, 2, 0, 0x21])).err(), Some(NotDecoded::Malformed(Layer::Pppoe)));
    }
}
