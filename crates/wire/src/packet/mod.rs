//! Protocols: one file each, with the parsed form of its header, how to read and write it, how to
//! show it, and its tests.

mod address;
mod arp;
mod checksum;
mod cooked;
mod dissect;
pub mod dns;
mod erf;
mod ethernet;
mod fragment;
mod geneve;
mod gre;
mod gtp;
mod icmp;
mod inner;
mod ipv4;
mod ipv6;
mod loopback;
mod mpls;
mod named;
mod numbered;
mod ppp;
mod pppoe;
pub mod quic;
mod span;
mod tcp;
pub mod tls;
mod udp;
mod vxlan;
mod wireless;

pub use arp::Arp;
pub use checksum::{Checksum, transport_checksum, verify_transport};
pub use cooked::{CookedV1, CookedV2};
pub use dissect::{DEEPEST, Packet, dissect, dissect_keeping};
pub(crate) use dissect::{Plain, descend, plain_segment};
pub use ethernet::{Ethernet, VlanTag};
pub use fragment::{FragmentLosses, Reassembly, Unfinished};
pub use gre::Gre;
pub use icmp::{EchoOf, Icmp, NeighbourOf, Quoted};
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use named::named;
pub use numbered::Numbered;
pub use span::{Fault, Layer, NotDecoded, Span};
pub use tcp::{OptionList, Tcp};
pub use udp::{Head, Udp};
pub use vxlan::Vxlan;

/// EtherTypes (IEEE 802 numbers) that are read here.
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// An 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// An 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// The number that switches used for stacked tags before 802.1ad.
    pub const OLD_SERVICE_VLAN: u16 = 0x9100;
    /// PPPoE, session stage (RFC 2516).
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// An Ethernet frame within GRE or VXLAN.
    pub const BRIDGED: u16 = 0x6558;
    /// MPLS, unicast.
    pub const MPLS: u16 = 0x8847;
    /// MPLS with labels assigned upstream (multicast).
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    /// Cisco FabricPath: an Ethernet frame follows.
    pub const FABRIC_PATH: u16 = 0x8903;
    /// ERSPAN type I or II within GRE.
    pub const ERSPAN_II: u16 = 0x88be;
    /// ERSPAN type III within GRE.
    pub const ERSPAN_III: u16 = 0x22eb;
}

/// IP protocol numbers (IANA) that are read here.
pub mod ip_protocol {
    /// IPv6's hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IPv4 within IP.
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 within IP.
    pub const IPV6: u8 = 41;
    /// IPv6's routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6's fragment header.
    pub const FRAGMENT: u8 = 44;
    /// GRE.
    pub const GRE: u8 = 47;
    /// The authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6's destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
}
