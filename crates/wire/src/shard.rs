//! Connections divided among several readers of one capture.

use std::net::{SocketAddr, SocketAddrV4};

use crate::packet::dns;

/// Some of a capture's connections, chosen by their endpoints: readers that are given all
/// [`Shard::all`] of one count see each segment once, and both directions of a connection are seen
/// by the same reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    of: u32,
    seed: u64,
}

impl Shard {
    /// Everything.
    pub const WHOLE: Self = Self { index: 0, of: 1, seed: 0 };

    /// `of` parts of about the same size (one where `of` is 0). Which connection falls into which
    /// follows from the seed, so that no one who does not know it can put all into one.
    pub fn all(of: u32, seed: u64) -> impl Iterator<Item = Self> {
        let of = of.max(1);
        (0..of).map(move |index| Self { index, of, seed })
    }

    /// Whether this is everything.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.of == 1
    }

    /// Whether the connection between two endpoints is in it, whichever is named first.
    pub fn has(&self, a: SocketAddr, b: SocketAddr) -> bool {
        self.is_whole() || self.has_both(number(a), number(b))
    }

    /// [`Shard::has`] of two endpoints of IPv4, as nearly all packets have.
    #[inline(always)]
    pub(crate) fn has_v4(&self, a: SocketAddrV4, b: SocketAddrV4) -> bool {
        self.is_whole() || self.has_both(number_v4(a), number_v4(b))
    }

    #[inline(always)]
    fn has_both(&self, a: u64, b: u64) -> bool {
        // The sum does not change with the order. A sum with a seed, multiplied by an odd number,
        // spreads over the upper bits.
        let both = a.wrapping_add(b);
        let spread = (both ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The upper 32 bits as a fraction of one, in `of` parts (Lemire, "Fast random integer
        // generation in an interval").
        (((spread >> 32) * u64::from(self.of)) >> 32) as u32 == self.index
    }

    /// Whether it is the first one, which has what cannot be divided.
    pub(crate) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// Whether a datagram of DNS is in it. One to a group is answered by others than the group, so
    /// that the first shard has all of them.
    pub(crate) fn has_datagram(&self, a: SocketAddr, b: SocketAddr) -> bool {
        if a.port() == dns::PORT || b.port() == dns::PORT { self.has(a, b) } else { self.is_first() }
    }
}

fn number(end: SocketAddr) -> u64 {
    match end {
        SocketAddr::V4(end) => number_v4(end),
        SocketAddr::V6(end) => {
            let bits = end.ip().to_bits();
            // Other odd multipliers for each half keep what is only moved from one to the other
            // apart.
            ((bits >> 64) as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)
                ^ (bits as u64).wrapping_mul(0xa076_1d64_78bd_642f)
                ^ u64::from(end.port()) << 40
        }
    }
}

#[inline(always)]
fn number_v4(end: SocketAddrV4) -> u64 {
    u64::from(end.ip().to_bits()) ^ u64::from(end.port()) << 40
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_connection_is_in_one_part_both_ways(a: u128, b: u128, ports: (u16, u16), seed: u64, of in 1u32..9, v4: bool) {
            let ip = |n: u128| if v4 { IpAddr::V4((n as u32).into()) } else { IpAddr::V6(n.into()) };
            let (a, b) = (SocketAddr::new(ip(a), ports.0), SocketAddr::new(ip(b), ports.1));
            prop_assert_eq!(Shard::all(of, seed).filter(|p| p.has(a, b)).count(), 1);
            prop_assert!(Shard::all(of, seed).all(|p| p.has(a, b) == p.has(b, a)));
            if let (SocketAddr::V4(x), SocketAddr::V4(y)) = (a, b) {
                prop_assert!(Shard::all(of, seed).all(|p| p.has(a, b) == p.has_v4(x, y)));
            }
        }
    }

    #[test]
    fn parts_are_of_about_the_same_size() {
        for (seed, of) in [(1, 2), (0x1234_5678_9abc_def0, 2), (7, 3), (99, 4)] {
            let mut sizes = vec![0u32; of as usize];
            for n in 0..4_096u32 {
                let client = SocketAddr::from(([10, 0, (n >> 8) as u8, 1], 20_000 + (n & 255) as u16));
                let server = SocketAddr::from(([192, 0, 2, 1], 443));
                let i = Shard::all(of, seed).position(|p| p.has(client, server)).unwrap();
                sizes[i] += 1;
            }
            let fair = 4_096 / of;
            assert!(sizes.iter().all(|s| s.abs_diff(fair) < fair / 4), "{seed}: {sizes:?}");
        }
    }
}
