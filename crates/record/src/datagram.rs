//! Datagrams of UDP, one by one.

use std::net::SocketAddr;

use crate::packet::between;
use crate::{ConnectionId, Disorder, Dropped, Instant, Monotonic, Nanos, Owner};

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

/// A datagram that a followed socket sent or was sent. With UDP GSO or GRO it is several on the wire.
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
    /// Where it was thrown away on this host.
    pub dropped: Option<Dropped>,
}

impl Datagram {
    /// The time of a leg; `Ok(None)` where a stage of it is missing or belongs to the other direction.
    ///
    /// # Errors
    /// [`Disorder`] where the later stage bears the earlier time.
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
    pub const fn direction(&self) -> crate::Direction {
        match self.stamps {
            DatagramStamps::Sent { .. } => crate::Direction::Sent,
            DatagramStamps::Received { .. } => crate::Direction::Received,
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
