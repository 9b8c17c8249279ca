//! What a server listens on and allows.

use std::net::SocketAddr;

use crate::iperf3::Users;
use crate::limits::{Limits, Refusal, token_matches};
use crate::timing;
use crate::tls::Identity;

/// What a client shows.
pub(crate) struct Shown<'a> {
    /// Whether it asks within TLS.
    pub within_tls: bool,
    /// Its token.
    pub token: Option<&'a str>,
    /// Its login, in a protocol that has them.
    pub login: Option<Login<'a>>,
}

/// A login of iperf3, or that none was given.
#[derive(Clone, Copy)]
pub(crate) struct Login<'a>(pub Option<&'a str>);

/// What a server listens on and allows.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen, TCP and UDP; port 0 for any free one.
    pub listen: SocketAddr,
    /// What every client must give. A stock iperf3 client has no way to, and is refused unless it
    /// logs in.
    pub token: Option<String>,
    /// Who may ask for tests as iperf3 does, by a login. With a token too, either lets a client in.
    pub users: Option<Users>,
    /// With it, tests are asked for within TLS alone. A stock iperf3 client cannot, and is refused.
    pub tls: Option<Identity>,
    /// The bounds.
    pub limits: Limits,
    /// The ports (first, last) that workloads with a separate listener (`crr`) may take; any free
    /// one without.
    pub data_ports: Option<(u16, u16)>,
}

impl ServerConfig {
    /// Whether a client may ask for tests: the one place where that is decided, for every protocol.
    ///
    /// # Errors
    /// What it lacks. A wrong login takes as long as a right one here: the caller has to hide the
    /// difference.
    pub(crate) fn admit(&self, shown: &Shown<'_>) -> Result<(), Refusal> {
        if self.tls.is_some() && !shown.within_tls {
            return Err(Refusal::Tls);
        }
        let by_token = self.token.is_some() && token_matches(self.token.as_deref(), shown.token);
        match (&self.users, shown.login) {
            _ if by_token => Ok(()),
            (None, _) if self.token.is_none() => Ok(()),
            (Some(users), Some(Login(login))) if login.is_some_and(|l| users.admit(l, timing::realtime())) => Ok(()),
            (Some(_), Some(_)) => Err(Refusal::Login),
            (_, None) if self.token.is_none() => Err(Refusal::Request {
                why: "it takes streams of iperf3's users alone, and this workload has no login: start it with a token too (`serve --token`)"
                    .into(),
            }),
            _ => Err(Refusal::Token),
        }
    }

    /// On `listen`, without a token, with the default bounds.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, token: None, users: None, tls: None, limits: Limits::default(), data_ports: None }
    }
}
