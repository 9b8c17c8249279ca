//! UDP (RFC 768).

use std::fmt;
use std::net::SocketAddr;

use record::{Instant, Realtime};

use super::address::be16;
use super::span::{Layer, NotDecoded, Span};
use crate::segment::Network;

/// A UDP datagram, with where it came from and went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// The packet's number in its capture, from 1.
    pub number: u64,
    /// When it was captured.
    pub at: Instant<Realtime>,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Payload bytes on the wire.
    pub payload: u32,
    /// The IP header's part.
    pub network: Network,
    /// It came in fragments of IP.
    pub in_fragments: bool,
    /// How its payload begins.
    pub head: Head,
}

/// The first bytes of a payload, as far as the capture has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; Self::BYTES],
    captured: u8,
}

impl Head {
    /// Bytes that are kept: what is numbered has its number within them.
    pub const BYTES: usize = 40;

    /// Of a payload.
    #[inline]
    pub fn of(payload: &[u8]) -> Self {
        let mut bytes = [0; Self::BYTES];
        let captured = payload.len().min(Self::BYTES);
        bytes[..captured].copy_from_slice(&payload[..captured]);
        Self { bytes, captured: captured as u8 }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.captured.into()]
    }
}

impl Udp {
    /// The ports, and what follows the header.
    ///
    /// # Errors
    /// Where the header is not there whole or its length is impossible.
    #[inline]
    pub(super) fn open(span: Span<'_>) -> Result<(u16, u16, Span<'_>), NotDecoded> {
        let header = span.header::<8>(Layer::Udp)?;
        let length = u32::from(be16(header, 4));
        // 0 stands for a jumbogram's length (RFC 2675, section 4).
        let whole = match length {
            0 => span,
            8.. => span.limit(length),
            _ => return Err(NotDecoded::Malformed(Layer::Udp)),
        };
        Ok((be16(header, 0), be16(header, 2), whole.skip(8)))
    }
}

impl fmt::Display for Udp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UDP {} > {} {} bytes", self.source, self.destination, self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_limit_what_follows() {
        let datagram = [0, 1, 0, 2, 0, 9, 0, 0, 7, 8];
        let (source, destination, rest) = Udp::open(Span::whole(&datagram)).unwrap();
        assert_eq!((source, destination, rest.data), (1, 2, &[7][..]));
        let impossible = [0, 1, 0, 2, 0, 7, 0, 0];
        assert_eq!(Udp::open(Span::whole(&impossible)).err(), Some(NotDecoded::Malformed(Layer::Udp)));
    }
}
