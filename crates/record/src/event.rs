//! What a tracer reports, one event after the other.

use crate::{Connect, Connection, ConnectionId, ConnectionTotals, Datagram, Head, Packet, Receive, Request, Send};

/// One thing that a tracer saw.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all events are sends: a box would be an allocation for each")]
pub enum Event {
    /// A connection is followed from here on. Comes before any send of it.
    Connection(Connection),
    /// A connection is established, or accepted: what is known of it so far.
    SetUp(Box<Connect>),
    /// An attempt to set up a connection is over, and so is the connection that came of it; or tracing is.
    Connect(Box<Connect>),
    /// A send is finished: acknowledged, or given up (then without an `ack` stamp).
    Send(Send),
    /// Received bytes were read, or never will be. They may come after the end of their connection, which a program may
    /// read from for as long as it holds the socket.
    Receive(Receive),
    /// A packet begins with what says what its connection carries. Comes before the sends and receives of its bytes, and can come before
    /// the connection itself.
    Head(Box<Head>),
    /// A request and its answer are over.
    Request(Box<Request>),
    /// A packet of TCP is done with: acknowledged, dropped, or given up.
    Packet(Box<Packet>),
    /// A datagram of UDP is done with: handed to the driver, read, dropped, or given up.
    Datagram(Box<Datagram>),
    /// A connection is followed no more.
    Closed {
        /// Which.
        connection: ConnectionId,
        /// What the kernel counted on it meanwhile.
        totals: ConnectionTotals,
    },
}
