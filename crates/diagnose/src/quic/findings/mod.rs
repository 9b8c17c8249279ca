//! What is found on QUIC: a file for each kind.

mod failed;
mod hello;
mod limit;
mod moved;
mod probes;
mod retry;
mod server;
mod unanswered;
mod unreachable;
mod version;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use record::Nanos;
use record::quic::{QuicFinding, QuicFindingKind};

use super::analysis::Case;

/// Findings at most: a scan has one for each server.
const FINDINGS: usize = 500;
/// Packets that a finding names at most.
const PACKETS: usize = 24;
/// A wait that people notice.
const LONG: u64 = 50_000_000;
/// A wait that is worth a change.
const TRIP: u64 = 5_000_000;

/// A rule says of a connection when its client waited for what the rule finds, and what there is to
/// say. When its kind of finding is drawn: [`QuicFindingKind::rule`].
type Rule = fn(&Case<'_>) -> Option<Shown>;

/// What a connection shows.
#[derive(Clone, Debug)]
struct Shown {
    /// When the client waited for it.
    waited: Range<u64>,
    text: String,
    next: String,
}

const RULES: [(QuicFindingKind, Rule); 10] = [
    (QuicFindingKind::Unanswered, unanswered::draw),
    (QuicFindingKind::Unreachable, unreachable::draw),
    (QuicFindingKind::Failed, failed::draw),
    (QuicFindingKind::Probes, probes::draw),
    (QuicFindingKind::Version, version::draw),
    (QuicFindingKind::Retry, retry::draw),
    (QuicFindingKind::Limit, limit::draw),
    (QuicFindingKind::Server, server::draw),
    (QuicFindingKind::Hello, hello::draw),
    (QuicFindingKind::Moved, moved::draw),
];

/// Everything found, the costliest first: one finding for each rule and server.
pub(super) fn draw(cases: &[Case<'_>]) -> Vec<QuicFinding> {
    let mut all = Vec::new();
    for (kind, rule) in RULES {
        let mut by_server: BTreeMap<_, Vec<(&Case<'_>, Shown)>> = BTreeMap::new();
        for case in cases {
            if let Some(shown) = rule(case) {
                by_server.entry((case.row.server, &case.row.name)).or_default().push((case, shown));
            }
        }
        all.extend(by_server.into_values().filter_map(|shown| finding(kind, &shown)));
    }
    all.sort_by_key(|f| (Reverse(f.cost_ns), f.kind, f.at_ns));
    all.truncate(FINDINGS);
    all
}

fn finding(kind: QuicFindingKind, all: &[(&Case<'_>, Shown)]) -> Option<QuicFinding> {
    let length = |shown: &Shown| shown.waited.end.saturating_sub(shown.waited.start);
    let (case, worst) = all.iter().max_by_key(|(case, shown)| (length(shown), Reverse(case.row.number)))?;
    let count = all.len() as u64;
    let more = match count {
        1 => String::new(),
        n => format!(" ({} like it)", quantity::counted(n - 1, "more connection")),
    };
    let mut packets = case.packets();
    packets.extend(all.iter().filter(|(other, _)| !std::ptr::eq(*other, *case)).flat_map(|(other, _)| other.packets()));
    packets.truncate(PACKETS);
    Some(QuicFinding {
        kind,
        connection: case.row.number,
        at_ns: Nanos(all.iter().map(|(_, shown)| shown.waited.start).min()?),
        count,
        cost_ns: crate::waits::once(all.iter().map(|(case, shown)| (case.client().ip(), shown.waited.clone()))),
        text: format!("{}{more}", worst.text),
        next: worst.next.clone(),
        packets: crate::dns::joined(&packets),
    })
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
