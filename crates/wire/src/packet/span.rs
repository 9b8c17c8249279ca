//! What is left of a packet below a header, and why a packet was not read to its end.

use std::fmt;

use crate::capture::LinkType;
use crate::tally::Class;

/// A part of a packet: the bytes that were captured, and how many there were on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The captured bytes, possibly fewer than `wire`.
    pub data: &'a [u8],
    /// Bytes on the wire.
    pub wire: u32,
}

impl<'a> Span<'a> {
    /// A part that was captured whole.
    pub fn whole(data: &'a [u8]) -> Self {
        Self { data, wire: u32::try_from(data.len()).unwrap_or(u32::MAX) }
    }

    /// What follows the first `count` bytes.
    #[inline]
    #[must_use]
    pub fn skip(self, count: usize) -> Self {
        Self { data: self.data.get(count..).unwrap_or_default(), wire: self.wire.saturating_sub(count as u32) }
    }

    /// The first `wire` bytes, as a length field says; what a capture holds beyond is padding. A
    /// field that claims more than the layer around it holds is not believed: some PPPoE gear
    /// counts Ethernet's padding into IP's length.
    #[inline]
    #[must_use]
    pub fn limit(self, wire: u32) -> Self {
        let wire = wire.min(self.wire);
        Self { data: self.data.get(..wire as usize).unwrap_or(self.data), wire }
    }

    /// All of it.
    ///
    /// # Errors
    /// [`Fault::Truncated`] where the capture kept less.
    pub(super) fn whole_data(&self) -> Result<&'a [u8], Fault> {
        if self.data.len() < self.wire as usize { Err(Fault::Truncated) } else { Ok(self.data) }
    }

    /// Why the bytes up to a place are not there.
    pub(super) fn fault_before(&self, to: usize) -> Fault {
        if to > self.wire as usize { Fault::Malformed } else { Fault::Truncated }
    }

    /// The fixed beginning of `layer`'s header.
    #[inline]
    pub(super) fn header<const N: usize>(&self, layer: Layer) -> Result<&'a [u8; N], NotDecoded> {
        match self.data.first_chunk::<N>() {
            Some(header) => Ok(header),
            None => Err(self.missing(N, layer)),
        }
    }

    /// Why `need` bytes of `layer` are not there: not captured, or not sent.
    #[cold]
    fn missing(&self, need: usize, layer: Layer) -> NotDecoded {
        if (self.wire as usize) < need { NotDecoded::Malformed(layer) } else { NotDecoded::Truncated(layer) }
    }
}

/// Why a message that a packet carries was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The capture kept too little of it.
    Truncated,
    /// It contradicts itself, or ends before its end.
    Malformed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Truncated => "message cut short by the capture",
            Self::Malformed => "malformed message",
        })
    }
}

/// A layer of a packet, for saying where it could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the protocol of its name")]
pub enum Layer {
    Ethernet,
    Vlan,
    Pppoe,
    Cooked,
    Loopback,
    Arp,
    Ipv4,
    Ipv6,
    Tcp,
    Udp,
    Icmp,
    Gre,
    Vxlan,
    Geneve,
    Gtp,
    Mpls,
    Ppp,
    Wireless,
    Erf,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ethernet => "Ethernet",
            Self::Vlan => "VLAN tag",
            Self::Pppoe => "PPPoE",
            Self::Cooked => "Linux cooked",
            Self::Loopback => "BSD loopback",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Icmp => "ICMP",
            Self::Gre => "GRE",
            Self::Vxlan => "VXLAN",
            Self::Geneve => "Geneve",
            Self::Gtp => "GTP-U",
            Self::Mpls => "MPLS",
            Self::Ppp => "PPP",
            Self::Wireless => "802.11",
            Self::Erf => "ERF",
        })
    }
}

/// Why a packet was not read down to TCP, UDP, ICMP or ARP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotDecoded {
    /// The capture kept too little of this header.
    Truncated(Layer),
    /// This header contradicts itself, or ends before its end.
    Malformed(Layer),
    /// A link type that is not read.
    LinkType(LinkType),
    /// An EtherType that is not read. Below 1,536 it is an 802.3 frame's length.
    EtherType(u16),
    /// A protocol over PPP that is not IP.
    PppProtocol(u16),
    /// An address family in a BSD loopback header that is not IP.
    AddressFamily(u32),
    /// A version of IP that is neither 4 nor 6.
    IpVersion(u8),
    /// A protocol over IP that is not read.
    IpProtocol(u8),
    /// A version of GRE that is not 0 (PPTP has 1).
    GreVersion(u8),
    /// A frame of 802.11 that carries no readable data: management, control, or none at all.
    Wireless,
    /// A frame that 802.11 encrypted.
    Encrypted,
    /// A type of ERF record that is not Ethernet.
    ErfType(u8),
    /// More tunnels, tags or extension headers within each other than are opened.
    Depth,
    /// A fragment kept until the rest of its packet comes.
    FragmentHeld,
    /// A fragment that could not be kept: see [`super::FragmentLosses`].
    FragmentLost,
}

impl NotDecoded {
    /// Truncated, malformed or unsupported; `None` for a fragment that is held, which is no fault.
    pub const fn class(self) -> Option<Class> {
        match self {
            Self::Truncated(_) => Some(Class::Truncated),
            Self::Malformed(_) | Self::FragmentLost => Some(Class::Malformed),
            Self::FragmentHeld => None,
            _ => Some(Class::Unsupported),
        }
    }
}

impl fmt::Display for NotDecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated(layer) => write!(f, "{layer} header cut short by the capture"),
            Self::Malformed(layer) => write!(f, "malformed {layer} header"),
            Self::LinkType(LinkType(number)) => write!(f, "link type {number}"),
            Self::EtherType(0x0806) => f.write_str("ARP"),
            Self::EtherType(0x8863) => f.write_str("PPPoE discovery"),
            Self::EtherType(0x88cc) => f.write_str("LLDP"),
            Self::EtherType(length @ 0..=1535) => write!(f, "802.3 frame of length {length}"),
            Self::EtherType(number) => write!(f, "EtherType {number:#06x}"),
            Self::PppProtocol(number) => write!(f, "PPP protocol {number:#06x}"),
            Self::AddressFamily(number) => write!(f, "address family {number}"),
            Self::IpVersion(number) => write!(f, "IP version {number}"),
            Self::IpProtocol(2) => f.write_str("IGMP"),
            Self::IpProtocol(50) => f.write_str("ESP (encrypted)"),
            Self::IpProtocol(89) => f.write_str("OSPF"),
            Self::IpProtocol(132) => f.write_str("SCTP"),
            Self::IpProtocol(number) => write!(f, "IP protocol {number}"),
            Self::GreVersion(number) => write!(f, "GRE version {number}"),
            Self::Wireless => f.write_str("802.11 frame without data"),
            Self::Encrypted => f.write_str("encrypted 802.11 frame"),
            Self::ErfType(number) => write!(f, "ERF record of type {number}"),
            Self::Depth => f.write_str("too many headers within each other"),
            Self::FragmentHeld => f.write_str("IP fragment held for the rest of its packet"),
            Self::FragmentLost => f.write_str("IP fragment that could not be put together"),
        }
    }
}
