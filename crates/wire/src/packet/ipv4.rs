//! IPv4 (RFC 791).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::address::{be16, ipv4_at};
use super::checksum::Checksum;
use super::fragment::FragmentKey;
use super::inner::{Inner, ecn};
use super::span::{Layer, NotDecoded, Span};
use crate::segment::Network;

/// An IPv4 header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Sender.
    pub source: Ipv4Addr,
    /// Receiver.
    pub destination: Ipv4Addr,
    /// What it carries ([`super::ip_protocol`]).
    pub protocol: u8,
    /// Identification.
    pub id: u16,
    /// The don't-fragment bit.
    pub dont_fragment: bool,
    /// Whether more fragments follow.
    pub more_fragments: bool,
    /// Offset of the fragment, in bytes: a multiple of 8.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated-services code point and ECN bits.
    pub traffic_class: u8,
}

impl Ipv4 {
    /// Appends the header with the right checksum for `payload` bytes.
    pub fn emit(&self, payload: usize, out: &mut Vec<u8>) {
        let start = out.len();
        // 0 is what segmentation offload leaves for a length that does not fit.
        let total = u16::try_from(payload + 20).unwrap_or(0);
        out.extend_from_slice(&[0x45, self.traffic_class]);
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        let bits = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        out.extend_from_slice(&(bits | (self.fragment_offset / 8)).to_be_bytes());
        out.extend_from_slice(&[self.ttl, self.protocol, 0, 0]);
        out.extend_from_slice(&self.source.octets());
        out.extend_from_slice(&self.destination.octets());
        let sum = Checksum::new().with(&out[start..]).finish();
        out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

impl fmt::Display for Ipv4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv4 {} > {} protocol {} ttl {}", self.source, self.destination, self.protocol, self.ttl)
    }
}

/// Reads a header; what is inside may be a fragment.
#[inline(always)]
pub(super) fn open(span: Span<'_>) -> Result<Inner<'_>, NotDecoded> {
    let header = span.header::<20>(Layer::Ipv4)?;
    if header[0] >> 4 != 4 {
        return Err(NotDecoded::IpVersion(header[0] >> 4));
    }
    let header_bytes = usize::from(header[0] & 15) * 4;
    let total = u32::from(be16(header, 2));
    let summed = header_bytes == 20 && total != 0 && total <= span.wire;
    // A frame captured before segmentation offload split it may have no length at all.
    let total = if total == 0 { span.wire } else { total };
    if header_bytes < 20 || total < header_bytes as u32 {
        return Err(NotDecoded::Malformed(Layer::Ipv4));
    }
    let fragment_bits = be16(header, 6);
    let (source, destination): (IpAddr, IpAddr) = (ipv4_at(header, 12).into(), ipv4_at(header, 16).into());
    let protocol = header[9];
    let more = fragment_bits & 0x2000 != 0;
    let offset = u32::from(fragment_bits & 0x1fff) * 8;
    Ok(Inner {
        source,
        destination,
        network: network(header),
        protocol,
        fragment: (more || offset != 0)
            .then(|| (FragmentKey { source, destination, id: be16(header, 4).into(), protocol }, offset, more)),
        payload: span.limit(total).skip(header_bytes),
        summed,
    })
}

/// What analysis needs of a header.
#[inline(always)]
pub(super) fn network(header: &[u8; 20]) -> Network {
    Network {
        ttl: header[8],
        id: Some(be16(header, 4)),
        dont_fragment: header[6] & 0x40 != 0,
        dscp: header[1] >> 2,
        ecn: ecn(header[1]),
        tunnels: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(source: u32, destination: u32, id: u16, ttl: u8, traffic_class: u8, dont_fragment: bool) {
            let ip = Ipv4 {
                source: source.into(), destination: destination.into(), protocol: 6, id, dont_fragment,
                more_fragments: false, fragment_offset: 0, ttl, traffic_class,
            };
            let mut out = Vec::new();
            ip.emit(3, &mut out);
            prop_assert_eq!(Checksum::new().with(&out).finish(), 0);
            out.extend_from_slice(b"abc and padding");
            let inner = open(Span::whole(&out)).unwrap();
            prop_assert_eq!((inner.source, inner.destination), (ip.source.into(), ip.destination.into()));
            prop_assert_eq!(inner.payload.data, b"abc");
            prop_assert_eq!((inner.network.ttl, inner.network.id, inner.network.dscp), (ttl, Some(id), traffic_class >> 2));
            prop_assert!(inner.fragment.is_none());
        }
    }

    #[test]
    fn lengths_that_contradict_are_malformed_and_no_length_means_the_frame() {
        let mut packet = vec![0x45, 0, 0, 19, 0, 0, 0, 0, 64, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(open(Span::whole(&packet)).err(), Some(NotDecoded::Malformed(Layer::Ipv4)));
        packet[3] = 0;
        let inner = open(Span { data: &packet, wire: 70_000 }).unwrap();
        assert_eq!(inner.payload.wire, 69_980);
        assert_eq!(open(Span { data: &packet[..19], wire: 40 }).err(), Some(NotDecoded::Truncated(Layer::Ipv4)));
    }
}
