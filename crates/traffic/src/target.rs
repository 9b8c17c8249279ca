//! Which server a workload asks, and how it is reached: the same for every workload.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::options::SocketOptions;

/// The server of a workload and the connections to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The server: `wirelapse serve`, and for bulk transfer `iperf3 -s` too.
    pub server: SocketAddr,
    /// Its token, where it wants one.
    pub token: Option<String>,
    /// The address to connect, or to send, from.
    pub local: Option<IpAddr>,
    /// Options of the workload's sockets, on both sides; those of TCP are for TCP alone.
    pub options: SocketOptions,
}

impl Target {
    /// A server without a token, reached as the kernel would.
    pub fn new(server: SocketAddr) -> Self {
        Self { server, token: None, local: None, options: SocketOptions::default() }
    }
}

impl From<SocketAddr> for Target {
    fn from(server: SocketAddr) -> Self {
        Self::new(server)
    }
}
