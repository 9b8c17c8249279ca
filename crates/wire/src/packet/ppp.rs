//! PPP without Ethernet (RFC 1661, RFC 1662), and Cisco's HDLC beside it.

use super::address::be16;
use super::ether_type;
use super::span::{Layer, NotDecoded, Span};

/// The EtherType that stands for what the frame carries, and that.
pub(super) fn open(span: Span<'_>) -> Result<(u16, Span<'_>), NotDecoded> {
    let start = *span.header::<2>(Layer::Ppp)?;
    // Address and control may be omitted by agreement; Cisco's address bytes say that an EtherType
    // follows.
    let rest = match start {
        [0xff, 0x03] => span.skip(2),
        [0x0f | 0x8f, _] => {
            let header = span.header::<4>(Layer::Ppp)?;
            return Ok((be16(header, 2), span.skip(4)));
        }
        _ => span,
    };
    let protocol = *rest.header::<2>(Layer::Ppp)?;
    // An odd first byte is a protocol compressed to one.
    let (number, rest) = if protocol[0] & 1 == 1 {
        (u16::from(protocol[0]), rest.skip(1))
    } else {
        (u16::from_be_bytes(protocol), rest.skip(2))
    };
    match number {
        0x0021 => Ok((ether_type::IPV4, rest)),
        0x0057 => Ok((ether_type::IPV6, rest)),
        other => Err(NotDecoded::PppProtocol(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_and_without_address_and_compression() {
        for frame in [&[0xff, 3, 0, 0x21, 0x45][..], &[0, 0x21, 0x45], &[0x21, 0x45], &[0x0f, 0, 8, 0, 0x45]] {
            let (kind, rest) = open(Span::whole(frame)).unwrap();
            assert_eq!((kind, rest.data), (ether_type::IPV4, &[0x45][..]), "{frame:x?}");
        }
        assert_eq!(open(Span::whole(&[0xff, 3, 0xc0, 0x21])).err(), Some(NotDecoded::PppProtocol(0xc021)));
    }
}
