//! What a server listens on and allows.

use std::net::SocketAddr;

use crate::limits::Limits;

/// What a server listens on and allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where to listen, TCP and UDP; port 0 for any free one.
    pub listen: SocketAddr,
    /// What every client must give. A stock iperf3 client has no way to, and is refused.
    pub token: Option<String>,
    /// The bounds.
    pub limits: Limits,
    /// The ports (first, last) that workloads with a separate listener (`crr`) may take; any free one without.
    pub data_ports: Option<(u16, u16)>,
}

impl ServerConfig {
    /// On `listen`, without a token, with the default bounds.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, token: None, limits: Limits::default(), data_ports: None }
    }
}
