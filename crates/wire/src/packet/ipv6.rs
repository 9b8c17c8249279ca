//! IPv6 (RFC 8200), its extension headers and jumbo payloads (RFC 2675).

use std::fmt;
use std::net::Ipv6Addr;

use super::address::{be16, be32, ipv6_at};
use super::fragment::FragmentKey;
use super::inner::{Inner, ecn};
use super::ip_protocol;
use super::span::{Layer, NotDecoded, Span};
use crate::segment::Network;

/// More extension headers than any stack sends.
const MOST_EXTENSIONS: usize = 16;

/// An IPv6 header without extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Sender.
    pub source: Ipv6Addr,
    /// Receiver.
    pub destination: Ipv6Addr,
    /// What follows it ([`ip_protocol`]).
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Differentiated-services code point and ECN bits.
    pub traffic_class: u8,
    /// The flow label's 20 bits.
    pub flow_label: u32,
}

impl Ipv6 {
    /// Appends the header for `payload` bytes; where they do not fit in 16 bits the length is 0, as
    /// BIG TCP has it.
    pub fn emit(&self, payload: usize, out: &mut Vec<u8>) {
        let first = 6u32 << 28 | u32::from(self.traffic_class) << 20 | (self.flow_label & 0x000f_ffff);
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&u16::try_from(payload).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(&[self.next_header, self.hop_limit]);
        out.extend_from_slice(&self.source.octets());
        out.extend_from_slice(&self.destination.octets());
    }
}

impl fmt::Display for Ipv6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv6 {} > {} next {} hop limit {}", self.source, self.destination, self.next_header, self.hop_limit)
    }
}

/// Reads a header and the extension headers up to what is inside, or to a fragment header.
#[inline(always)]
pub(super) fn open(span: Span<'_>) -> Result<Inner<'_>, NotDecoded> {
    let header = span.header::<40>(Layer::Ipv6)?;
    if header[0] >> 4 != 6 {
        return Err(NotDecoded::IpVersion(header[0] >> 4));
    }
    let first = be32(header, 0);
    let traffic_class = (first >> 20) as u8;
    let length = u32::from(be16(header, 4));
    let rest = span.skip(40);
    let mut inner = Inner {
        source: ipv6_at(header, 8),
        destination: ipv6_at(header, 24),
        network: Network {
            ttl: header[7],
            id: None,
            dont_fragment: true,
            dscp: traffic_class >> 2,
            ecn: ecn(traffic_class),
            tunnels: 0,
        },
        protocol: header[6],
        fragment: None,
        // 0 stands for a jumbo payload, with its option behind, or for a frame that BIG TCP's
        // offload left without one.
        payload: if length == 0 { rest } else { rest.limit(length) },
        summed: length != 0 && length <= rest.wire,
    };
    if !matches!(inner.protocol, ip_protocol::TCP | ip_protocol::UDP) {
        open_extensions(&mut inner, length == 0)?;
    }
    Ok(inner)
}

fn open_extensions(inner: &mut Inner<'_>, without_length: bool) -> Result<(), NotDecoded> {
    for _ in 0..MOST_EXTENSIONS {
        let payload = inner.payload;
        let header_bytes = match inner.protocol {
            ip_protocol::HOP_BY_HOP | ip_protocol::ROUTING | ip_protocol::DESTINATION_OPTIONS | 135 | 139 | 140 => {
                (usize::from(payload.header::<2>(Layer::Ipv6)?[1]) + 1) * 8
            }
            ip_protocol::AUTHENTICATION => (usize::from(payload.header::<2>(Layer::Ipv6)?[1]) + 2) * 4,
            ip_protocol::FRAGMENT => {
                let header = payload.header::<8>(Layer::Ipv6)?;
                let (place, id) = (be16(header, 2), be32(header, 4));
                let (offset, more) = (u32::from(place & 0xfff8), place & 1 != 0);
                inner.protocol = header[0];
                inner.payload = payload.skip(8);
                // Whole in one fragment (RFC 6946): nothing to wait for.
                if offset == 0 && !more {
                    continue;
                }
                let Inner { source, destination, protocol, .. } = *inner;
                inner.fragment = Some((FragmentKey { source, destination, id, protocol }, offset, more));
                return Ok(());
            }
            _ => return Ok(()),
        };
        if header_bytes > payload.wire as usize {
            return Err(NotDecoded::Malformed(Layer::Ipv6));
        }
        if inner.protocol == ip_protocol::HOP_BY_HOP
            && without_length
            && let Some(jumbo) = jumbo_length(payload.data.get(..header_bytes).unwrap_or(payload.data))
        {
            // The length counts from the end of the fixed header, so this extension is within it.
            if (jumbo as usize) < header_bytes {
                return Err(NotDecoded::Malformed(Layer::Ipv6));
            }
            inner.payload = payload.limit(jumbo);
        }
        // Segments left of a route, and a home address, change what the checksum covers (RFC 8200,
        // section 8.1; RFC 6275).
        inner.summed &= !matches!(inner.protocol, ip_protocol::ROUTING | ip_protocol::DESTINATION_OPTIONS | 135);
        inner.protocol = payload.header::<2>(Layer::Ipv6)?[0];
        inner.payload = inner.payload.skip(header_bytes);
    }
    Err(NotDecoded::Depth)
}

/// The jumbo payload option (type 0xc2) of a hop-by-hop header.
fn jumbo_length(header: &[u8]) -> Option<u32> {
    let mut options = header.get(2..)?;
    loop {
        match options {
            [0, rest @ ..] => options = rest,
            [0xc2, 4, a, b, c, d, ..] => return Some(u32::from_be_bytes([*a, *b, *c, *d])),
            [_, length, rest @ ..] => options = rest.get(usize::from(*length)..)?,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(next_header: u8, length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Ipv6 {
            source: Ipv6Addr::LOCALHOST,
            destination: "2001:db8::7".parse().unwrap(),
            next_header,
            hop_limit: 9,
            traffic_class: 0xb9,
            flow_label: 0x12345,
        }
        .emit(length, &mut out);
        out
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = packet(6, 3);
        out.extend_from_slice(b"abc and padding");
        let inner = open(Span::whole(&out)).unwrap();
        assert_eq!((inner.protocol, inner.payload.data, inner.payload.wire), (6, &b"abc"[..], 3));
        assert_eq!((inner.network.ttl, inner.network.dscp, inner.network.ecn), (9, 46, crate::Ecn::Ect1));
    }

    #[test]
    fn extensions_are_passed_and_a_jumbo_payload_is_measured() {
        let mut out = packet(0, 100_000);
        out.extend_from_slice(&[60, 0, 0xc2, 4, 0, 1, 0x86, 0xa0]);
        out.extend_from_slice(&[6, 0, 1, 4, 0, 0, 0, 0]);
        let inner = open(Span { data: &out, wire: 100_054 }).unwrap();
        assert_eq!((inner.protocol, inner.payload.wire), (6, 100_000 - 16));
    }

    #[test]
    fn a_frame_of_big_tcp_without_the_option_takes_the_frames_length() {
        let out = packet(6, 100_000);
        assert_eq!(open(Span { data: &out, wire: 100_040 }).unwrap().payload.wire, 100_000);
    }

    #[test]
    fn fragments_are_distinguished_from_packets_that_are_whole() {
        let mut out = packet(44, 12);
        out.extend_from_slice(&[6, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4]);
        assert!(open(Span::whole(&out)).unwrap().fragment.is_none());
        out[43] = 1;
        let (key, offset, more) = open(Span::whole(&out)).unwrap().fragment.unwrap();
        assert_eq!((key.id, offset, more), (5, 0, true));
    }

    #[test]
    fn an_endless_chain_and_a_long_extension_are_refused() {
        let mut out = packet(60, 400);
        for _ in 0..50 {
            out.extend_from_slice(&[60, 0, 1, 4, 0, 0, 0, 0]);
        }
        assert_eq!(open(Span::whole(&out)).err(), Some(NotDecoded::Depth));
        let mut out = packet(60, 8);
        out.extend_from_slice(&[6, 9, 0, 0, 0, 0, 0, 0]);
        assert_eq!(open(Span::whole(&out)).err(), Some(NotDecoded::Malformed(Layer::Ipv6)));
    }
}
