//! What is found on TLS: a file for each kind.

mod client;
mod failed;
mod flight;
mod not_resumed;
mod retry;
mod server;
mod version;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use record::Nanos;
use record::tls::{TlsFinding, TlsFindingKind};

use super::analysis::Case;

/// Findings at most: a scan has one for each server.
const FINDINGS: usize = 500;
/// Packets that a finding names at most.
const PACKETS: usize = 24;
/// A wait that people notice.
const LONG: u64 = 50_000_000;
/// A round trip that is worth a change.
const TRIP: u64 = 5_000_000;

/// A rule says of a handshake when its client waited for what the rule finds, and what there is to
/// say. When its kind of finding is drawn: [`TlsFindingKind::rule`].
type Rule = fn(&Case<'_>) -> Option<Shown>;

/// What a handshake shows.
#[derive(Clone, Debug)]
struct Shown {
    /// When the client waited for it.
    waited: Range<u64>,
    text: String,
    next: String,
}

const RULES: [(TlsFindingKind, Rule); 7] = [
    (TlsFindingKind::Failed, failed::draw),
    (TlsFindingKind::Server, server::draw),
    (TlsFindingKind::Client, client::draw),
    (TlsFindingKind::Retry, retry::draw),
    (TlsFindingKind::Flight, flight::draw),
    (TlsFindingKind::Version, version::draw),
    (TlsFindingKind::NotResumed, not_resumed::draw),
];

/// Everything found, the costliest first: one finding for each rule and server.
pub(super) fn draw(cases: &[Case<'_>]) -> Vec<TlsFinding> {
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

fn finding(kind: TlsFindingKind, all: &[(&Case<'_>, Shown)]) -> Option<TlsFinding> {
    let length = |shown: &Shown| shown.waited.end.saturating_sub(shown.waited.start);
    let (case, worst) = all.iter().max_by_key(|(case, shown)| (length(shown), Reverse(case.row.start_ns)))?;
    let count = all.len() as u64;
    let more = match count {
        1 => String::new(),
        n => format!(" ({} like it)", quantity::counted(n - 1, "more handshake")),
    };
    let mut packets = case.packets();
    packets.extend(all.iter().filter(|(other, _)| !std::ptr::eq(*other, *case)).flat_map(|(other, _)| other.packets()));
    packets.truncate(PACKETS);
    Some(TlsFinding {
        kind,
        connection: case.row.connection,
        at_ns: Nanos(all.iter().map(|(_, shown)| shown.waited.start).min()?),
        count,
        cost_ns: crate::waits::once(all.iter().map(|(case, shown)| (case.row.client.ip(), shown.waited.clone()))),
        text: format!("{}{more}", worst.text),
        next: worst.next.clone(),
        packets: crate::dns::joined(&packets),
    })
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
