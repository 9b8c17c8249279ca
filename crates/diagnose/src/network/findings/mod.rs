//! What is found on the network itself: a file for each kind.

mod echo_lost;
mod fragments;
mod neighbour_late;
mod neighbour_silent;
mod time_exceeded;
mod too_big;
mod unreachable;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

use record::Nanos;
use record::network::{NetworkFinding, NetworkFindingKind};

use super::analysis::View;
use crate::dns::joined;

/// Findings at most: a scan has one for each host.
const FINDINGS: usize = 500;
/// Packets that a finding names at most.
const PACKETS: usize = 24;

/// What shows something.
#[derive(Clone, Debug)]
struct Shown {
    /// The number of what shows it.
    number: u64,
    /// Whose time it cost, and which.
    client: IpAddr,
    waited: Range<u64>,
    packets: Vec<u64>,
    text: String,
    next: String,
}

impl Shown {
    fn length(&self) -> u64 {
        self.waited.end.saturating_sub(self.waited.start)
    }
}

/// A rule gives what shows its kind of finding, put together by what one finding is about. When it
/// is drawn: [`NetworkFindingKind::rule`].
type Rule = fn(&View<'_>) -> BTreeMap<String, Vec<Shown>>;

const RULES: [(NetworkFindingKind, Rule); 7] = [
    (NetworkFindingKind::Unreachable, unreachable::draw),
    (NetworkFindingKind::TooBig, too_big::draw),
    (NetworkFindingKind::TimeExceeded, time_exceeded::draw),
    (NetworkFindingKind::EchoLost, echo_lost::draw),
    (NetworkFindingKind::NeighbourSilent, neighbour_silent::draw),
    (NetworkFindingKind::NeighbourLate, neighbour_late::draw),
    (NetworkFindingKind::Fragments, fragments::draw),
];

/// Everything found, the costliest first.
pub(super) fn draw(view: &View<'_>) -> Vec<NetworkFinding> {
    let drawn = |(kind, rule): (NetworkFindingKind, Rule)| {
        rule(view).into_values().filter_map(move |shown| finding(kind, &shown))
    };
    let mut all: Vec<NetworkFinding> = RULES.into_iter().flat_map(drawn).collect();
    all.sort_by_key(|f| (Reverse(f.cost_ns), f.kind, f.at_ns));
    all.truncate(FINDINGS);
    all
}

fn finding(kind: NetworkFindingKind, all: &[Shown]) -> Option<NetworkFinding> {
    let worst = all.iter().max_by_key(|shown| (shown.length(), Reverse(shown.number)))?;
    let count = all.len() as u64;
    let more = if count > 1 { format!(" ({} like it)", quantity::count(count - 1)) } else { String::new() };
    let others = all.iter().filter(|shown| shown.number != worst.number);
    let mut packets = worst.packets.clone();
    packets.extend(others.flat_map(|shown| shown.packets.iter().copied()));
    packets.truncate(PACKETS);
    Some(NetworkFinding {
        kind,
        shown_by: worst.number,
        at_ns: Nanos(all.iter().map(|shown| shown.waited.start).min()?),
        count,
        cost_ns: crate::waits::once(all.iter().map(|shown| (shown.client, shown.waited.clone()))),
        text: format!("{}{more}", worst.text),
        next: worst.next.clone(),
        packets: joined(&packets),
    })
}

/// Puts what is shown together by a name.
fn by<'v, T: 'v>(
    all: impl IntoIterator<Item = &'v T>,
    rule: impl Fn(&T) -> Option<(String, Shown)>,
) -> BTreeMap<String, Vec<Shown>> {
    let mut by: BTreeMap<String, Vec<Shown>> = BTreeMap::new();
    for (what, shown) in all.into_iter().filter_map(rule) {
        by.entry(what).or_default().push(shown);
    }
    by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_rule() {
        let kinds: Vec<NetworkFindingKind> = RULES.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, NetworkFindingKind::ALL);
    }
}
