//! GRE (RFC 2784 and 2890), with ERSPAN's own headers passed.

use std::fmt;

use super::address::be16;
use super::ether_type;
use super::span::{Layer, NotDecoded, Span};

/// A GRE header of version 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gre {
    /// What follows ([`ether_type`]).
    pub protocol: u16,
    /// Whether it carries a checksum.
    pub checksum: bool,
    /// The key.
    pub key: Option<u32>,
    /// The sequence number.
    pub sequence: Option<u32>,
}

impl Gre {
    /// Reads a header; ERSPAN's is passed too, and the protocol is that of what it carries: an
    /// Ethernet frame, or IP.
    ///
    /// # Errors
    /// Where it is not there whole, is of another version, or uses the routing of RFC 1701.
    pub fn parse(span: Span<'_>) -> Result<(Self, Span<'_>), NotDecoded> {
        let header = span.header::<4>(Layer::Gre)?;
        let bits = be16(header, 0);
        if bits & 7 != 0 {
            return Err(NotDecoded::GreVersion((bits & 7) as u8));
        }
        if bits & 0x4000 != 0 {
            return Err(NotDecoded::Malformed(Layer::Gre));
        }
        let mut rest = span.skip(4);
        let mut field = |present: bool| -> Result<Option<u32>, NotDecoded> {
            if !present {
                return Ok(None);
            }
            let four = rest.header::<4>(Layer::Gre)?;
            rest = rest.skip(4);
            Ok(Some(u32::from_be_bytes(*four)))
        };
        let checksum = field(bits & 0x8000 != 0)?.is_some();
        let key = field(bits & 0x2000 != 0)?;
        let sequence = field(bits & 0x1000 != 0)?;
        let mut protocol = be16(header, 2);
        match protocol {
            // Type I has neither sequence number nor a header itself.
            ether_type::ERSPAN_II if sequence.is_none() => protocol = ether_type::BRIDGED,
            ether_type::ERSPAN_II => {
                rest.header::<8>(Layer::Gre)?;
                (protocol, rest) = (ether_type::BRIDGED, rest.skip(8));
            }
            ether_type::ERSPAN_III => {
                // The lowest bit says that 8 more bytes, for the platform, follow.
                let own = rest.header::<12>(Layer::Gre)?;
                rest = rest.skip(if own[11] & 1 == 1 { 20 } else { 12 });
                protocol = match own[10] >> 2 & 0x1f {
                    0 => ether_type::BRIDGED,
                    // IP, and its version is all that says which.
                    2 if rest.header::<1>(Layer::Gre)?[0] >> 4 == 6 => ether_type::IPV6,
                    2 => ether_type::IPV4,
                    _ => return Err(NotDecoded::Malformed(Layer::Gre)),
                };
            }
            _ => {}
        }
        Ok((Self { protocol, checksum, key, sequence }, rest))
    }

    /// Appends the header; a checksum field is left 0.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let bit = |present: bool, mask: u16| if present { mask } else { 0 };
        let bits = bit(self.checksum, 0x8000) | bit(self.key.is_some(), 0x2000) | bit(self.sequence.is_some(), 0x1000);
        out.extend_from_slice(&bits.to_be_bytes());
        out.extend_from_slice(&self.protocol.to_be_bytes());
        for field in [self.checksum.then_some(0), self.key, self.sequence].into_iter().flatten() {
            out.extend_from_slice(&field.to_be_bytes());
        }
    }
}

impl fmt::Display for Gre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GRE protocol {:#06x} key {:?} sequence {:?}", self.protocol, self.key, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_of_fields_are_written_and_read() {
        for bits in 0..8u8 {
            let gre = Gre {
                protocol: ether_type::IPV4,
                checksum: bits & 1 != 0,
                key: (bits & 2 != 0).then_some(5),
                sequence: (bits & 4 != 0).then_some(6),
            };
            let mut out = Vec::new();
            gre.emit(&mut out);
            out.push(0x45);
            let (read, rest) = Gre::parse(Span::whole(&out)).unwrap();
            assert_eq!((read, rest.data), (gre, &[0x45][..]));
        }
    }

    #[test]
    fn erspan_ends_at_ethernet_and_pptp_is_another_version() {
        let erspan = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0xaa];
        let (gre, rest) = Gre::parse(Span::whole(&erspan)).unwrap();
        assert_eq!((gre.protocol, rest.data), (ether_type::BRIDGED, &[0xaa][..]));
        assert_eq!(Gre::parse(Span::whole(&[0x30, 0x81, 0x88, 0x0b])).err(), Some(NotDecoded::GreVersion(1)));
    }
}
