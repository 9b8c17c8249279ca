//! Copies of packets: their headers, with the socket and the process that they belong to.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::table::{Cell, Kind, NO_END, Value, set_address, set_port, text};
use crate::{
    ConnectionId, Direction, Dropped, Instant, Monotonic, Owner, Realtime, SeqNumber, TcpFlags, columns, words,
};

/// An interface that packets were copied on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CopyInterface {
    /// Its name in its own network namespace; empty where that is not known.
    pub name: String,
    /// Its number there.
    pub number: u32,
    /// The inode number of its network namespace.
    pub network: u32,
    /// The name of that, as `ip netns` has it, where it is another than the tracer's and has one.
    pub network_name: Option<String>,
    /// Whether it is in the tracer's own network namespace.
    pub own: bool,
}

/// How the owner of a packet is known: by what the kernel saw a process do with the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KnownBy {
    /// It is not known.
    Unknown = 0,
    /// The process made the socket.
    Made = 1,
    /// The process connected it.
    Connected = 2,
    /// The process listens; who accepts the connection is not known yet.
    Listens = 3,
    /// The process has a descriptor of the socket, which is older than the trace.
    Held = 4,
    /// The process accepted the connection.
    Accepted = 5,
    /// The process was the first to use the connection, which somebody accepted.
    Used = 6,
    /// The process made the send that the packet carries.
    Sent = 7,
}

words! {
    KnownBy: Unknown = "unknown", Made = "made", Connected = "connected", Listens = "listens", Held = "held",
    Accepted = "accepted", Used = "used", Sent = "sent";
}

/// Why TCP sent bytes another time: the state that the sender was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Again {
    /// A tail loss probe (RFC 8985, section 7): nothing was taken for lost.
    Probe = 1,
    /// Fast recovery: ACKs showed that later bytes had arrived.
    Recovery = 2,
    /// The retransmission timer had run out (RFC 6298), or the path's MTU had become smaller.
    Loss = 3,
}

words! { Again: Probe = "probe", Recovery = "recovery", Loss = "loss"; }

/// What is known of the socket of a packet when that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// A socket of UDP.
    Udp {
        /// Whether it is older than the trace.
        held: bool,
    },
    /// A listener: the connection has no socket of its own yet.
    Listener,
    /// TCP waits for the answer to its SYN.
    Opening,
    /// Another state of TCP.
    Open,
    /// The socket is gone, and TCP answers in its place (`TIME_WAIT`).
    Gone,
}

impl SocketState {
    const NAMES: [(Self, &'static str); 6] = [
        (Self::Udp { held: false }, "udp"),
        (Self::Udp { held: true }, "udp_held"),
        (Self::Listener, "listener"),
        (Self::Opening, "opening"),
        (Self::Open, "open"),
        (Self::Gone, "gone"),
    ];
    const ALL_WORDS: [&'static str; Self::NAMES.len()] = {
        let (mut words, mut at) = ([""; Self::NAMES.len()], 0);
        while at < words.len() {
            words[at] = Self::NAMES[at].1;
            at += 1;
        }
        words
    };

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(state, _)| *state == self).map_or("", |(_, name)| name)
    }
}

impl Cell for SocketState {
    const KIND: Kind = Kind::Word;
    const WORDS: &'static [&'static str] = &Self::ALL_WORDS;
    fn value(&self) -> Value<'_> {
        Value::Text(Cow::Borrowed(self.name()))
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        let word = text(value)?;
        let named = Self::NAMES.into_iter().find(|(_, name)| *name == word);
        named.map(|(state, _)| state).ok_or("is no state of a socket")
    }
}

/// Whose cgroup a socket is in, as the path of that says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CopyPlace {
    /// The systemd unit.
    pub unit: Option<String>,
    /// The container's id.
    pub container: Option<String>,
}

/// A copy of a packet of a followed socket. With GSO or GRO it is several segments on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketCopy {
    /// When IP handed it to the packet scheduler, or to its socket.
    pub at: Instant<Monotonic>,
    /// The socket's cookie.
    pub socket: ConnectionId,
    /// Whose the socket is, as far as the kernel part knows; pid 0 where it does not.
    pub owner: Owner,
    /// When that process began, where it could still be asked for.
    pub owner_since: Option<Instant<Realtime>>,
    /// The kernel's id of the socket's cgroup, where it is known.
    pub cgroup: Option<u64>,
    /// What that cgroup is of, where it could still be asked for.
    pub place: Option<Arc<CopyPlace>>,
    /// In which state the socket is.
    pub state: SocketState,
    /// Which way it went.
    pub direction: Direction,
    /// This host's end; unspecified where the headers were not copied.
    pub local: SocketAddr,
    /// The peer's end, likewise.
    pub remote: SocketAddr,
    /// Where.
    pub interface: Arc<CopyInterface>,
    /// Its length, bytes from its IP header on.
    pub length: u32,
    /// The bytes that were copied, from its IP header on.
    pub bytes: Box<[u8]>,
    /// Sequence number of its first byte; 0 for UDP.
    pub first_seq: SeqNumber,
    /// Its payload in bytes.
    pub payload: u32,
    /// The TCP flags; none for UDP.
    pub flags: TcpFlags,
    /// Segments or datagrams on the wire: more than one with GSO and GRO.
    pub segments: u32,
    /// The payload of each of them but the last, where there are several.
    pub segment_bytes: u32,
    /// Whether the NIC, or nobody, completes the checksum.
    pub checksum_pending: bool,
    /// Why its sequence numbers had been sent before, if they had.
    pub again: Option<Again>,
    /// Packets of this interface that were missed since the copy before it.
    pub missed: u32,
    /// The kernel's own name of the packet while it is on its way through the stack: another packet
    /// may have it later.
    pub buffer: u64,
}

/// That a packet of a followed socket was dropped on this host after it had been copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDropped {
    /// The socket's cookie.
    pub socket: ConnectionId,
    /// The kernel's name of the packet: [`PacketCopy::buffer`].
    pub buffer: u64,
    /// When, and why.
    pub dropped: Dropped,
}

impl PacketCopy {
    /// The sequence number after its last byte; SYN and FIN take one each (RFC 9293, section 3.4).
    pub fn end_seq(&self) -> SeqNumber {
        let controls = u32::from(self.flags.syn()) + u32::from(self.flags.fin());
        SeqNumber(self.first_seq.0.wrapping_add(self.payload).wrapping_add(controls))
    }

    /// Whether it is of TCP.
    pub fn is_tcp(&self) -> bool {
        !matches!(self.state, SocketState::Udp { .. })
    }
}

columns! {
    PacketCopy: "copies", "copy", blank = PacketCopy {
        at: Instant::from_nanos(0),
        socket: ConnectionId::default(),
        owner: Owner::default(),
        owner_since: None,
        cgroup: None,
        place: None,
        state: SocketState::Open,
        direction: Direction::Sent,
        local: NO_END,
        remote: NO_END,
        interface: Arc::default(),
        length: 0,
        bytes: Box::default(),
        first_seq: SeqNumber::default(),
        payload: 0,
        flags: TcpFlags::default(),
        segments: 0,
        segment_bytes: 0,
        checksum_pending: false,
        again: None,
        missed: 0,
        buffer: 0,
    };
    at_ns = at, "IP handed it to the packet scheduler, or to its socket";
    socket_id = socket, "the kernel's socket cookie: `connection_id` of TCP", from "sk_cookie";
    pid = owner.pid, "process that the socket is known to be of by then; 0 where that is not known", from "task_struct.tgid";
    comm = owner.comm, "name of its thread", from "task_struct.comm";
    cgroup_id = cgroup, null "it is not known", "the kernel's number of the cgroup of its socket", from "kernfs_node.id";
    unit = |c| c.place.as_ref().and_then(|place| place.unit.clone()), set |c, v| set_unit(c, v),
        null "the cgroup is of no unit, or was gone", "the systemd unit that the cgroup is of";
    container_id = |c| c.place.as_ref().and_then(|place| place.container.clone()), set |c, v| set_container(c, v),
        null "the cgroup is of no container, or was gone", "the container that the cgroup is of";
    socket_state = state, "`udp`, `udp_held` (older than the trace); of TCP `listener` (the connection has no socket yet), `opening` (its SYN waits for the answer), `open`, `gone` (TIME_WAIT)";
    direction = direction, "which way it went";
    local_address = |c| c.local.ip(), set |c, v| set_address(&mut c.local, v), "this host's IP address";
    local_port = |c| c.local.port(), set |c, v| set_port(&mut c.local, v), "this host's port; 0 for a fragment that is not the first";
    remote_address = |c| c.remote.ip(), set |c, v| set_address(&mut c.remote, v), "the peer's IP address";
    remote_port = |c| c.remote.port(), set |c, v| set_port(&mut c.remote, v), "the peer's port";
    interface = |c| c.interface.name.clone(), set |c, v| set_interface(c, |of| put(&mut of.name, v)),
        "name of the interface in its network namespace; empty where that is not known", from "net_device.name";
    interface_index = |c| c.interface.number, set |c, v| set_interface(c, |of| put(&mut of.number, v)),
        "its number there", from "net_device.ifindex";
    network_namespace = |c| c.interface.network, set |c, v| set_interface(c, |of| put(&mut of.network, v)),
        "inode number of that namespace", from "net.ns.inum";
    length_bytes = length, "length from its IP header on", from "skb.len";
    bytes = payload, "payload";
    first_seq = first_seq, "TCP sequence number of its first byte; 0 for UDP";
    flags = flags, "TCP flags, a letter each: `S`, `A`, `P`, `F`, `R`, `U`, `E`, `C`; empty for UDP", from "TCP header";
    segments = segments, "segments or datagrams on the wire: more than one with GSO and GRO", from "gso_segs";
    segment_bytes = segment_bytes, "payload of each of them but the last, where there are several", from "gso_size";
    checksum_pending = checksum_pending, "its checksum is still to be completed, by the NIC or by nobody (loopback)", from "skb.ip_summed";
    again = again, null "its sequence numbers were sent for the first time, or it was received",
        "why TCP sent it another time: `probe` (tail loss probe), `recovery` (fast recovery), `loss` (retransmission timeout)";
    missed = missed, "packets of its interface that were missed since the one before";
}

fn set_unit(copy: &mut PacketCopy, value: Value<'_>) -> Result<(), &'static str> {
    let unit = Option::<String>::from_value(value)?;
    set_place(copy, unit.is_some(), |place| place.unit = unit);
    Ok(())
}

fn set_container(copy: &mut PacketCopy, value: Value<'_>) -> Result<(), &'static str> {
    let container = Option::<String>::from_value(value)?;
    set_place(copy, container.is_some(), |place| place.container = container);
    Ok(())
}

fn set_place(copy: &mut PacketCopy, is_known: bool, set: impl FnOnce(&mut CopyPlace)) {
    if is_known {
        set(Arc::make_mut(copy.place.get_or_insert_default()));
    }
}

fn put<T: Cell>(to: &mut T, value: Value<'_>) -> Result<(), &'static str> {
    *to = T::from_value(value)?;
    Ok(())
}

/// Changes what is known of the interface.
fn set_interface(
    copy: &mut PacketCopy,
    set: impl FnOnce(&mut CopyInterface) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    set(Arc::make_mut(&mut copy.interface))
}
