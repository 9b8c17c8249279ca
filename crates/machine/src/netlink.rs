//! rtnetlink(7): requests about links, addresses and queues, each answered before the next.
//!
//! The `rtnetlink` crate is asynchronous, and a socket belongs to the network namespace of the
//! thread that opened it; a request and its answer on one thread are all that is needed here.

use std::io;

use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoMacVlan, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, MacVlanMode,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// `TCA_OPTIONS` of `<linux/rtnetlink.h>`.
const TCA_OPTIONS: u16 = 2;

/// The index of `lo`, the one device of a new network namespace.
pub const LOOPBACK: u32 = 1;

/// A conversation with the kernel about one network namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// In the calling thread's network namespace.
    ///
    /// # Errors
    /// Where the kernel gives no such socket.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks, with `flags` such as `NLM_F_CREATE`, and waits for the acknowledgement.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(message, NLM_F_ACK | flags)?;
        loop {
            let (reply, _) = self.socket.recv_from_full()?;
            if let Some(answered) = answer(&reply, self.sequence)? {
                return answered;
            }
        }
    }

    /// What the qdisc at the root of the device with this index has counted; `None` where the
    /// device has only the kernel's default.
    ///
    /// # Errors
    /// The kernel's refusal, or an answer that is no netlink message.
    pub fn root_queue(&mut self, index: u32) -> io::Result<Option<QueueCounts>> {
        let mut asked = TcMessage::default();
        asked.header.index = index as i32;
        self.send(RouteNetlinkMessage::GetQueueDiscipline(asked), NLM_F_DUMP)?;
        let (mut found, mut done) = (Vec::new(), false);
        while !done {
            let (reply, _) = self.socket.recv_from_full()?;
            done = queues(&reply, self.sequence, &mut found)?;
        }
        let at_root = |(of, parent, _): &(u32, TcHandle, QueueCounts)| *of == index && *parent == TcHandle::ROOT;
        Ok(found.into_iter().find(at_root).map(|(_, _, counts)| counts))
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        Ok(())
    }
}

/// What a qdisc has counted. All but the bytes wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Bytes that left it: Ethernet frames, with a header for each segment of a frame that is cut
    /// later.
    pub bytes: u64,
    /// Segments that left it.
    pub segments: u32,
    /// Bytes that wait in it.
    pub backlog: u32,
    /// Frames that wait in it.
    pub waiting: u32,
    /// Frames that it dropped.
    pub dropped: u32,
    /// How often a frame had to wait for the rate.
    pub held: u32,
}

/// Adds the disciplines that a datagram lists in answer to the request of this number, each with
/// its device and parent; whether the list ends with it.
///
/// # Errors
/// Where it is no netlink message, or the kernel refuses.
pub(crate) fn queues(
    mut datagram: &[u8],
    sequence: u32,
    found: &mut Vec<(u32, TcHandle, QueueCounts)>,
) -> io::Result<bool> {
    while !datagram.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram).map_err(io::Error::other)?;
        // Lengths are rounded up to four between messages. A length of zero would never end.
        let length = (message.header.length as usize).next_multiple_of(4).clamp(4, datagram.len().max(4));
        datagram = datagram.get(length..).unwrap_or_default();
        if message.header.sequence_number != sequence {
            continue;
        }
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(refused) => return Err(refused.to_io()),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(queue)) => {
                let mut counts = QueueCounts::default();
                let lists = queue.attributes.iter().filter_map(|attribute| match attribute {
                    TcAttribute::Stats2(list) => Some(list),
                    _ => None,
                });
                for statistic in lists.flatten() {
                    match statistic {
                        TcStats2::Basic(basic) => (counts.bytes, counts.segments) = (basic.bytes, basic.packets),
                        TcStats2::Queue(queue) => {
                            (counts.backlog, counts.waiting) = (queue.backlog, queue.qlen);
                            (counts.dropped, counts.held) = (queue.drops, queue.overlimits);
                        }
                        _ => {}
                    }
                }
                found.push((queue.header.index.cast_unsigned(), queue.header.parent, counts));
            }
            _ => {}
        }
    }
    Ok(false)
}

/// What a datagram of the kernel answers to the request of this number; `None` where it answers
/// another, or is no answer.
///
/// # Errors
/// Where it is no netlink message.
pub(crate) fn answer(datagram: &[u8], sequence: u32) -> io::Result<Option<io::Result<()>>> {
    let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram).map_err(io::Error::other)?;
    Ok(match reply.payload {
        NetlinkPayload::Error(answer) if reply.header.sequence_number == sequence => {
            Some(answer.code.map_or(Ok(()), |_| Err(answer.to_io())))
        }
        _ => None,
    })
}

/// Asks for a pair of veth devices, of which `peer` describes the other one.
pub fn veth(name: &str, peer: Vec<LinkAttribute>) -> RouteNetlinkMessage {
    let mut other = LinkMessage::default();
    other.attributes = peer;
    let info = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other)))];
    let mut link = LinkMessage::default();
    link.attributes = vec![LinkAttribute::IfName(name.into()), LinkAttribute::LinkInfo(info)];
    RouteNetlinkMessage::NewLink(link)
}

/// Asks for a macvlan device that takes every frame of the device with this index (mode
/// `passthru`).
pub fn macvlan(name: &str, lower: u32) -> RouteNetlinkMessage {
    let mode = InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Passthrough)]);
    let mut link = LinkMessage::default();
    link.attributes = vec![
        LinkAttribute::IfName(name.into()),
        LinkAttribute::Link(lower),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::MacVlan), LinkInfo::Data(mode)]),
    ];
    RouteNetlinkMessage::NewLink(link)
}

/// Asks for flags of the device with this index to be set, such as [`LinkFlags::Up`].
pub fn link_flags(index: u32, flags: LinkFlags) -> RouteNetlinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.header.flags = flags;
    link.header.change_mask = flags;
    RouteNetlinkMessage::SetLink(link)
}

/// Asks for a qdisc of this kind under `parent` of the device with this index. `options` is the
/// kind's own structure as `<linux/pkt_sched.h>` has it; empty for none.
pub fn qdisc(index: u32, kind: &str, handle: TcHandle, parent: TcHandle, options: Vec<u8>) -> RouteNetlinkMessage {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message.header.handle = handle;
    message.header.parent = parent;
    message.attributes = vec![TcAttribute::Kind(kind.into())];
    if !options.is_empty() {
        message.attributes.push(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options)));
    }
    RouteNetlinkMessage::NewQueueDiscipline(message)
}

/// Asks for a filter of this kind, for every protocol and with the highest preference, at `parent`
/// of the device with this index. `options` are the kind's own attributes as `<linux/pkt_cls.h>`
/// has them.
pub fn filter(index: u32, kind: &str, parent: TcHandle, options: Vec<u8>) -> RouteNetlinkMessage {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message.header.parent = parent;
    // Preference above, protocol below: ETH_P_ALL in network order.
    message.header.info = 1 << 16 | u32::from(3u16.to_be());
    message.attributes =
        vec![TcAttribute::Kind(kind.into()), TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, options))];
    RouteNetlinkMessage::NewTrafficFilter(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_kernel_is_its_error() {
        let mut netlink = Netlink::open().unwrap();
        let mut link = LinkMessage::default();
        link.header.index = i32::MAX as u32;
        let error = netlink.request(RouteNetlinkMessage::DelLink(link), 0).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
    }

    #[test]
    fn each_argument_of_a_qdisc_stands_in_its_own_field() {
        let at = |minor| TcHandle { major: 1, minor };
        let RouteNetlinkMessage::NewQueueDiscipline(message) = qdisc(7, "tbf", at(2), at(3), vec![4]) else {
            panic!("another request")
        };
        assert_eq!((message.header.index, message.header.handle, message.header.parent), (7, at(2), at(3)));
        let options = TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, vec![4]));
        assert_eq!(message.attributes, [TcAttribute::Kind("tbf".into()), options]);
    }
}
