//! What is found on QUIC: a file for each kind.

mod failed;
mod hello;
mod limit;
mod moved;
mod pause;
mod probes;
mod protocol;
mod retry;
mod server;
mod unanswered;
mod unreachable;
mod version;

use record::quic::{QuicFinding, QuicFindingKind};

use super::analysis::Case;
use crate::drawn::{self, LONG, Shown, TRIP};

/// A rule says of a connection when its client waited for what the rule finds, and what there is to
/// say. When its kind of finding is drawn: [`QuicFindingKind::rule`].
type Rule = fn(&Case<'_>) -> Option<Shown>;

const RULES: [(QuicFindingKind, Rule); 12] = [
    (QuicFindingKind::Unanswered, unanswered::draw),
    (QuicFindingKind::Unreachable, unreachable::draw),
    (QuicFindingKind::Failed, failed::draw),
    (QuicFindingKind::Protocol, protocol::draw),
    (QuicFindingKind::Probes, probes::draw),
    (QuicFindingKind::Version, version::draw),
    (QuicFindingKind::Retry, retry::draw),
    (QuicFindingKind::Limit, limit::draw),
    (QuicFindingKind::Server, server::draw),
    (QuicFindingKind::Pause, pause::draw),
    (QuicFindingKind::Hello, hello::draw),
    (QuicFindingKind::Moved, moved::draw),
];

/// Everything found, the costliest first: one finding for each rule and server.
pub(super) fn draw(cases: &[Case<'_>]) -> Vec<QuicFinding> {
    drawn::draw(cases, RULES, "connection")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_rule() {
        let kinds: Vec<QuicFindingKind> = RULES.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, QuicFindingKind::ALL);
    }
}
