//! What series are put together by.

use super::SeriesKey;
use crate::words;

/// What the series of one row have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// The peer's address.
    #[default]
    Peer,
    /// The program that sends.
    Program,
    /// The port of the service: the lower of the two.
    Port,
    /// The cgroup of the socket.
    Cgroup,
    /// The peer's address and both ports.
    Connection,
}

words! {
    GroupBy: Peer = "peer", Program = "program", Port = "port", Cgroup = "cgroup", Connection = "connection";
}

impl GroupBy {
    /// The next one; after the last the first.
    pub fn next(self) -> Self {
        let at = Self::ALL.into_iter().position(|by| by == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// The row that a series is in. `cgroup` gives the path of a cgroup.
    pub fn label(self, key: &SeriesKey, cgroup: &dyn Fn(u64) -> String) -> String {
        if key.overflow {
            return OVERFLOW.into();
        }
        let port = |port: Option<u16>| port.map_or_else(|| "-".into(), |port| port.to_string());
        let peer = || key.peer.map_or_else(|| UNKNOWN.into(), |peer| peer.to_string());
        match self {
            Self::Peer => peer(),
            Self::Program => key.program.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.into()),
            Self::Port => port(key.local_port.into_iter().chain(key.peer_port).min()),
            Self::Cgroup => key.cgroup.map_or_else(|| UNKNOWN.into(), cgroup),
            Self::Connection => {
                let ipv6 = key.peer.is_some_and(|peer| peer.address().is_ipv6());
                let peer = if ipv6 { format!("[{}]", peer()) } else { peer() };
                format!(":{} → {peer}:{}", port(key.local_port), port(key.peer_port))
            }
        }
    }
}

/// The row of sends that found no room for a series.
pub const OVERFLOW: &str = "(no room: other keys)";
/// Where a series does not say.
const UNKNOWN: &str = "(not known)";
