//! Which connections are traced.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
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
    /// The addresses that have the first `bits` bits of `address`; `None` where an address has not
    /// so many.
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

    /// Whether an address is in it. IPv4 addresses are in networks of IPv4 alone.
    fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let (bits, network) = self.mapped();
        let of = Self::from(address).mapped().1;
        let differ = u128::from_be_bytes(network) ^ u128::from_be_bytes(of);
        self.is_ipv4() == address.is_ipv4() && differ.checked_shr(128 - bits).unwrap_or(0) == 0
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

/// Ports from the first to the last of a range: `443`, `8000-8100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// Text that is no port and no range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePortRangeError(String);

impl fmt::Display for ParsePortRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no port: write a number from 1 to 65535, or a range as in 8000-8100", self.0)
    }
}

impl std::error::Error for ParsePortRangeError {}

impl PortRange {
    /// Whether a port is in it.
    fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Every port of the range, in order.
    pub(crate) fn each(self) -> impl Iterator<Item = u16> {
        self.first..=self.last
    }
}

impl From<u16> for PortRange {
    fn from(port: u16) -> Self {
        Self { first: port, last: port }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl FromStr for PortRange {
    type Err = ParsePortRangeError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0);
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(ParsePortRangeError(text.into())),
        }
    }
}

/// Which connections are traced. Criteria of different kinds are ANDed, several of one kind ORed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Processes, and every process they start from now on.
    pub pids: Vec<u32>,
    /// Processes with one of these names, those that take it later, and every process that they
    /// start. The kernel keeps 15 bytes of a name, so only as many are compared.
    pub comms: Vec<String>,
    /// Folders of the cgroup v2 hierarchy: sockets made in one of them or below it. In these and
    /// the next two, `*` stands for any characters but `/`, and `?` for one. They are rules: what
    /// they name is followed as it comes and goes.
    pub cgroups: Vec<PathBuf>,
    /// systemd units, likewise.
    pub units: Vec<String>,
    /// Containers and pods, likewise.
    pub containers: Vec<String>,
    /// Below which folder the names of containers are read; `None` for `/`.
    pub root: Option<PathBuf>,
    /// Whether what cgroups, units and containers name may be missing at the start.
    pub awaited: bool,
    /// TCP ports, local or remote.
    pub ports: Vec<PortRange>,
    /// Peers.
    pub peers: Vec<IpNet>,
    /// Every TCP connection of the machine.
    pub all: bool,
}

impl Target {
    /// Whether no criterion is given at all: then only processes named later are traced
    /// ([`crate::Tracer::follow_pid`]).
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty()
            && self.comms.is_empty()
            && !self.by_cgroup()
            && self.ports.is_empty()
            && self.peers.is_empty()
            && !self.all
    }

    /// Whether its ports and peers are those of a connection with these ends.
    pub(crate) fn matches_addresses(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let port = |port: u16| self.ports.iter().any(|ports| ports.contains(port));
        (self.ports.is_empty() || port(local.port()) || port(remote.port()))
            && (self.peers.is_empty() || self.peers.iter().any(|peer| peer.contains(remote.ip())))
    }

    /// Whether cgroups are a criterion.
    pub fn by_cgroup(&self) -> bool {
        !(self.cgroups.is_empty() && self.units.is_empty() && self.containers.is_empty())
    }

    /// Whether processes are a criterion from the start.
    pub(crate) fn by_process(&self) -> bool {
        !self.pids.is_empty() || !self.comms.is_empty() || self.is_empty()
    }

    /// The names of processes as the kernel keeps them: 15 bytes and a zero.
    pub(crate) fn names(&self) -> impl Iterator<Item = [u8; 16]> {
        self.comms.iter().map(|comm| {
            let mut name = [0; 16];
            for (to, from) in name[..15].iter_mut().zip(comm.bytes()) {
                *to = from;
            }
            name
        })
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
    fn ports_read_back_and_refuse_the_rest() {
        for (text, n) in [("443", 1), ("8000-8100", 101), ("1-65535", 65_535), ("7-7", 1)] {
            let ports: PortRange = text.parse().unwrap();
            assert_eq!(ports.each().count(), n);
            assert_eq!(ports.to_string(), if text == "7-7" { "7" } else { text });
        }
        for bad in ["", "0", "65536", "9-8", "1-", "-1", "80,443", "a-b", "0-5"] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_compared_as_the_kernel_keeps_them() {
        let target = Target { comms: vec!["nginx".into(), "a-name-of-more-than-15".into()], ..Target::default() };
        let names: Vec<_> = target.names().collect();
        assert_eq!(&names[0][..6], b"nginx\0");
        assert_eq!(&names[1], b"a-name-of-more-\0");
        assert!(target.by_process() && !target.is_empty());
    }

    #[test]
    fn ends_match_by_port_of_either_and_by_peer() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let target = |ports: Vec<u16>, peers: &[&str]| Target {
            ports: ports.into_iter().map(PortRange::from).collect(),
            peers: peers.iter().map(|peer| peer.parse().unwrap()).collect(),
            ..Target::default()
        };
        let matches = |target: Target| target.matches_addresses(at("192.0.2.1:80"), at("192.0.2.9:40000"));
        assert!(matches(target(vec![], &[])) && matches(target(vec![80], &[])) && matches(target(vec![40000], &[])));
        assert!(!matches(target(vec![81], &[])) && !matches(target(vec![80], &["192.0.2.1"])));
        assert!(matches(target(vec![80], &["::/0", "192.0.2.8/29"])) && !matches(target(vec![80], &["::/0"])));
        assert!(matches(target(vec![], &["0.0.0.0/0"])));
    }

    #[test]
    fn an_empty_target_is_seen() {
        assert!(Target::default().is_empty());
        assert!(!Target { all: true, ..Target::default() }.is_empty());
    }
}
