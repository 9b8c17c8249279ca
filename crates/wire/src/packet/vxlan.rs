//! VXLAN (RFC 7348).

use std::fmt;

use super::address::be32;
use super::span::{Layer, NotDecoded, Span};

/// A VXLAN header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// The network's number, 24 bits.
    pub network: u32,
}

impl Vxlan {
    /// Whether UDP to this port is VXLAN: the assigned number, and the one that Linux used before
    /// it.
    #[inline]
    pub fn on_port(port: u16) -> bool {
        matches!(port, 4789 | 8472)
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Where it is not there whole or its flag for a valid network number is not set.
    pub fn parse(span: Span<'_>) -> Result<(Self, Span<'_>), NotDecoded> {
        let header = span.header::<8>(Layer::Vxlan)?;
        if header[0] & 0x08 == 0 {
            return Err(NotDecoded::Malformed(Layer::Vxlan));
        }
        Ok((Self { network: be32(header, 4) >> 8 }, span.skip(8)))
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[8, 0, 0, 0]);
        out.extend_from_slice(&(self.network << 8).to_be_bytes());
    }
}

impl fmt::Display for Vxlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VXLAN network {}", self.network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        Vxlan { network: 0xabcdef }.emit(&mut out);
        assert_eq!(Vxlan::parse(Span::whole(&out)).unwrap().0, Vxlan { network: 0xabcdef });
        out[0] = 0;
        assert_eq!(Vxlan::parse(Span::whole(&out)).err(), Some(NotDecoded::Malformed(Layer::Vxlan)));
    }
}
