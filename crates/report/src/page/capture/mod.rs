//! What is said of captures: of one as a whole ([`overview`]), of one of its connections
//! ([`connection`]), packet by packet ([`packets`]), and of two connections side by side
//! ([`pair`]).
//!
//! All are made from [`diagnose`]'s values. The overview is also made from the run of a capture,
//! which holds the same rows, so that both say the same.

mod columns;
pub mod connection;
mod direction;
mod dns;
mod headline;
mod network;
mod over_time;
pub mod overview;
pub mod packets;
pub mod pair;
mod quic;
mod tls;
mod transactions;
mod udp;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::view::capital;
use paper::document::{Clause, Text};
use record::conversation::Verdict;

pub use dns::{Dns, named_hosts};
pub use network::Network;
pub use overview::{Subject, describe, document};
pub use quic::Quic;
pub use summary::Overview;
pub use tls::Tls;
pub use udp::Udp;

/// The names of hosts by their addresses, those of the first source before those of the next: TLS
/// hellos, those of QUIC too, say what a connection was for, and come before DNS answers.
pub fn host_names(sources: &[&BTreeMap<IpAddr, Vec<String>>]) -> BTreeMap<IpAddr, Vec<String>> {
    let mut all: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    for (address, names) in sources.iter().copied().flatten() {
        let of = all.entry(*address).or_default();
        for name in names {
            if !of.contains(name) {
                of.push(name.clone());
            }
        }
    }
    all
}

/// What a capture itself calls its ends.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Hosts, by the addresses that stand for them in a text.
    pub hosts: BTreeMap<IpAddr, String>,
    /// Processes, by their end of a connection: `curl[1234]`.
    pub processes: BTreeMap<SocketAddr, String>,
}

/// An endpoint by the name that a text has for it, or by its address.
pub fn endpoint(names: &Names, at: SocketAddr) -> String {
    names.hosts.get(&at.ip()).map_or_else(|| at.to_string(), |name| format!("{name}.{}", at.port()))
}

/// Both ends of a connection. Those that the capture itself names are words, the others hosts.
fn ends(names: &Names, client: SocketAddr, server: SocketAddr) -> Text {
    let end = |at: SocketAddr| {
        let end = match names.hosts.contains_key(&at.ip()) {
            true => Text::from(endpoint(names, at)),
            false => Text::from(at),
        };
        match names.processes.get(&at) {
            Some(process) => end.and(format!(" {process}")),
            None => end,
        }
    };
    end(client).and(" → ").and(end(server))
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    format!("{}.", capital(text))
}

/// What a verdict says: what limited the connection, the finding that cost most, and what to do
/// about it.
fn clauses_of(verdict: &Verdict) -> Vec<Clause> {
    let found = [Some(&verdict.limited), verdict.finding.as_ref()].into_iter().flatten();
    let mut clauses: Vec<Clause> = found.map(|text| Clause::finding(sentence(text))).collect();
    if let Some(last) = clauses.last_mut() {
        last.next = verdict.step.as_ref().map(|step| format!("{step}.").into());
    }
    clauses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_a_clause_for_each_of_its_parts() {
        let verdict = Verdict {
            limited: "slow start took 56 % of the 2.66 s".into(),
            finding: Some("loss: 3 of 9 packets; 2 were retransmitted".into()),
            step: Some("look at the path".into()),
        };
        let clauses = clauses_of(&verdict);
        let said: Vec<_> = clauses.iter().map(|clause| clause.text.to_string()).collect();
        assert_eq!(said, ["Slow start took 56 % of the 2.66 s.", "Loss: 3 of 9 packets; 2 were retransmitted."]);
        assert_eq!(clauses[1].next, Some("look at the path.".into()));
        assert_eq!(clauses_of(&Verdict { finding: None, ..verdict })[0].next, Some("look at the path.".into()));
    }

    #[test]
    fn an_endpoint_has_its_name_where_there_is_one() {
        let hosts = BTreeMap::from([("0.0.0.1".parse().unwrap(), "host".to_owned())]);
        let names = Names { hosts, ..Names::default() };
        assert_eq!(endpoint(&names, "0.0.0.1:80".parse().unwrap()), "host.80");
        assert_eq!(endpoint(&names, "0.0.0.2:80".parse().unwrap()), "0.0.0.2:80");
    }
}
