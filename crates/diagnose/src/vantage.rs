//! Where the capture was taken.

use std::fmt;

use record::Nanos;
use serde::Serialize;

use crate::connection::{Connection, TO_CLIENT, TO_SERVER};

/// A place on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// At the client or close to it.
    NearClient,
    /// At the server or close to it.
    NearServer,
    /// Between the two.
    Middle,
    /// The path is so short that it makes no difference.
    Anywhere,
    /// Too few answers to know.
    Unknown,
}

/// The place with what it was inferred from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Vantage {
    /// Where.
    pub place: Place,
    /// What the server's answers take at least, from the capture there and back.
    pub to_server_ns: Option<Nanos>,
    /// The same for the client's.
    pub to_client_ns: Option<Nanos>,
}

impl Vantage {
    pub(crate) fn of(c: &Connection) -> Self {
        let to = |dir: usize| c.halves[dir].rtt.base().map(Nanos);
        let (server, client) = (to(TO_SERVER), to(TO_CLIENT));
        let place = match (server, client) {
            (Some(s), Some(k)) => {
                let whole = s + k;
                // Under 1 ms the ends' own delays are of the same size as the path's.
                if whole.0 < 1_000_000 {
                    Place::Anywhere
                } else if k.0 <= whole.0 / 10 {
                    Place::NearClient
                } else if s.0 <= whole.0 / 10 {
                    Place::NearServer
                } else {
                    Place::Middle
                }
            }
            _ => Place::Unknown,
        };
        Self { place, to_server_ns: server, to_client_ns: client }
    }

    /// The path's round trip where both parts are known.
    pub fn whole(&self) -> Option<Nanos> {
        Some(self.to_server_ns? + self.to_client_ns?)
    }
}

impl fmt::Display for Vantage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place, self.to_server_ns, self.to_client_ns) {
            (Place::Unknown, _, _) | (_, None, _) | (_, _, None) => {
                f.write_str("unknown: one side's answers are missing")
            }
            (place, Some(server), Some(client)) => {
                let words = match place {
                    Place::NearClient => "near the client",
                    Place::NearServer => "near the server",
                    Place::Middle => "between the two",
                    _ => "anywhere: the path is too short to know",
                };
                write!(f, "{words} (server {server} away and back, client {client})")
            }
        }
    }
}
