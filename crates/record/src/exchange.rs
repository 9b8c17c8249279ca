//! A datagram of UDP and its answer: what a screen shows, and no run keeps.

use std::net::SocketAddr;

use crate::{ConnectionId, Instant, Monotonic, Nanos, Owner, Role};

/// A datagram that the next one answered, or the beginning of a connection of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The socket.
    pub socket: ConnectionId,
    /// Who made it.
    pub owner: Owner,
    /// The kernel's id of its cgroup.
    pub cgroup: Option<u64>,
    /// Its end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Which end was traced: the one that asked, or the other.
    pub role: Role,
    /// When the datagram passed.
    pub asked: Instant<Monotonic>,
    /// From there to its answer; of QUIC, to the first packet that a client can send once the
    /// handshake is over. `None` for a handshake that has only begun.
    pub took: Option<Nanos>,
    /// Whether it is of QUIC, and so a handshake.
    pub is_quic: bool,
    /// How many exchanges of the socket it stands for, itself among them.
    pub times: u32,
}
