//! What a server listens on and allows.

use std::net::SocketAddr;

use crate::iperf3::Users;
use crate::limits::{Limits, token_matches};
use crate::tls::Identity;

/// What a server listens on and allows.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen, TCP and UDP; port 0 for any free one.
    pub listen: SocketAddr,
    /// What every client must give. A stock iperf3 client has no way to, and is refused unless it logs in.
    pub token: Option<String>,
    /// Who may ask for tests as iperf3 does, by a login. With a token too, either lets a client in.
    pub users: Option<Users>,
    /// With it, tests are asked for within TLS alone. A stock iperf3 client cannot, and is refused.
    pub tls: Option<Identity>,
    /// The bounds.
    pub limits: Limits,
    /// The ports (first, last) that workloads with a separate listener (`crr`) may take; any free one without.
    pub data_ports: Option<(u16, u16)>,
}

impl ServerConfig {
    /// Whether a client with this token, or none, is let in without a login.
    pub(crate) fn takes_token(&self, given: Option<&str>) -> bool {
        // A server that wants logins, and has no token, is closed to all without one.
        let open = self.token.is_none() && self.users.is_none();
        open || self.token.is_some() && token_matches(self.token.as_deref(), given)
    }

    /// On `listen`, without a token, with the default bounds.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, token: None, users: None, tls: None, limits: Limits::default(), data_ports: None }
    }
}
