//! What is found on DNS: a file for each kind.

mod failed;
mod late_aaaa;
mod retries;
mod search;
mod silent;
mod slow;
mod too_late;
mod truncated;
mod unanswered;
mod unreachable;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;

use record::Nanos;
use record::dns::{DnsFinding, DnsFindingKind, Protocol, Server};

use super::attempts::Attempts;
use super::lookup::{Case, joined};

/// Findings at most: a flood has a finding for each server that it names.
const FINDINGS: usize = 500;
/// Packets that a finding names at most.
const PACKETS: usize = 24;

/// What rules are given.
#[derive(Clone, Debug)]
pub(super) struct View<'v, 'a> {
    /// All lookups.
    cases: &'v [Case<'a>],
    /// Connections to servers.
    attempts: &'v Attempts,
    /// The servers of DNS itself, by address, with the tries that went to each.
    servers: BTreeMap<SocketAddr, Asked<'v, 'a>>,
    /// See [`late_aaaa::late`].
    late_aaaa: Shown<'v, 'a>,
}

/// A server with its tries: a lookup, and the place of the try in it.
#[derive(Clone, Debug)]
struct Asked<'v, 'a> {
    server: &'v Server,
    tries: Vec<(&'v Case<'a>, usize)>,
}

/// A rule, and when its kind of finding is drawn: [`DnsFindingKind::rule`].
type Rule = fn(&View<'_, '_>) -> Vec<DnsFinding>;

const RULES: [(DnsFindingKind, Rule); 10] = [
    (DnsFindingKind::Silent, silent::draw),
    (DnsFindingKind::Retries, retries::draw),
    (DnsFindingKind::Unanswered, unanswered::draw),
    (DnsFindingKind::Unreachable, unreachable::draw),
    (DnsFindingKind::Failed, failed::draw),
    (DnsFindingKind::Slow, slow::draw),
    (DnsFindingKind::Truncated, truncated::draw),
    (DnsFindingKind::Search, search::draw),
    (DnsFindingKind::LateAaaa, late_aaaa::draw),
    (DnsFindingKind::TooLate, too_late::draw),
];

/// Everything found, the costliest first.
pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    let drawn = |(kind, rule): (DnsFindingKind, Rule)| rule(view).into_iter().map(move |f| DnsFinding { kind, ..f });
    let mut all: Vec<DnsFinding> = RULES.into_iter().flat_map(drawn).collect();
    all.sort_by_key(|f| (Reverse(f.cost_ns), f.kind, f.shown_by));
    all.truncate(FINDINGS);
    all
}

impl<'v, 'a> View<'v, 'a> {
    pub(super) fn new(cases: &'v [Case<'a>], servers: &'v [Server], attempts: &'v Attempts) -> Self {
        let own = servers.iter().filter(|s| s.protocol == Protocol::Dns);
        let servers = own.map(|s| (s.server, Asked { server: s, tries: Vec::new() })).collect();
        let mut view = Self { cases, attempts, servers, late_aaaa: Shown::default() };
        for case in view.cases() {
            for (i, e) in case.tries.iter().enumerate() {
                if let Some(asked) = view.servers.get_mut(&e.server) {
                    asked.tries.push((case, i));
                }
            }
        }
        view.late_aaaa = late_aaaa::late(&view);
        view
    }

    /// Lookups of DNS itself: with multicast DNS and LLMNR, silence says that there is no such
    /// name.
    fn cases(&self) -> impl Iterator<Item = &'v Case<'a>> + use<'v, 'a> {
        self.cases.iter().filter(|case| case.protocol == Protocol::Dns)
    }

    /// Those of them that are not the usual ones, with one try that brought what it asked for.
    fn unusual(&self) -> impl Iterator<Item = &'v Case<'a>> + use<'v, 'a> {
        self.cases().filter(|case| !case.is_plain)
    }

    /// Servers of DNS itself, with their tries.
    fn servers(&self) -> impl Iterator<Item = &Asked<'v, 'a>> {
        self.servers.values()
    }

    /// Whether a server answered any of its questions.
    fn answers(&self, server: SocketAddr) -> bool {
        self.servers.get(&server).is_some_and(|s| s.server.answered > 0)
    }
}

/// The lookups that show something, each with the time that its client waited for it.
#[derive(Clone, Debug, Default)]
struct Shown<'v, 'a>(Vec<(&'v Case<'a>, Range<u64>)>);

impl<'v, 'a> Shown<'v, 'a> {
    fn add(&mut self, case: &'v Case<'a>, waited: Range<u64>) {
        self.0.push((case, waited));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lookups, each once: their waits come in the order of the lookups.
    fn count(&self) -> u64 {
        self.0.chunk_by(|a, b| a.0.number == b.0.number).count() as u64
    }

    /// What each lookup waited for it.
    fn by_case(&self) -> impl Iterator<Item = (&'v Case<'a>, u64)> + '_ {
        let length = |w: &Range<u64>| w.end.saturating_sub(w.start);
        self.0.chunk_by(|a, b| a.0.number == b.0.number).map(move |c| (c[0].0, c.iter().map(|(_, w)| length(w)).sum()))
    }

    /// The lookup that waited longest, the first of these.
    fn worst(&self) -> Option<(&'v Case<'a>, u64)> {
        self.by_case().max_by_key(|(case, waited)| (*waited, Reverse(case.number)))
    }

    /// What clients waited. Two lookups of one client at the same time cost it that time once.
    fn cost(&self) -> Nanos {
        crate::waits::once(self.0.iter().map(|(case, w)| (case.client(), w.clone())))
    }

    /// A finding; `text` is told the lookup that waited longest.
    fn finding(&self, text: impl FnOnce(&Case<'a>) -> String, next: String) -> Vec<DnsFinding> {
        let Some((worst, _)) = self.worst() else { return Vec::new() };
        let mut packets = worst.packets();
        packets.extend(
            self.by_case().filter(|(case, _)| case.number != worst.number).flat_map(|(case, _)| case.packets()),
        );
        packets.truncate(PACKETS);
        let at = self.0.iter().map(|(case, w)| if w.is_empty() { case.first().asked } else { w.start }).min();
        vec![DnsFinding {
            // Its rule's.
            kind: DnsFindingKind::Silent,
            shown_by: worst.number,
            at_ns: Nanos(at.unwrap_or_default()),
            count: self.count(),
            cost_ns: self.cost(),
            text: text(worst),
            next,
            packets: joined(&packets),
        }]
    }

    /// ` (3 more lookups like it)`, where there are more than one.
    fn more(&self) -> String {
        match self.count() {
            0 | 1 => String::new(),
            n => format!(" ({} like it)", quantity::counted(n - 1, "more lookup")),
        }
    }
}

/// A server as a text names it: its port only where it is another than 53.
fn host(server: SocketAddr) -> String {
    match server.port() {
        wire::packet::dns::PORT => server.ip().to_string(),
        _ => server.to_string(),
    }
}

/// What a resolver's file has for a server that answers late or not.
const BOUND: &str = "`options timeout:1 attempts:2` in resolv.conf bounds the wait";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_rule() {
        let kinds: Vec<DnsFindingKind> = RULES.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, DnsFindingKind::ALL);
    }
}
