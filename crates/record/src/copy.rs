//! Copies of packets: their headers, with the socket and the process that they belong to.

use std::sync::Arc;

use crate::{ConnectionId, Direction, Instant, Monotonic, Owner, Realtime, SeqNumber, TcpFlags, words};

/// An interface that packets were copied on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// In which state the socket is.
    pub state: SocketState,
    /// Which way it went.
    pub direction: Direction,
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
