//! What is said of a capture before all else: what took longest, of TCP, DNS, TLS, QUIC, UDP, the
//! network itself, and what hosts did to reach a name.

use std::cmp::Reverse;

use record::Nanos;
use record::network::NetworkFindingKind;
use record::quic::QuicFindingKind;

use super::columns::clause;
use super::overview::Subject;
use super::transactions::{Part, Worst};
use super::{dns, network, quic, udp};
use paper::document::Clause;

/// Below this, what is beside TCP is no reason for a sentence beside those on TCP.
const NOTICED: Nanos = Nanos(100_000_000);

/// The clauses; `tcp` is what is said of TCP, with what its worst finding cost, and `None` where
/// there is no connection.
pub(super) fn clauses(of: &Subject, tcp: Option<(Vec<Clause>, Nanos)>) -> Vec<Clause> {
    let mut others = beside(of);
    others.sort_by_key(|(cost, _)| Reverse(*cost));
    let Some((tcp, cost)) = tcp else {
        let none = "The capture holds no TCP connection.";
        if let Some((_, worst)) = others.into_iter().next() {
            return vec![worst];
        }
        let calm = match (of.quic.connections, of.dns.lookups, of.udp.own()) {
            (1.., ..) => quic::calm(of.quic),
            (0, 1.., _) => dns::calm(of.dns),
            (0, 0, 1..) => udp::calm(of.udp),
            (0, 0, 0) => match network::calm(of.network) {
                Some(calm) => calm,
                None => return vec![none.into()],
            },
        };
        return vec![Clause::finding(calm), Clause::detail(none)];
    };
    let (before, after): (Vec<_>, Vec<_>) = others.into_iter().partition(|(other, _)| *other > cost);
    let after = after.into_iter().filter(|(other, _)| *other >= NOTICED);
    let clauses = |some: Vec<(Nanos, Clause)>| some.into_iter().map(|(_, clause)| clause);
    clauses(before).chain(tcp).chain(clauses(after.collect())).collect()
}

/// The worst of each beside TCP, with what it cost. A transaction that took long for a finding says
/// so in its stead.
fn beside(of: &Subject) -> Vec<(Nanos, Clause)> {
    let worst = Worst::of(of.transactions);
    let is_of = |part: Part, is_it: bool| worst.as_ref().filter(|w| w.part == part && is_it);
    let dns = of.dns.findings.first().map(|f| {
        let lookup = worst.as_ref().and_then(|w| w.transaction.lookup);
        match is_of(Part::Name, lookup == Some(f.shown_by)) {
            Some(w) => (Part::Name, f.cost_ns.max(w.took), w.clause(Some(&f.next))),
            None => (Part::Name, f.cost_ns, clause(f)),
        }
    });
    let tls = of.tls.findings.first().map(|f| {
        let is_it = |w: &Worst<'_>| w.transaction.quic.is_none() && w.transaction.connection == f.shown_by;
        match is_of(Part::Tls, worst.as_ref().is_some_and(is_it)) {
            Some(w) => (Part::Tls, f.cost_ns.max(w.took), w.clause(Some(&f.next))),
            None => (Part::Tls, f.cost_ns, clause(f)),
        }
    });
    // A transaction that went on by TCP took long for what it fell back from.
    let quic = of.quic.findings.first().map(|f| {
        let is_it = worst.as_ref().is_some_and(|w| w.transaction.quic == Some(f.shown_by));
        let went_on = |w: &Worst<'_>| w.transaction.quic.is_none() && w.transaction.quic_attempts > 0;
        let unanswered = f.kind == QuicFindingKind::Unanswered;
        let fell_back = is_of(Part::Connect, unanswered && worst.as_ref().is_some_and(went_on));
        match is_of(Part::Tls, is_it).or(fell_back) {
            Some(w) => (w.part, f.cost_ns.max(w.took), w.clause(Some(&f.next))),
            None => (Part::Tls, f.cost_ns, clause(f)),
        }
    });
    // A finding of the network is about the next hop, or about something else than a part.
    let network = of.network.findings.first().map(|f| {
        let is_it = |w: &Worst<'_>| {
            let hops = [w.transaction.name_neighbour, w.transaction.neighbour];
            f.kind == NetworkFindingKind::NeighbourLate && hops.contains(&Some(f.shown_by))
        };
        match is_of(Part::Neighbour, worst.as_ref().is_some_and(is_it)) {
            Some(w) => (Some(Part::Neighbour), f.cost_ns.max(w.took), w.clause(Some(&f.next))),
            None => (None, f.cost_ns, clause(f)),
        }
    });
    let mut all: Vec<_> =
        [dns, tls, quic].into_iter().flatten().map(|(part, cost, of)| (Some(part), cost, of)).collect();
    all.extend(network);
    // What there is no finding for.
    if let Some(w) = &worst
        && w.took >= NOTICED
        && all.iter().all(|(part, ..)| *part != Some(w.part))
    {
        all.push((Some(w.part), w.took, w.clause(None)));
    }
    let udp = of.udp.findings.first().map(|f| (f.cost_ns, clause(f)));
    all.into_iter().map(|(_, cost, clause)| (cost, clause)).chain(udp).collect()
}
