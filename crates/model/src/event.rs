//! What a tracer tells, one after the other.

use crate::{Connection, ConnectionId, ConnectionTotals, Send};

/// One thing that a tracer saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is followed from here on. Comes before any send of it.
    Connection(Connection),
    /// A send is finished: acknowledged, or given up (then without an `ack` stamp).
    Send(Send),
    /// A connection is followed no more.
    Closed {
        /// Which.
        connection: ConnectionId,
        /// What the kernel counted on it meanwhile.
        totals: ConnectionTotals,
    },
}
