//! A queue that is too long stands on the path: the RTT grows with what the sender has in flight.

use super::{Case, Drawn, Kind, Rule, View};
use crate::budget::Limit;

pub(super) const RULE: Rule = Rule {
    kind: Kind {
        name: "bufferbloat",
        words: "a queue that is too long",
        rule: "over 32 samples or more the RTT goes with the bytes in flight (r of 0.6 or more) and its 90th percentile is at least twice the minimum and 30 ms above it",
    },
    find,
    once: false,
    needs: &[View::BothDirections, View::AllBytes, View::SenderAndQueue],
    or_unseen: &[],
};

fn find(case: &Case<'_>, dir: usize) -> Option<Drawn> {
    let h = case.sender(dir);
    let r = h.rtt.detail.as_ref()?.with_flight.r()?;
    let (low, high) = (h.rtt.samples.min()?, h.rtt.samples.quantile(0.9)?);
    // 30 ms is where interactive use begins to suffer (RFC 7567 speaks of tens of milliseconds as excessive).
    if h.rtt.samples.count() < 32 || r < 0.6 || high.0 / 2 < low.0 || high.0 - low.0 < 30_000_000 {
        return None;
    }
    let cost = case.time(dir, Limit::PathRate);
    Some(Drawn {
        packets: h
            .rtt
            .detail
            .iter()
            .flat_map(|d| d.blocks.iter())
            .max_by_key(|b| b.min)
            .map(|b| b.number)
            .into_iter()
            .collect(),
        at: case.c.first_at,
        count: 1,
        cost,
        text: format!(
            "the RTT to the {} goes from {low} to {high} with the bytes in flight (r = {r:.2}, n = {}): a queue of up to {} stands at the bottleneck",
            case.receiver_name(dir),
            h.rtt.samples.count(),
            high.saturating_sub(low)
        ),
        worth: format!(
            "everything else on the path waits up to {} less with fq_codel or CAKE there, or BBR here; this transfer itself gains little",
            high.saturating_sub(low)
        ),
    })
}
