//! Reading numbers and addresses in network byte order from fixed headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Two bytes at `at` of a header of constant length: the bound is checked by the compiler where
/// `at` is constant.
#[inline(always)]
pub(super) fn be16(header: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// Four bytes at `at`.
#[inline(always)]
pub(super) fn be32(header: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// An IPv4 address at `at`.
#[inline(always)]
pub(super) fn ipv4_at(header: &[u8; 20], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3])
}

/// An IPv6 address at `at`.
#[inline(always)]
pub(super) fn ipv6_at(header: &[u8; 40], at: usize) -> IpAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[at..at + 16]);
    IpAddr::V6(Ipv6Addr::from(octets))
}
