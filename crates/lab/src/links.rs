//! Links, addresses and neighbours of a host, by rtnetlink. Every call acts on the network
//! namespace of its thread.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use machine::netlink::{Netlink, link_flags};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::netdevice::name_to_index;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::direction::Direction;
use crate::ethernet::ETHERNET_OVERHEAD;
use crate::report::{Achieved, DirectionReport};

/// Sets the MTU and the hardware address of a link, takes address resolution off it (the neighbour
/// is given, so only the hosts' traffic is on the path), and brings it up.
pub(crate) fn configure(netlink: &mut Netlink, index: u32, mac: [u8; 6], mtu: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.attributes = vec![LinkAttribute::Address(mac.to_vec()), LinkAttribute::Mtu(mtu)];
    netlink.request(RouteNetlinkMessage::SetLink(link), 0)?;
    netlink.request(link_flags(index, LinkFlags::Up | LinkFlags::Noarp), 0)
}

/// Brings a link up.
pub(crate) fn up(netlink: &mut Netlink, index: u32) -> io::Result<()> {
    netlink.request(link_flags(index, LinkFlags::Up), 0)
}

/// Adds an address that is usable at once (no duplicate detection) and brings the route to its
/// prefix.
pub(crate) fn add_address(netlink: &mut Netlink, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    add_address_to(netlink, index, address, address, prefix)
}

/// The same with the route to the prefix of `peer` instead.
pub(crate) fn add_address_to(
    netlink: &mut Netlink,
    index: u32,
    address: IpAddr,
    peer: IpAddr,
    prefix: u8,
) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.family = family(address);
    message.header.prefix_len = prefix;
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(peer)];
    netlink.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
}

/// Sets the neighbour's hardware address permanently.
pub(crate) fn add_neighbour(netlink: &mut Netlink, index: u32, address: IpAddr, mac: [u8; 6]) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = index;
    message.header.family = family(address);
    message.header.state = NeighbourState::Permanent;
    let destination = match address {
        IpAddr::V4(a) => NeighbourAddress::Inet(a),
        IpAddr::V6(a) => NeighbourAddress::Inet6(a),
    };
    message.attributes =
        vec![NeighbourAttribute::Destination(destination), NeighbourAttribute::LinkLayerAddress(mac.to_vec())];
    netlink.request(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
}

/// A route to a network, of which `to` has an address and the length of the prefix, by a neighbour.
pub(crate) fn add_route(netlink: &mut Netlink, index: u32, to: (IpAddr, u8), by: IpAddr) -> io::Result<()> {
    let route = |address: IpAddr| match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    };
    let network = match to.0 {
        IpAddr::V4(a) => IpAddr::V4((u32::from(a) & u32::MAX << (32 - u32::from(to.1))).into()),
        IpAddr::V6(a) => IpAddr::V6((u128::from(a) & u128::MAX << (128 - u32::from(to.1))).into()),
    };
    let mut message = RouteMessage::default();
    message.header.address_family = family(network);
    message.header.destination_prefix_length = to.1;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![
        RouteAttribute::Destination(route(network)),
        RouteAttribute::Gateway(route(by)),
        RouteAttribute::Oif(index),
    ];
    netlink.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
}

/// A route to everywhere by a link alone, of the family of `any`.
pub(crate) fn add_default_route(netlink: &mut Netlink, index: u32, any: IpAddr) -> io::Result<()> {
    let mut message = RouteMessage::default();
    message.header.address_family = family(any);
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![RouteAttribute::Oif(index)];
    netlink.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The index of the link called `name` in the calling thread's network namespace.
pub(crate) fn index_of(name: &std::ffi::CStr) -> io::Result<u32> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    Ok(name_to_index(&socket, &name.to_string_lossy())?)
}

/// Runs `task` on a thread inside the network namespace `net`.
pub(crate) fn inside<T: Send>(net: &OwnedFd, task: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("lab-inside".into());
        let worker = worker.spawn_scoped(scope, move || {
            move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(task())
        })?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What the path's device in a host counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub received_bytes: u64,
    pub received_frames: u64,
    pub sent_frames: u64,
    /// Frames that were to be sent and were dropped instead.
    pub missed_frames: u64,
}

/// The counters of a path's device in the network namespace `net`; zeros where there is no device
/// any more.
pub(crate) fn counters(net: &OwnedFd, interface: &str) -> Counters {
    let table = inside(net, || std::fs::read_to_string("/proc/thread-self/net/dev"));
    table.and_then(|t| t).ok().and_then(|t| parse_counters(&t, interface)).unwrap_or_default()
}

/// What a direction reports where the path is devices of the kernel's: what `interface` of the
/// sending and of the receiving host counted.
pub(crate) fn report_of_devices(
    asked: Direction,
    changes: u64,
    nets: [&OwnedFd; 2],
    interface: &str,
) -> DirectionReport {
    let [sent, got] = nets.map(|net| counters(net, interface));
    let achieved = Achieved {
        frames: sent.sent_frames,
        offered: sent.sent_frames,
        delivered: got.received_frames,
        bytes: got.received_bytes,
        wire_bytes: got.received_bytes + got.received_frames * u64::from(ETHERNET_OVERHEAD - 14),
        ..Achieved::default()
    };
    DirectionReport {
        asked,
        overhead: None,
        probes: None,
        changes,
        achieved: Some(achieved),
        steps: Vec::new(),
        steps_refused: 0,
    }
}

/// Eight receive columns and eight transmit columns: bytes, packets, errors, drops, … (proc(5)).
fn parse_counters(table: &str, interface: &str) -> Option<Counters> {
    let line = table.lines().find_map(|l| l.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let column: Vec<u64> = line.split_whitespace().map_while(|c| c.parse().ok()).collect();
    Some(Counters {
        received_bytes: *column.first()?,
        received_frames: *column.get(1)?,
        sent_frames: *column.get(9)?,
        missed_frames: *column.get(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_their_columns() {
        let table =
            "Inter-| Receive\n face |bytes\n    lo: 1 2\n  eth0:  10 11 12 13 14 15 16 17 20 21 22 23 24 25 26 27\n";
        let counted = Counters { received_bytes: 10, received_frames: 11, sent_frames: 21, missed_frames: 23 };
        assert_eq!(parse_counters(table, "eth0"), Some(counted));
        assert_eq!(parse_counters("eth0: 1 2 3", "eth0"), None);
    }
}
