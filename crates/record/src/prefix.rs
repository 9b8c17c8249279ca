//! Networks of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of addresses: the first `bits` bits of an address, the rest zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpPrefix {
    address: IpAddr,
    bits: u8,
}

impl IpPrefix {
    /// The network of `address` with this many bits. An IPv4-mapped address is one of IPv4. More
    /// bits than an address has are held at the whole address: 32 or 128.
    pub fn new(address: IpAddr, bits: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let bits = bits.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                Self { address: Ipv4Addr::from_bits(v4.to_bits() & mask).into(), bits }
            }
            IpAddr::V6(v6) => {
                let bits = bits.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                Self { address: Ipv6Addr::from_bits(v6.to_bits() & mask).into(), bits }
            }
        }
    }

    /// The first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// The address, where it is one alone.
    pub fn host(self) -> Option<IpAddr> {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        (self.bits == whole).then_some(self.address)
    }

    /// How many bits its addresses share.
    pub fn bits(self) -> u8 {
        self.bits
    }
}

impl From<IpAddr> for IpPrefix {
    fn from(address: IpAddr) -> Self {
        Self::new(address, 128)
    }
}

/// `192.0.2.1`, or `192.0.2.0/24` where it is more than one address.
impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        if self.bits == whole { write!(f, "{}", self.address) } else { write!(f, "{}/{}", self.address, self.bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_cut_to_their_network() {
        for (address, bits, shown) in [
            ("192.0.2.77", 32, "192.0.2.77"),
            ("192.0.2.77", 24, "192.0.2.0/24"),
            ("192.0.2.77", 0, "0.0.0.0/0"),
            ("192.0.2.77", 200, "192.0.2.77"),
            ("::ffff:192.0.2.77", 24, "192.0.2.0/24"),
            ("2001:db8:1:2:3::4", 48, "2001:db8:1::/48"),
            ("2001:db8::1", 128, "2001:db8::1"),
            ("2001:db8::1", 0, "::/0"),
        ] {
            assert_eq!(IpPrefix::new(address.parse().unwrap(), bits).to_string(), shown, "{address}/{bits}");
        }
    }
}
