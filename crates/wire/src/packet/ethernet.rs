//! Ethernet, with 802.1Q, 802.1ad and stacked tags.

use std::fmt;

use super::address::be16;
use super::ether_type;
use super::span::{Layer, NotDecoded, Span};

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Receiver.
    pub destination: [u8; 6],
    /// Sender.
    pub source: [u8; 6],
    /// What follows ([`ether_type`]).
    pub ether_type: u16,
}

/// One VLAN tag, after the EtherType that announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Priority, drop-eligible bit and VLAN number.
    pub control: u16,
    /// What follows.
    pub ether_type: u16,
}

impl Ethernet {
    /// Reads a header.
    ///
    /// # Errors
    /// Where it is not there whole.
    #[inline]
    pub fn parse(span: Span<'_>) -> Result<(Self, Span<'_>), NotDecoded> {
        let header = span.header::<14>(Layer::Ethernet)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
        let ethernet = Self {
            destination: [d0, d1, d2, d3, d4, d5],
            source: [s0, s1, s2, s3, s4, s5],
            ether_type: u16::from_be_bytes([t0, t1]),
        };
        Ok((ethernet, span.skip(14)))
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.destination);
        out.extend_from_slice(&self.source);
        out.extend_from_slice(&self.ether_type.to_be_bytes());
    }
}

impl fmt::Display for Ethernet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ethernet {:02x?} > {:02x?} type {:#06x}", self.source, self.destination, self.ether_type)
    }
}

impl VlanTag {
    /// Whether `number` announces a tag.
    #[inline]
    pub fn announced_by(number: u16) -> bool {
        matches!(number, ether_type::VLAN | ether_type::SERVICE_VLAN | ether_type::OLD_SERVICE_VLAN)
    }

    /// Reads a tag.
    ///
    /// # Errors
    /// Where it is not there whole.
    pub fn parse(span: Span<'_>) -> Result<(Self, Span<'_>), NotDecoded> {
        let header = span.header::<4>(Layer::Vlan)?;
        Ok((Self { control: be16(header, 0), ether_type: be16(header, 2) }, span.skip(4)))
    }

    /// Appends the tag.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.control.to_be_bytes());
        out.extend_from_slice(&self.ether_type.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let ethernet = Ethernet { destination: [1; 6], source: [2; 6], ether_type: ether_type::VLAN };
        let tag = VlanTag { control: 0x2007, ether_type: ether_type::IPV4 };
        let mut out = Vec::new();
        ethernet.emit(&mut out);
        tag.emit(&mut out);
        let (read, rest) = Ethernet::parse(Span::whole(&out)).unwrap();
        assert_eq!(read, ethernet);
        assert_eq!(VlanTag::parse(rest).unwrap().0, tag);
        let cut = Ethernet::parse(Span { data: &out[..13], wire: 60 });
        assert_eq!(cut.err(), Some(NotDecoded::Truncated(Layer::Ethernet)));
    }
}
