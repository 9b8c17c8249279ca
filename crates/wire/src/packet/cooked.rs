//! Linux cooked captures, versions 1 and 2: what libpcap writes for the device `any`.

use std::fmt;

use super::address::be16;
use super::span::{Layer, NotDecoded, Span};

/// A version 1 header (LINKTYPE_LINUX_SLL), 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookedV1 {
    /// 0 to this host, 1 broadcast, 2 multicast, 3 to another host, 4 sent by this host.
    pub direction: u16,
    /// The device's ARPHRD type.
    pub device_type: u16,
    /// An EtherType.
    pub protocol: u16,
}

/// A version 2 header (LINKTYPE_LINUX_SLL2), 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookedV2 {
    /// An EtherType.
    pub protocol: u16,
    /// Index of the interface on the capturing machine.
    pub interface: u32,
    /// The device's ARPHRD type.
    pub device_type: u16,
    /// As in version 1.
    pub direction: u8,
}

impl CookedV1 {
    /// Reads a header.
    ///
    /// # Errors
    /// Where it is not there whole.
    pub fn parse(span: Span<'_>) -> Result<(Self, Span<'_>), NotDecoded> {
        let header = span.header::<16>(Layer::Cooked)?;
        let (direction, device_type, protocol) = (be16(header, 0), be16(header, 2), be16(header, 14));
        Ok((Self { direction, device_type, protocol }, span.skip(16)))
    }

    /// Appends the header, without a link-layer address.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.direction.to_be_bytes());
        out.extend_from_slice(&self.device_type.to_be_bytes());
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(&self.protocol.to_be_bytes());
    }
}

impl CookedV2 {
    /// Reads a header.
    ///
    /// # Errors
    /// Where it is not there whole.
    pub fn parse(span: Span<'_>) -> Result<(Self, Span<'_>), NotDecoded> {
        let header = span.header::<20>(Layer::Cooked)?;
        let interface = super::address::be32(header, 4);
        let (protocol, device_type, direction) = (be16(header, 0), be16(header, 8), header[10]);
        Ok((Self { protocol, interface, device_type, direction }, span.skip(20)))
    }

    /// Appends the header, without a link-layer address.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.protocol.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.interface.to_be_bytes());
        out.extend_from_slice(&self.device_type.to_be_bytes());
        out.push(self.direction);
        out.extend_from_slice(&[0; 9]);
    }
}

impl fmt::Display for CookedV1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linux cooked v1 protocol {:#06x}", self.protocol)
    }
}

impl fmt::Display for CookedV2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linux cooked v2 interface {} protocol {:#06x}", self.interface, self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let one = CookedV1 { direction: 4, device_type: 1, protocol: 0x800 };
        let two = CookedV2 { protocol: 0x86dd, interface: 7, device_type: 772, direction: 4 };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        one.emit(&mut a);
        two.emit(&mut b);
        assert_eq!(CookedV1::parse(Span::whole(&a)).unwrap().0, one);
        assert_eq!(CookedV2::parse(Span::whole(&b)).unwrap().0, two);
    }
}
