//! The Internet checksum (RFC 1071), and TCP's and UDP's over their pseudo-header.

use std::net::IpAddr;

use super::ip_protocol;

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
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        let mut pairs = bytes.chunks_exact(2);
        for pair in &mut pairs {
            self.sum += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
        if let [last] = pairs.remainder() {
            self.sum += u64::from(*last) << 8;
        }
        self
    }

    /// What belongs in the checksum field; 0 where the bytes held a right checksum already.
    pub fn finish(mut self) -> u16 {
        while self.sum > 0xffff {
            self.sum = (self.sum & 0xffff) + (self.sum >> 16);
        }
        !(self.sum as u16)
    }
}

fn over(source: IpAddr, destination: IpAddr, protocol: u8, transport: &[u8]) -> Checksum {
    let sum = match (source, destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Checksum::new().with(&a.octets()).with(&b.octets()),
        (a, b) => {
            let sixteen = |address| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            Checksum::new().with(&sixteen(a)).with(&sixteen(b))
        }
    };
    let length = u32::try_from(transport.len()).unwrap_or(u32::MAX);
    sum.with(&length.to_be_bytes()).with(&[0, protocol]).with(transport)
}

/// The checksum of a TCP, UDP or ICMPv6 packet with 0 in its checksum field. For UDP 0 becomes 0xffff (RFC 768).
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
