//! Datagrams of UDP, one by one.

use std::net::SocketAddr;

use crate::packet::{between, set_dropped_at, set_reason};
use crate::table::{Cell, NO_END, Value, set_address, set_port};
use crate::{ConnectionId, Direction, Disorder, Dropped, Instant, Monotonic, Nanos, Owner, columns};

/// The moments of a datagram on this host. A stage without a stamp is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramStamps {
    /// Of one that was sent.
    Sent {
        /// The program's call came to UDP.
        send: Option<Instant<Monotonic>>,
        /// The datagram entered the packet scheduler.
        sched: Option<Instant<Monotonic>>,
        /// It was handed to the driver.
        driver: Option<Instant<Monotonic>>,
    },
    /// Of one that was received.
    Received {
        /// The driver handed it to the stack.
        driver_rx: Option<Instant<Monotonic>>,
        /// UDP took it for its socket.
        udp_rx: Option<Instant<Monotonic>>,
        /// It lay in the socket's queue, and the socket was readable.
        ready: Option<Instant<Monotonic>>,
        /// The program's call that read it came back.
        read: Option<Instant<Monotonic>>,
    },
}

/// A part of a datagram's time on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DatagramLeg {
    /// `send` → `sched`: UDP, IP, and copying.
    Udp,
    /// `sched` → `driver`: waiting in the packet scheduler.
    Qdisc,
    /// `driver_rx` → `ready`: the stack's work in softirq.
    Softirq,
    /// `ready` → `read`: waiting in the socket's queue until the program has it.
    Socket,
}

impl DatagramLeg {
    /// All legs, sending first.
    pub const ALL: [Self; 4] = [Self::Udp, Self::Qdisc, Self::Softirq, Self::Socket];

    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Qdisc => "qdisc",
            Self::Softirq => "softirq",
            Self::Socket => "socket",
        }
    }
}

/// A datagram that a followed socket sent or was sent. With UDP GSO or GRO it is several on the
/// wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The socket's cookie.
    pub socket: ConnectionId,
    /// Who owns the socket; for a received datagram that was read, who read it.
    pub owner: Owner,
    /// This host's end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// Its payload in bytes.
    pub bytes: u32,
    /// Datagrams on the wire: more than one with UDP GSO and GRO.
    pub segments: u32,
    /// Its stages.
    pub stamps: DatagramStamps,
    /// Where it was dropped on this host.
    pub dropped: Option<Dropped>,
}

impl Datagram {
    /// The time of a leg; `Ok(None)` where a stage of it is missing or belongs to the other
    /// direction.
    ///
    /// # Errors
    /// [`Disorder`] where the later stage has the earlier time.
    pub fn leg(&self, leg: DatagramLeg) -> Result<Option<Nanos>, Disorder> {
        match (leg, self.stamps) {
            (DatagramLeg::Udp, DatagramStamps::Sent { send, sched, .. }) => between(send, sched),
            (DatagramLeg::Qdisc, DatagramStamps::Sent { sched, driver, .. }) => between(sched, driver),
            (DatagramLeg::Softirq, DatagramStamps::Received { driver_rx, ready, .. }) => between(driver_rx, ready),
            (DatagramLeg::Socket, DatagramStamps::Received { ready, read, .. }) => between(ready, read),
            _ => Ok(None),
        }
    }

    /// Which way it went.
    pub const fn direction(&self) -> Direction {
        match self.stamps {
            DatagramStamps::Sent { .. } => Direction::Sent,
            DatagramStamps::Received { .. } => Direction::Received,
        }
    }

    /// The first moment that is known of it.
    pub fn first(&self) -> Option<Instant<Monotonic>> {
        let stamps = match self.stamps {
            DatagramStamps::Sent { send, sched, driver } => [send, sched, driver, None],
            DatagramStamps::Received { driver_rx, udp_rx, ready, read } => [driver_rx, udp_rx, ready, read],
        };
        stamps.into_iter().flatten().next().or(self.dropped.as_ref().map(|d| d.at))
    }
}

impl DatagramStamps {
    /// `send`, `sched`, `driver`; nothing of one that was received.
    fn sent(&self) -> [Option<Instant<Monotonic>>; 3] {
        match *self {
            Self::Sent { send, sched, driver } => [send, sched, driver],
            Self::Received { .. } => [None; 3],
        }
    }

    /// `driver_rx`, `udp_rx`, `ready`, `read`; nothing of one that was sent.
    fn received(&self) -> [Option<Instant<Monotonic>>; 4] {
        match *self {
            Self::Sent { .. } => [None; 4],
            Self::Received { driver_rx, udp_rx, ready, read } => [driver_rx, udp_rx, ready, read],
        }
    }

    fn set_direction(&mut self, value: Value<'_>) -> Result<(), &'static str> {
        *self = match Direction::from_value(value)? {
            Direction::Sent => Self::Sent { send: None, sched: None, driver: None },
            Direction::Received => Self::Received { driver_rx: None, udp_rx: None, ready: None, read: None },
        };
        Ok(())
    }

    fn set_sent(&mut self, stage: usize, value: Value<'_>) -> Result<(), &'static str> {
        if let Self::Sent { send, sched, driver } = self {
            *[send, sched, driver][stage] = Cell::from_value(value)?;
        }
        Ok(())
    }

    fn set_received(&mut self, stage: usize, value: Value<'_>) -> Result<(), &'static str> {
        if let Self::Received { driver_rx, udp_rx, ready, read } = self {
            *[driver_rx, udp_rx, ready, read][stage] = Cell::from_value(value)?;
        }
        Ok(())
    }
}

columns! {
    Datagram: "datagrams", "datagram", blank = Datagram {
        socket: ConnectionId::default(),
        owner: Owner::default(),
        local: NO_END,
        remote: NO_END,
        bytes: 0,
        segments: 0,
        stamps: DatagramStamps::Sent { send: None, sched: None, driver: None },
        dropped: None,
    };
    socket_id = socket, "the kernel's socket cookie", from "sk_cookie";
    pid = owner.pid, "process that made the socket; of a received datagram that was read, the one that read it", from "task_struct.tgid";
    comm = owner.comm, "name of its thread", from "task_struct.comm";
    local_address = |d| d.local.ip(), set |d, v| set_address(&mut d.local, v), "this host's IP address";
    local_port = |d| d.local.port(), set |d, v| set_port(&mut d.local, v), "this host's port";
    remote_address = |d| d.remote.ip(), set |d, v| set_address(&mut d.remote, v), "the peer's IP address";
    remote_port = |d| d.remote.port(), set |d, v| set_port(&mut d.remote, v), "the peer's port";
    direction = |d| d.direction(), set |d, v| d.stamps.set_direction(v), "which way it went";
    bytes = bytes, "payload";
    segments = segments, "datagrams on the wire: more than one with UDP GSO and GRO", from "gso_segs";
    send_at_ns = |d| d.stamps.sent()[0], set |d, v| d.stamps.set_sent(0, v),
        null "it was received, or its call was not seen ([receive.md](receive.md) says when)",
        "the call came to UDP, or (of connected sockets, where the kernel loads no fentry program) the system call began";
    sched_at_ns = |d| d.stamps.sent()[1], set |d, v| d.stamps.set_sent(1, v), null "it was received, or dropped before",
        "it entered the packet scheduler", from "net_dev_queue";
    driver_at_ns = |d| d.stamps.sent()[2], set |d, v| d.stamps.set_sent(2, v), null "it was received, or dropped before",
        "it was handed to the driver", from "net_dev_start_xmit";
    driver_rx_at_ns = |d| d.stamps.received()[0], set |d, v| d.stamps.set_received(0, v),
        null "it was sent, or the kernel gave no stamp", "the driver handed it to the stack", from "skb.tstamp";
    udp_rx_at_ns = |d| d.stamps.received()[1], set |d, v| d.stamps.set_received(1, v), null "it was sent, or dropped before",
        "UDP accepted it for its socket";
    ready_at_ns = |d| d.stamps.received()[2], set |d, v| d.stamps.set_received(2, v),
        null "it was sent or dropped, or another CPU queued it", "it was in the socket's queue", from "sk_data_ready";
    read_at_ns = |d| d.stamps.received()[3], set |d, v| d.stamps.set_received(3, v),
        null "it was sent, it was not read, or the read was missed", "the call that read it returned";
    udp_ns = |d| d.leg(DatagramLeg::Udp).ok().flatten(), null "a stage is missing, or the two are in an impossible order", "`send` to `sched`";
    qdisc_ns = |d| d.leg(DatagramLeg::Qdisc).ok().flatten(), null "as `udp_ns`", "`sched` to `driver`";
    softirq_ns = |d| d.leg(DatagramLeg::Softirq).ok().flatten(), null "as `udp_ns`", "`driver_rx` to `ready`";
    socket_ns = |d| d.leg(DatagramLeg::Socket).ok().flatten(), null "as `udp_ns`", "`ready` to `read`";
    dropped = |d| d.dropped.as_ref().map(|d| d.reason.clone()), set |d, v| set_reason(&mut d.dropped, v), null "it was not dropped",
        "why the kernel dropped it, as of a packet: `SOCKET_RCVBUFF` is a full socket", from "kfree_skb";
    dropped_at_ns = |d| d.dropped.as_ref().map(|d| d.at), set |d, v| set_dropped_at(&mut d.dropped, v), null "it was not dropped",
        "when it was dropped", from "kfree_skb";
}
