//! Connections: a 4-tuple with its owner.

use std::fmt;
use std::net::SocketAddr;

use crate::table::{NO_END, set_address, set_port};
use crate::{Instant, Monotonic, Nanos, Owner, columns, words};

/// The kernel's socket cookie: unique for as long as the machine runs, so a reused port pair is
/// another connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a connection came to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// It existed before tracing began.
    Found,
    /// A traced process connected.
    Connected,
    /// A traced listener accepted it.
    Accepted,
}

words! { Opening: Found = "found", Connected = "connected", Accepted = "accepted"; }

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

/// What the kernel's own counters say of a connection while it was followed; independent of the
/// stamps, so it shows what share of the traffic the stamps cover.
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

columns! {
    Connection: "connections", "connection", blank = Connection {
        id: ConnectionId::default(),
        local: NO_END,
        remote: NO_END,
        owner: Owner::default(),
        opening: Opening::Found,
        since: Instant::from_nanos(0),
        congestion_control: String::new(),
    };
    connection_id = id, "the kernel's socket cookie: the name of the connection in all records", from "sk_cookie";
    pid = owner.pid, "process that owns it; 0 where that is not known", from "task_struct.tgid";
    comm = owner.comm, "name of its thread; what is not UTF-8 or is a control character is U+FFFD", from "task_struct.comm";
    local_address = |c| c.local.ip(), set |c, v| set_address(&mut c.local, v), "this host's IP address";
    local_port = |c| c.local.port(), set |c, v| set_port(&mut c.local, v), "this host's port", from "skc_num";
    remote_address = |c| c.remote.ip(), set |c, v| set_address(&mut c.remote, v), "the peer's IP address";
    remote_port = |c| c.remote.port(), set |c, v| set_port(&mut c.remote, v), "the peer's port", from "skc_dport";
    opening = opening, "`found`: it existed before tracing; otherwise who opened it";
    since_ns = since, "when it was picked up";
    congestion_control = congestion_control, "`cubic`, `bbr`, …", from "icsk_ca_ops.name";
}

/// A connection that is followed no more, with what the kernel counted on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedConnection {
    /// Which.
    pub connection: ConnectionId,
    /// What the kernel counted.
    pub totals: ConnectionTotals,
}

columns! {
    ClosedConnection: "totals", "closed",
        blank = ClosedConnection { connection: ConnectionId::default(), totals: ConnectionTotals::default() };
    connection_id = connection, "its connection";
    followed_ns = totals.followed, "how long it was followed";
    armed_ns = totals.armed, "of that, how long sends were observed";
    bytes_written = totals.bytes_written, "bytes that the application wrote meanwhile", from "write_seq";
    bytes_armed = totals.bytes_armed, "of these, bytes written while sends were observed", from "write_seq";
    bytes_acked = totals.bytes_acked, "bytes acknowledged meanwhile", from "bytes_acked";
    segments_retransmitted = totals.segments_retransmitted, "segments retransmitted meanwhile", from "total_retrans";
}
