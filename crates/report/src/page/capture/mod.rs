//! What is said of captures: of one as a whole ([`overview`]), of one of its connections ([`connection`]), packet by packet ([`packets`]),
//! and of two connections side by side ([`pair`]).
//!
//! All are made from [`diagnose`]'s values. The overview is also made from the run of a capture, which holds the same rows, so
//! that both say the same.

mod columns;
pub mod connection;
mod direction;
mod over_time;
pub mod overview;
pub mod packets;
pub mod pair;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::view::capital;

pub use overview::{Overview, Subject, describe, document};

/// Names of hosts, by the addresses that stand for them in a text.
pub type Names = BTreeMap<IpAddr, String>;

/// An endpoint by the name that a text has for it, or by its address.
pub fn endpoint(names: &Names, at: SocketAddr) -> String {
    names.get(&at.ip()).map_or_else(|| at.to_string(), |name| format!("{name}.{}", at.port()))
}

/// Both ends of a connection.
fn ends(names: &Names, client: SocketAddr, server: SocketAddr) -> String {
    format!("{} → {}", endpoint(names, client), endpoint(names, server))
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    format!("{}.", capital(text.trim_end_matches('.')))
}

/// What a verdict says, as sentences of a readable length.
fn sentences(verdict: &str) -> impl Iterator<Item = String> + '_ {
    verdict.split("; ").map(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_split_into_sentences() {
        let said: Vec<_> = sentences("slow start 56 % of 2.66 s; loss: 3 of 9 packets.").collect();
        assert_eq!(said, ["Slow start 56 % of 2.66 s.", "Loss: 3 of 9 packets."]);
    }

    #[test]
    fn an_endpoint_has_its_name_where_there_is_one() {
        let names = Names::from([("0.0.0.1".parse().unwrap(), "host".to_owned())]);
        assert_eq!(endpoint(&names, "0.0.0.1:80".parse().unwrap()), "host.80");
        assert_eq!(endpoint(&names, "0.0.0.2:80".parse().unwrap()), "0.0.0.2:80");
    }
}
