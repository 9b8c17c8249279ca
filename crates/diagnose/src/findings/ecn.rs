//! Routers marked packets rather than dropping them (RFC 3168): the queue was long, and the sender
//! slowed down without a loss.

use super::{Case, Drawn, FindingKind, Rule, View, times};
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::CongestionMarks,
    find,
    once: false,
    shortens: &[Limit::PathRate],
    needs: &[],
    or_unseen: &[View::BothDirections],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let (h, p) = (case.sender(way), case.receiver(way));
    let (marked, echoed, reduced) =
        (u64::from(h.anomalies.ce_marks), u64::from(p.anomalies.ece), u64::from(h.anomalies.cwr));
    // Accurate ECN (RFC 9768) counts in the same bits; of those only the marks themselves are
    // plain.
    if marked == 0 && (echoed == 0 || case.is_accurate_ecn()) {
        return None;
    }
    Some(Drawn {
        packets: [h.anomalies.first_ce, p.anomalies.first_ece].into_iter().filter(|n| *n > 0).collect(),
        at: case.c.first_at,
        count: echoed.max(marked),
        cost: record::Nanos::ZERO,
        text: format!(
            "the path marked congestion on the way to the {}: {marked} packets carry the mark here, {echoed} ACKs echo one (ECE), and the {} reduced its window {} (CWR)",
            way.receiver(),
            way.sender(),
            times(reduced),
        ),
        worth: "a queue at the bottleneck reaches its marking threshold: without the marks it would grow or drop packets; more bandwidth there is what helps".into(),
    })
}
