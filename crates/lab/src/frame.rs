//! The little that the path reads of a frame: how many segments it stands for, how long each is on
//! the wire, and how to cut some of them out.
//!
//! A frame is what a TAP device gives: a `virtio_net_hdr` of 10 bytes, then Ethernet. Nothing here
//! panics on any bytes; a frame that cannot be read is one segment, passed whole.

use std::ops::Range;

use crate::ethernet::{ETHERNET_OVERHEAD, SMALLEST_ON_WIRE};

/// Length of the `virtio_net_hdr` before each frame.
pub const VIRTIO: usize = 10;
const ETHERNET: usize = 14;
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// A bit beside the type: the first segment has CWR.
const GSO_ECN: u8 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    V4,
    V6,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

/// What was read of one frame.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    network: Network,
    /// Set where the frame can be cut: the transport, and where its header begins.
    cut: Option<(Transport, usize)>,
    /// All headers of each segment, Ethernet's among them.
    headers: usize,
    payload: usize,
    /// Payload of each segment but the last.
    each: usize,
    segments: u32,
    ecn: u8,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

impl Shape {
    /// Of a frame with its `virtio_net_hdr`.
    pub fn read(frame: &[u8]) -> Self {
        let (virtio, bytes) = frame.split_at_checked(VIRTIO).unwrap_or((&[0; VIRTIO], frame));
        let (network, ecn) = match (be16(bytes, 12), bytes.get(ETHERNET), bytes.get(ETHERNET + 1)) {
            (Some(0x0800), Some(v), Some(tos)) if v >> 4 == 4 => (Network::V4, tos & 3),
            (Some(0x86dd), Some(v), Some(class)) if v >> 4 == 6 => (Network::V6, class >> 4 & 3),
            _ => (Network::Other, 0),
        };
        let whole = Self { network, cut: None, headers: bytes.len(), payload: 0, each: 0, segments: 1, ecn };
        Self::read_cut(virtio, bytes, whole).unwrap_or(whole)
    }

    fn read_cut(virtio: &[u8], bytes: &[u8], whole: Self) -> Option<Self> {
        let (flags, kind) = (*virtio.first()?, *virtio.get(1)? & !GSO_ECN);
        let each = usize::from(u16::from_ne_bytes(virtio.get(4..6)?.try_into().ok()?));
        let transport_at = usize::from(u16::from_ne_bytes(virtio.get(6..8)?.try_into().ok()?));
        if flags & NEEDS_CSUM == 0 || each == 0 {
            return None;
        }
        let ip_header = match whole.network {
            Network::V4 => usize::from(bytes.get(ETHERNET)? & 15) * 4,
            Network::V6 => 40,
            Network::Other => return None,
        };
        let (transport, length) = match kind {
            GSO_TCP4 | GSO_TCP6 => (Transport::Tcp, usize::from(bytes.get(transport_at + 12)? >> 4) * 4),
            GSO_UDP => (Transport::Udp, 8),
            _ => return None,
        };
        let headers = transport_at + length;
        let smallest = if transport == Transport::Tcp { 20 } else { 8 };
        if length < smallest || ip_header < 20 || transport_at < ETHERNET + ip_header {
            return None;
        }
        let payload = bytes.len().checked_sub(headers).filter(|p| *p > each)?;
        let segments = u32::try_from(payload.div_ceil(each)).ok()?;
        Some(Self { cut: Some((transport, transport_at)), headers, payload, each, segments, ..whole })
    }

    /// How many segments the frame is on the wire.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Whether its IP header has an ECN-capable codepoint that is not marked yet.
    pub fn markable(&self) -> bool {
        self.ecn == 1 || self.ecn == 2
    }

    /// A number that all segments of one flow have: from addresses, protocol and ports, and for
    /// fragments without the ports. `frame` is what this shape was read from.
    pub fn flow(&self, frame: &[u8]) -> u32 {
        let bytes = frame.get(VIRTIO..).unwrap_or_default();
        let part = |range: Range<usize>| bytes.get(range).unwrap_or_default();
        let (addresses, protocol, ports_at) = match self.network {
            Network::V4 => {
                let fragment = be16(bytes, ETHERNET + 6).is_none_or(|word| word & 0x3fff != 0);
                let header = usize::from(part(ETHERNET..ETHERNET + 1).first().copied().unwrap_or(0) & 15) * 4;
                (ETHERNET + 12..ETHERNET + 20, ETHERNET + 9, (!fragment).then_some(ETHERNET + header))
            }
            Network::V6 => (ETHERNET + 8..ETHERNET + 40, ETHERNET + 6, Some(ETHERNET + 40)),
            Network::Other => (0..14, 12, None),
        };
        let protocol = part(protocol..protocol + 1);
        let with_ports =
            matches!(protocol.first().copied().map(i32::from), Some(libc::IPPROTO_TCP | libc::IPPROTO_UDP));
        let ports = ports_at.filter(|_| with_ports).map_or(0..0, |at| at..at + 4);
        // FNV-1a, and a last mixing, because its high bits move least.
        let all = part(addresses).iter().chain(protocol).chain(part(ports));
        let hash = all.fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        (hash ^ hash >> 15).wrapping_mul(0x2c1b_3c6d)
    }

    /// Bytes of segment `index` on the wire, everything that Ethernet adds counted.
    pub fn on_wire(&self, index: u32) -> u32 {
        let range = self.payload_of(index..index + 1);
        let frame = (self.headers + range.len()).min(1 << 20) as u32;
        (frame + ETHERNET_OVERHEAD - ETHERNET as u32).max(SMALLEST_ON_WIRE)
    }

    fn payload_of(&self, segments: Range<u32>) -> Range<usize> {
        let at = |index: u32| (index as usize).saturating_mul(self.each).min(self.payload);
        at(segments.start)..at(segments.end)
    }

    /// A frame of the given segments alone, as if they had been sent by themselves; `marked` sets
    /// "congestion experienced". `frame` is what this shape was read from.
    pub fn piece(&self, frame: &[u8], segments: Range<u32>, marked: bool) -> Vec<u8> {
        let mut piece = match self.cut {
            Some((transport, at)) if segments != (0..self.segments) && !segments.is_empty() => {
                self.cut_out(frame, segments, transport, at).unwrap_or_else(|| frame.to_vec())
            }
            _ => frame.to_vec(),
        };
        if marked {
            self.mark(&mut piece);
        }
        piece
    }

    fn cut_out(&self, frame: &[u8], segments: Range<u32>, transport: Transport, at: usize) -> Option<Vec<u8>> {
        let range = self.payload_of(segments.clone());
        let headers = VIRTIO + self.headers;
        let mut piece = Vec::with_capacity(headers + range.len());
        piece.extend_from_slice(frame.get(..headers)?);
        piece.extend_from_slice(frame.get(headers + range.start..headers + range.end)?);
        // The kernel gives the bytes that lie together in its memory, which are more than the
        // headers where it forwards, and takes none that exceed the frame (`tun_get_user()`).
        piece[2..4].copy_from_slice(&u16::try_from(self.headers).ok()?.to_ne_bytes());
        if segments.len() == 1 {
            piece[1] = GSO_NONE;
            piece[4..6].fill(0);
        } else if segments.start > 0 {
            piece[1] &= !GSO_ECN;
        }
        let checksum_offset = usize::from(u16::from_ne_bytes([piece[8], piece[9]]));
        let bytes = &mut piece[VIRTIO..];
        let transport_length = self.headers - at + range.len();
        let addresses = match self.network {
            Network::V4 => {
                let id = be16(bytes, ETHERNET + 4)?.wrapping_add(segments.start as u16);
                let total = u16::try_from(at - ETHERNET + transport_length).ok()?;
                bytes[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
                bytes[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&id.to_be_bytes());
                correct_v4(bytes)?;
                ETHERNET + 12..ETHERNET + 20
            }
            Network::V6 => {
                let length = u16::try_from(at - ETHERNET - 40 + transport_length).ok()?;
                bytes[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
                ETHERNET + 8..ETHERNET + 40
            }
            Network::Other => return None,
        };
        let protocol = match transport {
            Transport::Tcp => {
                let skipped = (segments.start as usize).wrapping_mul(self.each) as u32;
                let seq = u32::from_be_bytes(bytes.get(at + 4..at + 8)?.try_into().ok()?).wrapping_add(skipped);
                bytes[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
                // FIN and PSH belong to the last segment, CWR to the first (the kernel's
                // tcp_gso_segment()).
                if segments.end < self.segments {
                    bytes[at + 13] &= !0x09;
                }
                if segments.start > 0 {
                    bytes[at + 13] &= !0x80;
                }
                libc::IPPROTO_TCP
            }
            Transport::Udp => {
                let length = u16::try_from(transport_length).ok()?;
                bytes.get_mut(at + 4..at + 6)?.copy_from_slice(&length.to_be_bytes());
                libc::IPPROTO_UDP
            }
        };
        // What the checksum field holds until it is computed: the sum of the pseudo-header, which
        // has the length in it.
        let mut sum = sum16(&bytes[addresses]) + protocol as u64 + transport_length as u64;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let field = at + checksum_offset;
        bytes.get_mut(field..field + 2)?.copy_from_slice(&(sum as u16).to_be_bytes());
        Some(piece)
    }

    fn mark(&self, piece: &mut [u8]) {
        let Some(bytes) = piece.get_mut(VIRTIO..) else { return };
        match (self.network, bytes.get_mut(ETHERNET + 1)) {
            (Network::V4, Some(tos)) => {
                *tos |= 3;
                // A header that is cut short has no checksum to correct.
                let _ = correct_v4(bytes);
            }
            (Network::V6, Some(class)) => *class |= 3 << 4,
            _ => {}
        }
    }
}

fn sum16(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|c| u64::from(c[0]) << 8 | c.get(1).map_or(0, |b| u64::from(*b))).sum()
}

/// Computes the checksum of the IPv4 header anew.
fn correct_v4(bytes: &mut [u8]) -> Option<()> {
    let end = ETHERNET + usize::from(*bytes.get(ETHERNET)? & 15) * 4;
    let header = bytes.get_mut(ETHERNET..end).filter(|h| h.len() >= 20)?;
    header[10..12].fill(0);
    let mut sum = sum16(header);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    Some(())
}
