//! Which connections are traced.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// A network of addresses: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNet {
    address: IpAddr,
    bits: u8,
}

/// Text that is no network of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseIpNetError(String);

impl fmt::Display for ParseIpNetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no network: write an address, or ADDRESS/BITS as in 10.0.0.0/8", self.0)
    }
}

impl std::error::Error for ParseIpNetError {}

impl IpNet {
    /// The addresses that have the first `bits` bits of `address`; `None` where an address has not so many.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Self { address, bits })
    }

    /// Whether its addresses are those of IPv4, also where they are written as IPv4-mapped ones.
    pub(crate) fn is_ipv4(self) -> bool {
        match self.address {
            IpAddr::V4(_) => true,
            IpAddr::V6(v6) => self.bits >= 96 && v6.to_ipv4_mapped().is_some(),
        }
    }

    /// The network as a prefix of 128-bit addresses, IPv4 being IPv4-mapped.
    pub(crate) fn mapped(self) -> (u32, [u8; 16]) {
        let (bits, address): (u8, Ipv6Addr) = match self.address {
            IpAddr::V4(v4) => (self.bits + 96, v4.to_ipv6_mapped()),
            IpAddr::V6(v6) => (self.bits, v6),
        };
        (bits.into(), address.octets())
    }
}

impl fmt::Display for IpNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl From<IpAddr> for IpNet {
    fn from(address: IpAddr) -> Self {
        Self { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for IpNet {
    type Err = ParseIpNetError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = match text.split_once('/') {
            None => text.parse().ok().map(IpAddr::into),
            Some((address, bits)) => {
                address.parse().ok().zip(bits.parse().ok()).and_then(|(address, bits)| Self::new(address, bits))
            }
        };
        parsed.ok_or_else(|| ParseIpNetError(text.into()))
    }
}

/// Which connections are traced. Criteria of different kinds are ANDed, several of one kind ORed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Processes, and every process they start from now on.
    pub pids: Vec<u32>,
    /// A folder of the cgroup v2 hierarchy: sockets made in it or below it.
    pub cgroup: Option<PathBuf>,
    /// TCP ports, local or remote.
    pub ports: Vec<u16>,
    /// Peers.
    pub peers: Vec<IpNet>,
    /// Every TCP connection of the machine.
    pub all: bool,
}

impl Target {
    /// Whether no criterion is given at all: then only processes named later are traced ([`crate::Tracer::follow_pid`]).
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.cgroup.is_none() && self.ports.is_empty() && self.peers.is_empty() && !self.all
    }

    /// Whether processes are a criterion from the start.
    pub(crate) fn by_process(&self) -> bool {
        !self.pids.is_empty() || self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_read_back_and_refuse_the_rest() {
        for (text, shown, bits) in [
            ("10.0.0.0/8", "10.0.0.0/8", 104),
            ("192.0.2.1", "192.0.2.1/32", 128),
            ("2001:db8::/32", "2001:db8::/32", 32),
        ] {
            let net: IpNet = text.parse().unwrap();
            assert_eq!((net.to_string().as_str(), net.mapped().0), (shown, bits));
        }
        for bad in ["", "10.0.0.0/33", "x/8", "10.0.0.0/", "::/129", "10.0.0/8"] {
            assert!(bad.parse::<IpNet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn mapped_addresses_are_ipv4_and_wider_networks_are_not() {
        let ipv4 = |text: &str| text.parse::<IpNet>().unwrap().is_ipv4();
        assert!(ipv4("0.0.0.0/0") && ipv4("10.0.0.0/8") && ipv4("::ffff:10.0.0.0/104") && ipv4("::ffff:0.0.0.0/96"));
        assert!(!ipv4("::/0") && !ipv4("::ffff:0.0.0.0/95") && !ipv4("2001:db8::/32"));
    }

    #[test]
    fn an_empty_target_is_seen() {
        assert!(Target::default().is_empty());
        assert!(!Target { all: true, ..Target::default() }.is_empty());
    }
}
