//! A host's end of a link: which host, its interface and addresses.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use machine::netlink::Netlink;

use crate::anchor::Holder;
use crate::{Error, links};

/// Which of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Host `a`: 10.77.0.1 and fd77::1.
    A,
    /// Host `b`: 10.77.0.2 and fd77::2.
    B,
}

impl Side {
    /// Both, `a` first.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// `a` or `b`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// Its end of the one link of a lab.
    pub(crate) const fn address(self) -> Address {
        Address { link: 0, side: self, interface: 0 }
    }

    /// The host's IPv4 address (private, RFC 1918), the same in every lab: a /24.
    pub const fn ipv4(self) -> Ipv4Addr {
        self.address().ipv4()
    }

    /// The host's IPv6 address (unique local, RFC 4193), the same in every lab: a /64.
    pub const fn ipv6(self) -> Ipv6Addr {
        self.address().ipv6()
    }

    /// The hardware address (locally administered).
    pub const fn mac(self) -> [u8; 6] {
        self.address().mac()
    }
}

/// Which end of which link, and which interface of its host that is. Each link is a separate
/// network: 10.77.LINK.0/24 and fd77:LINK::/64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub link: u8,
    pub side: Side,
    pub interface: u8,
}

/// An end and the host that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'lab> {
    pub holder: &'lab Holder,
    pub address: Address,
}

impl Address {
    const fn number(self) -> u8 {
        self.side as u8 + 1
    }

    pub(crate) const fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.link, self.number())
    }

    pub(crate) const fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, self.link as u16, 0, 0, 0, 0, 0, self.number() as u16)
    }

    /// Locally administered.
    pub(crate) const fn mac(self) -> [u8; 6] {
        [0x02, 0x77, 0, 0, self.link, self.number()]
    }

    /// The interface's name in its host.
    pub(crate) fn interface(self) -> String {
        format!("eth{}", self.interface)
    }

    /// The other end; its interface is not known here.
    const fn peer(self) -> Self {
        Self { side: self.side.other(), ..self }
    }

    /// Gives the interface its addresses, and brings it and loopback up. Runs inside the host.
    pub(crate) fn configure(self, mtu: u32) -> io::Result<()> {
        let interface = self.interface();
        // No link-local address and no router solicitation: only the hosts' traffic is on the path.
        for (name, value) in [("addr_gen_mode", "1"), ("accept_ra", "0"), ("accept_dad", "0")] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/{name}"), value)?;
        }
        let mut netlink = Netlink::open()?;
        links::up(&mut netlink, links::index_of(c"lo")?)?;
        let link = links::index_of(&CString::new(interface)?)?;
        links::configure(&mut netlink, link, self.mac(), mtu)?;
        let peer = self.peer();
        for (own, other, prefix) in [
            (IpAddr::V4(self.ipv4()), IpAddr::V4(peer.ipv4()), 24),
            (IpAddr::V6(self.ipv6()), IpAddr::V6(peer.ipv6()), 64),
        ] {
            links::add_address(&mut netlink, link, own, prefix)?;
            links::add_neighbour(&mut netlink, link, other, peer.mac())?;
        }
        Ok(())
    }
}

impl End<'_> {
    /// Runs `task` on a thread inside the host's network namespace.
    pub(crate) fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, Error> {
        links::inside(&self.holder.net, task).map_err(Error::system("run inside a host"))
    }
}
