//! BSD loopback headers: four bytes of address family, in one byte order or the other.

use super::ether_type;
use super::span::{Layer, NotDecoded, Span};

/// The EtherType that the family stands for, and what follows it.
///
/// The null header is in the byte order of the machine that captured, which the file need not
/// share: families are small numbers, so the order is read from where the non-zero byte is. IPv6 is
/// 10 on Linux, 24 on NetBSD, 28 on FreeBSD, 30 on macOS.
pub(super) fn open(span: Span<'_>) -> Result<(u16, Span<'_>), NotDecoded> {
    let header = span.header::<4>(Layer::Loopback)?;
    let little = u32::from_le_bytes(*header);
    let family = if little > 0xffff { little.swap_bytes() } else { little };
    match family {
        2 => Ok((ether_type::IPV4, span.skip(4))),
        10 | 24 | 28 | 30 => Ok((ether_type::IPV6, span.skip(4))),
        other => Err(NotDecoded::AddressFamily(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_in_both_byte_orders() {
        for (header, expected) in [
            ([2, 0, 0, 0], Ok(ether_type::IPV4)),
            ([0, 0, 0, 2], Ok(ether_type::IPV4)),
            ([0, 0, 0, 30], Ok(ether_type::IPV6)),
            ([24, 0, 0, 0], Ok(ether_type::IPV6)),
            ([7, 0, 0, 0], Err(NotDecoded::AddressFamily(7))),
        ] {
            assert_eq!(open(Span::whole(&header)).map(|(t, _)| t), expected);
        }
        assert!(open(Span::whole(&[2, 0, 0])).is_err());
    }
}
