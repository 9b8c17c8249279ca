//! Which process, connection and peer a record belongs to.

use std::net::SocketAddr;

use record::Owner;

/// A connection's ends and its owner, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Local and remote end.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The process.
    pub owner: Option<Owner>,
}
