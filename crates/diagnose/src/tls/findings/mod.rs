//! What is found on TLS: a file for each kind.

mod client;
mod failed;
mod flight;
mod not_resumed;
mod protocol;
mod retry;
mod server;
mod version;

use std::ops::Range;

use record::tls::{TlsFinding, TlsFindingKind};

use super::analysis::Case;
use crate::drawn::{self, LONG, Shown, TRIP};

/// A rule says of a handshake when its client waited for what the rule finds, and what there is to
/// say. When its kind of finding is drawn: [`TlsFindingKind::rule`].
type Rule = fn(&Case<'_>) -> Option<Shown>;

const RULES: [(TlsFindingKind, Rule); 8] = [
    (TlsFindingKind::Failed, failed::draw),
    (TlsFindingKind::Protocol, protocol::draw),
    (TlsFindingKind::Server, server::draw),
    (TlsFindingKind::Client, client::draw),
    (TlsFindingKind::Retry, retry::draw),
    (TlsFindingKind::Flight, flight::draw),
    (TlsFindingKind::Version, version::draw),
    (TlsFindingKind::NotResumed, not_resumed::draw),
];

/// Everything found, the costliest first: one finding for each rule and server.
pub(super) fn draw(cases: &[Case<'_>]) -> Vec<TlsFinding> {
    drawn::draw(cases, RULES, "handshake")
}

/// A wait of so long that ended so long after the handshake's first packet.
fn waited(case: &Case<'_>, took: u64) -> Range<u64> {
    let from = case.row.start_ns.0;
    from..from.saturating_add(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_rule() {
        let kinds: Vec<TlsFindingKind> = RULES.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, TlsFindingKind::ALL);
    }
}
