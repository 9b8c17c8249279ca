//! What series are put together by.

use crate::words;

/// What the series of one row have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// The peer's address.
    #[default]
    Peer,
    /// The peer's name; its address where no name is known.
    Name,
    /// The program that sends.
    Program,
    /// The process.
    Process,
    /// The systemd unit.
    Unit,
    /// The pod, or the container.
    Pod,
    /// The port of the service: the lower of the two.
    Port,
    /// The cgroup of the socket.
    Cgroup,
    /// The peer's address and both ports.
    Connection,
}

words! {
    GroupBy: Peer = "peer", Name = "name", Program = "program", Process = "process", Unit = "unit", Pod = "pod", Port = "port",
    Cgroup = "cgroup", Connection = "connection";
}

impl GroupBy {
    /// The next one; after the last the first.
    pub fn next(self) -> Self {
        let at = Self::ALL.into_iter().position(|by| by == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// The row of sends that found no room for a series.
pub const OVERFLOW: &str = "(no room: other keys)";
