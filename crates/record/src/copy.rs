//! Copies of packets: their headers, with the socket and the process that they belong to.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::packet::{set_dropped_at, set_reason};
use crate::table::{Cell, Kind, NO_END, Value, set_address, set_port, text};
use crate::{
    ConnectionId, Direction, Dropped, Instant, Monotonic, Nanos, Owner, Realtime, SeqNumber, TcpFlags, WaitReason,
    columns, words,
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

/// The send that a packet carries: of several the first with bytes in it. A datagram of UDP is one
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedSend {
    /// Its number among the sends of its connection, or socket, that the trace has, from 1.
    pub number: u64,
    /// How many sends have bytes in the packet.
    pub sends: u32,
    /// The sequence number of its first byte; 0 for UDP.
    pub first_seq: SeqNumber,
    /// Its length in bytes.
    pub bytes: u32,
    /// Why it waited in TCP, and how long for that reason; `None` where that is not known.
    pub wait: Option<(WaitReason, Nanos)>,
}

/// When a packet passed each stage; `None` where the stage gave no stamp, or is of the other
/// direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyStages {
    /// The last byte of its send was in TCP's write queue, or the call came to UDP.
    pub send: Option<Instant<Monotonic>>,
    /// That byte, or the datagram, entered the packet scheduler.
    pub sched: Option<Instant<Monotonic>>,
    /// It was handed to the driver.
    pub driver: Option<Instant<Monotonic>>,
    /// It was on the wire.
    pub nic: Option<Instant<Monotonic>>,
    /// It was acknowledged.
    pub ack: Option<Instant<Monotonic>>,
    /// The NIC had received the packet, by its own clock.
    pub nic_rx: Option<Instant<Monotonic>>,
    /// The stack received the packet from the driver.
    pub driver_rx: Option<Instant<Monotonic>>,
    /// TCP, or UDP, took it for its socket.
    pub tcp_rx: Option<Instant<Monotonic>>,
    /// The socket was readable with it.
    pub ready: Option<Instant<Monotonic>>,
    /// The program had copied its last byte.
    pub read: Option<Instant<Monotonic>>,
}

/// What an ICMP error says: its type and code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyIcmp {
    /// The type.
    pub kind: u32,
    /// The code.
    pub code: u32,
}

/// Which piece of a datagram a fragment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyFragment {
    /// Where it begins in the payload of IP.
    pub offset: u32,
    /// The payload of the whole datagram in bytes; 0 where that is not known.
    pub datagram: u32,
}

/// A copy of a packet of a followed socket, or of an ICMP error that quotes one. With GSO or GRO it
/// is several segments on the wire.
///
/// What is known of it beyond its own bytes comes later, with the records that it belongs to: until
/// then it has no number, and its owner is what the kernel part knows of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketCopy {
    /// When IP handed it to the packet scheduler, or to its socket.
    pub at: Instant<Monotonic>,
    /// The socket's cookie.
    pub socket: ConnectionId,
    /// Whose the socket is; pid 0 where that is not known.
    pub owner: Owner,
    /// How that is known.
    pub known_by: KnownBy,
    /// The thread of that process that made the send, or read the bytes, by the number that the
    /// kernel has for it outside of containers. `None` where that is not known.
    pub thread: Option<u32>,
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
    /// What it says, where it is an ICMP error; both ends are those of the packet that it quotes.
    pub icmp: Option<CopyIcmp>,
    /// Which piece it is, where it is a fragment.
    pub fragment: Option<CopyFragment>,
    /// Whether IP cuts it up next, so that its fragments follow.
    pub is_cut: bool,
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
    /// Its number: the same as it leaves by one interface and arrives by another of this host. 0
    /// until what belongs to it is joined.
    pub id: u64,
    /// Whether it arrives by the loopback interface, and is the packet of the copy that comes
    /// before it.
    pub is_arrival: bool,
    /// Who got it, where its arrival follows.
    pub receiver: Option<CopyReceiver>,
    /// The send that it carries; `None` where there is none, or its record did not come in time.
    pub carried: Option<CarriedSend>,
    /// Its stages.
    pub stages: CopyStages,
    /// When and why it was dropped on this host, if it was.
    pub dropped: Option<Dropped>,
}

/// Who got a packet that stays on its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyReceiver {
    /// The socket that got it.
    pub socket: ConnectionId,
    /// When.
    pub at: Instant<Monotonic>,
    /// Whose that is; pid 0 where it is not known.
    pub owner: Owner,
    /// How that is known.
    pub known_by: KnownBy,
    /// When that process began, where it could still be asked for.
    pub owner_since: Option<Instant<Realtime>>,
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
        self.icmp.is_none() && !matches!(self.state, SocketState::Udp { .. })
    }

    /// Whether it is a datagram of UDP.
    pub fn is_udp(&self) -> bool {
        self.icmp.is_none() && !self.is_tcp()
    }
}

columns! {
    PacketCopy: "copies", "copy", blank = PacketCopy {
        at: Instant::from_nanos(0),
        socket: ConnectionId::default(),
        owner: Owner::default(),
        known_by: KnownBy::Unknown,
        thread: None,
        owner_since: None,
        cgroup: None,
        place: None,
        state: SocketState::Open,
        direction: Direction::Sent,
        icmp: None,
        fragment: None,
        is_cut: false,
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
        id: 0,
        is_arrival: false,
        receiver: None,
        carried: None,
        stages: CopyStages::default(),
        dropped: None,
    };
    at_ns = at, "IP handed it to the packet scheduler, or to its socket";
    packet_id = id, "its number: the same as it leaves by one interface and arrives by another, or the loopback interface, of this host";
    socket_id = socket, "the kernel's socket cookie: `connection_id` of TCP", from "sk_cookie";
    pid = owner.pid, "process that the socket is of, or that made the send; 0 where that is not known", from "task_struct.tgid";
    comm = owner.comm, "name of its thread", from "task_struct.comm";
    tid = thread, null "it is not known", "number, in the host's pid namespace, of the thread that made the send, or read the bytes (`--receive`)", from "task_struct.pid";
    known_by = known_by, "how the process is known ([packets.md](packets.md#whose-a-packet-is))";
    cgroup_id = cgroup, null "it is not known", "the kernel's number of the cgroup of its socket", from "kernfs_node.id";
    unit = |c| c.place.as_ref().and_then(|place| place.unit.clone()), set |c, v| set_unit(c, v),
        null "the cgroup is of no unit, or was gone", "the systemd unit that the cgroup is of";
    container_id = |c| c.place.as_ref().and_then(|place| place.container.clone()), set |c, v| set_container(c, v),
        null "the cgroup is of no container, or was gone", "the container that the cgroup is of";
    socket_state = state, "`udp`, `udp_held` (older than the trace); of TCP `listener` (the connection has no socket yet), `opening` (its SYN waits for the answer), `open`, `gone` (TIME_WAIT)";
    direction = direction, "which way it went";
    icmp_type = |c| c.icmp.map(|of| of.kind), set |c, v| set_icmp(c, v), null "it is no ICMP error",
        "type of an ICMP error that quotes a packet of the socket; both ends are then those of that packet", from "ICMP header";
    icmp_code = |c| c.icmp.map(|of| of.code), set |c, v| c.icmp.as_mut().map_or(Ok(()), |of| put(&mut of.code, v)), null "it is no ICMP error",
        "its code", from "ICMP header";
    fragment_offset = |c| c.fragment.map(|of| of.offset), set |c, v| set_fragment(c, v), null "it is no fragment",
        "where a fragment begins in the payload of IP, bytes; a datagram of which all fragments are rows is none itself", from "IP header";
    datagram_bytes = |c| c.fragment.map(|of| of.datagram), set |c, v| c.fragment.as_mut().map_or(Ok(()), |of| put(&mut of.datagram, v)),
        null "it is no fragment", "payload of the datagram that a fragment is a piece of";
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
    first_seq = first_seq, "TCP sequence number of its first byte; 0 for UDP and ICMP";
    flags = flags, "TCP flags, a letter each: `S`, `A`, `P`, `F`, `R`, `U`, `E`, `C`; empty for UDP", from "TCP header";
    segments = segments, "segments or datagrams on the wire: more than one with GSO and GRO", from "gso_segs";
    segment_bytes = segment_bytes, "payload of each of them but the last, where there are several", from "gso_size";
    checksum_pending = checksum_pending, "its checksum is still to be completed, by the NIC or by nobody (loopback)", from "skb.ip_summed";
    again = again, null "its sequence numbers were sent for the first time, or it was received",
        "why TCP sent it another time: `probe` (tail loss probe), `recovery` (fast recovery), `loss` (retransmission timeout)";
    missed = missed, "packets of its interface that were missed since the one before";
    send = |c| c.carried.map(|of| of.number), set |c, v| set_send(c, v), null "it carries none, or the record of that did not come within a second",
        "number of the first send with bytes in it, among those of its connection that the trace has, from 1; with `--udp`, of the datagram";
    sends = |c| c.carried.map(|of| of.sends), set |c, v| set_carried(c, |of| put(&mut of.sends, v)), null "as `send`",
        "how many sends have bytes in it";
    send_first_seq = |c| c.carried.map(|of| of.first_seq), set |c, v| set_carried(c, |of| put(&mut of.first_seq, v)), null "as `send`",
        "`first_seq` of that send; 0 for UDP";
    send_bytes = |c| c.carried.map(|of| of.bytes), set |c, v| set_carried(c, |of| put(&mut of.bytes, v)), null "as `send`",
        "bytes of that send";
    waited_for = |c| c.carried.and_then(|of| of.wait).map(|of| of.0), set |c, v| set_wait(c, v), null "it is not known",
        "what held that send back for the largest share of its time in TCP";
    waited_ns = |c| c.carried.and_then(|of| of.wait).map(|of| of.1), set |c, v| set_waited(c, v), null "it is not known",
        "the share that this accounts for";
    send_at_ns = stages.send, null "there is no stamp", "stage `send` of that send; with `--udp`, of the datagram";
    sched_at_ns = stages.sched, null "there is no stamp", "its stage `sched`, likewise";
    driver_at_ns = stages.driver, null "there is no stamp", "its stage `driver`, likewise";
    nic_at_ns = stages.nic, null "there is no stamp", "its stage `nic`";
    ack_at_ns = stages.ack, null "no ACK was seen", "its stage `ack`";
    nic_rx_at_ns = stages.nic_rx, null "it was sent, or the NIC gives no stamp for what it receives", "the NIC had received it, by its own clock", from "skb_hwtstamps";
    driver_rx_at_ns = stages.driver_rx, null "it was sent, or there is no stamp", "the stack received it from the driver (`--receive`, `--udp`)";
    tcp_rx_at_ns = stages.tcp_rx, null "it was sent, or there is no stamp", "TCP (`--receive`), or UDP (`--udp`), took it for its socket";
    ready_at_ns = stages.ready, null "it was sent, or there is no stamp", "the socket was readable with it, likewise";
    read_at_ns = stages.read, null "it was sent, or not read within a second", "the program had copied its last byte, likewise";
    dropped = |c| c.dropped.as_ref().map(|of| of.reason.clone()), set |c, v| set_reason(&mut c.dropped, v), null "it was not dropped, or the kernel does not say",
        "why the kernel dropped it on this host: the name in `enum skb_drop_reason`, or the number where it names none", from "kfree_skb";
    dropped_at_ns = |c| c.dropped.as_ref().map(|of| of.at), set |c, v| set_dropped_at(&mut c.dropped, v), null "as `dropped`",
        "when it was dropped", from "kfree_skb";
}

fn set_fragment(copy: &mut PacketCopy, value: Value<'_>) -> Result<(), &'static str> {
    copy.fragment = Option::from_value(value)?.map(|offset| CopyFragment { offset, datagram: 0 });
    Ok(())
}

fn set_icmp(copy: &mut PacketCopy, value: Value<'_>) -> Result<(), &'static str> {
    copy.icmp = Option::from_value(value)?.map(|kind| CopyIcmp { kind, code: 0 });
    Ok(())
}

/// The first of the fields of a send that is read back: the others follow.
fn set_send(copy: &mut PacketCopy, value: Value<'_>) -> Result<(), &'static str> {
    let blank = |number| CarriedSend { number, sends: 0, first_seq: SeqNumber::default(), bytes: 0, wait: None };
    copy.carried = Option::from_value(value)?.map(blank);
    Ok(())
}

fn set_carried(
    copy: &mut PacketCopy,
    set: impl FnOnce(&mut CarriedSend) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    copy.carried.as_mut().map_or(Ok(()), set)
}

fn set_wait(copy: &mut PacketCopy, value: Value<'_>) -> Result<(), &'static str> {
    let reason = Option::from_value(value)?;
    set_carried(copy, |of| {
        of.wait = reason.map(|reason| (reason, Nanos::ZERO));
        Ok(())
    })
}

fn set_waited(copy: &mut PacketCopy, value: Value<'_>) -> Result<(), &'static str> {
    let time = Option::from_value(value)?;
    set_carried(copy, |of| {
        if let (Some(wait), Some(time)) = (&mut of.wait, time) {
            wait.1 = time;
        }
        Ok(())
    })
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
