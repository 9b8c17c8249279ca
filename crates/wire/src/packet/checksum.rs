//! The Internet checksum (RFC 1071), and TCP's and UDP's over their pseudo-header.

use std::net::IpAddr;

use super::ip_protocol;
use crate::segment::Integrity;

/// A sum being made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum {
    sum: u64,
}

impl Checksum {
    /// Of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// With `bytes` more. All but the last piece must have an even length.
    #[inline(always)]
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        // Words of 64 bits give the same sum as their quarters, in any byte order that is kept,
        // where a carry out of the upper end is added at the lower one (RFC 1071, section 2).
        let (blocks, rest) = bytes.as_chunks::<32>();
        // Four sums side by side: one alone waits for its own carry at each word.
        let mut others = [Self::new(); 3];
        for block in blocks {
            let ([first, words @ ..], _) = block.as_chunks::<8>() else { break };
            self.add(u64::from_ne_bytes(*first));
            for (sum, word) in others.iter_mut().zip(words) {
                sum.add(u64::from_ne_bytes(*word));
            }
        }
        for other in others {
            self.add(other.sum);
        }
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            self.add(u64::from_ne_bytes(*word));
        }
        let (pairs, last) = rest.as_chunks::<2>();
        for pair in pairs {
            self.add(u16::from_ne_bytes(*pair).into());
        }
        if let [last] = last {
            self.add(u16::from_ne_bytes([*last, 0]).into());
        }
        self
    }

    #[inline(always)]
    fn add(&mut self, word: u64) {
        let (sum, carry) = self.sum.overflowing_add(word);
        self.sum = sum + u64::from(carry);
    }

    /// What belongs in the checksum field; 0 where the bytes held a right checksum already.
    #[inline(always)]
    pub fn finish(self) -> u16 {
        !self.folded()
    }

    /// The sum in 16 bits, not complemented.
    #[inline(always)]
    fn folded(self) -> u16 {
        let halves = (self.sum & 0xffff_ffff) + (self.sum >> 32);
        let quarters = (halves & 0xffff) + (halves >> 16 & 0xffff) + (halves >> 32);
        let carried = (quarters & 0xffff) + (quarters >> 16);
        u16::from_be(((carried & 0xffff) + (carried >> 16)) as u16)
    }
}

#[inline(always)]
fn over(source: IpAddr, destination: IpAddr, protocol: u8, transport: &[u8]) -> Checksum {
    pseudo_header(source, destination, protocol, u32::try_from(transport.len()).unwrap_or(u32::MAX)).with(transport)
}

#[inline(always)]
fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: u32) -> Checksum {
    let mut sum = match (source, destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            // Both in one word: every segment of a capture comes through here.
            let [a, b] = [a, b].map(|address| u64::from(u32::from_ne_bytes(address.octets())));
            Checksum { sum: a << 32 | b }
        }
        (a, b) => {
            let sixteen = |address| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            Checksum::new().with(&sixteen(a)).with(&sixteen(b))
        }
    };
    sum.add(u64::from(length.to_be()) << 32 | u64::from(u32::from(protocol).to_be()));
    sum
}

/// What the checksum of a whole TCP segment of 20 bytes or more shows.
#[inline(always)]
pub(super) fn tcp_integrity(source: IpAddr, destination: IpAddr, tcp: &[u8]) -> Integrity {
    if over(source, destination, ip_protocol::TCP, tcp).finish() == 0 {
        return Integrity::Right;
    }
    not_right(source, destination, tcp)
}

/// Linux leaves the pseudo-header's sum with the length, Windows without it where the card will
/// split the packet, others 0.
#[cold]
fn not_right(source: IpAddr, destination: IpAddr, tcp: &[u8]) -> Integrity {
    let field = tcp.get(16..18).map_or(0, |f| u16::from_be_bytes([f[0], f[1]]));
    let length = u32::try_from(tcp.len()).unwrap_or(u32::MAX);
    let left = [length, 0].map(|length| pseudo_header(source, destination, ip_protocol::TCP, length).folded());
    if field == 0 || left.contains(&field) { Integrity::Offloaded } else { Integrity::Wrong }
}

/// The checksum of a TCP, UDP or ICMPv6 packet with 0 in its checksum field. For UDP 0 becomes
/// 0xffff (RFC 768).
pub fn transport_checksum(source: IpAddr, destination: IpAddr, protocol: u8, transport: &[u8]) -> u16 {
    match over(source, destination, protocol, transport).finish() {
        0 if protocol == ip_protocol::UDP => 0xffff,
        sum => sum,
    }
}

/// Whether the checksum of a whole TCP, UDP or ICMPv6 packet is right.
pub fn verify_transport(source: IpAddr, destination: IpAddr, protocol: u8, transport: &[u8]) -> bool {
    over(source, destination, protocol, transport).finish() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let sum = Checksum::new().with(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).finish();
        assert_eq!(sum, !0xddf2);
        assert_eq!(Checksum::new().with(&[0xab]).finish(), !0xab00);
    }

    #[test]
    fn offload_leaves_the_sum_of_the_pseudo_header_and_damage_leaves_none() {
        for (a, b) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
            let mut tcp =
                [&[0x12, 0x34, 0, 80, 0, 0, 0, 9, 0, 0, 0, 8, 0x50, 0x18, 1, 0, 0, 0, 0, 0][..], b"odd"].concat();
            let mut with = |field: u16| {
                tcp[16..18].copy_from_slice(&field.to_be_bytes());
                tcp_integrity(a, b, &tcp)
            };
            let (whole, split) = (pseudo_header(a, b, 6, 23).folded(), pseudo_header(a, b, 6, 0).folded());
            let offloaded = [with(0), with(whole), with(split)];
            assert_eq!(offloaded, [Integrity::Offloaded; 3]);
            let right = transport_checksum(a, b, 6, &{
                let mut t = tcp.clone();
                t[16..18].fill(0);
                t
            });
            for bit in 0..tcp.len() * 8 {
                tcp[16..18].copy_from_slice(&right.to_be_bytes());
                assert_eq!(tcp_integrity(a, b, &tcp), Integrity::Right);
                tcp[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(tcp_integrity(a, b, &tcp), Integrity::Wrong, "bit {bit}");
                tcp[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn a_written_checksum_verifies_and_a_changed_byte_does_not() {
        let (a, b): (IpAddr, IpAddr) = ("::1".parse().unwrap(), "::2".parse().unwrap());
        let mut udp = vec![0, 1, 0, 2, 0, 11, 0, 0, b'a', b'b', b'c'];
        let sum = transport_checksum(a, b, 17, &udp);
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        assert!(verify_transport(a, b, 17, &udp));
        udp[9] ^= 1;
        assert!(!verify_transport(a, b, 17, &udp));
    }
}
