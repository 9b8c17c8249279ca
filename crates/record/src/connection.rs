//! Connections: a 4-tuple with its owner.

use std::fmt;
use std::net::SocketAddr;

use crate::{Instant, Monotonic, Nanos, Owner};

/// The kernel's socket cookie: unique for as long as the machine runs, so a reused port pair is another connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a connection came to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// It existed before tracing began.
    Found,
    /// A traced process connected.
    Connected,
    /// A traced listener accepted it.
    Accepted,
}

/// A TCP connection that is being followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The socket's cookie.
    pub id: ConnectionId,
    /// This host's end. IPv4-mapped addresses are given as IPv4.
    pub local: SocketAddr,
    /// The peer.
    pub remote: SocketAddr,
    /// Who owns the socket, as far as known when it was picked up.
    pub owner: Owner,
    /// How it was picked up.
    pub opening: Opening,
    /// When it was picked up.
    pub since: Instant<Monotonic>,
    /// The congestion control in use (`cubic`, `bbr`, …).
    pub congestion_control: String,
}

/// What the kernel's own counters say of a connection while it was followed; independent of the stamps, so it shows
/// what share of the traffic the stamps cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTotals {
    /// How long it was followed.
    pub followed: Nanos,
    /// Bytes the application wrote meanwhile (`write_seq`).
    pub bytes_written: u64,
    /// Of these, bytes written while the connection was armed.
    pub bytes_armed: u64,
    /// Bytes acknowledged meanwhile.
    pub bytes_acked: u64,
    /// Segments retransmitted meanwhile.
    pub segments_retransmitted: u32,
    /// How long it was armed.
    pub armed: Nanos,
}
