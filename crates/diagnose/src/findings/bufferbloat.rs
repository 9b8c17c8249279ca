//! A queue that is too long stands on the path: the RTT grows with what the sender has in flight.

use super::{Case, Drawn, FindingKind, Rule, View};
use record::Nanos;

use crate::distribution::Distribution;
use crate::rtt::Correlation;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::Bufferbloat,
    find,
    once: false,
    shortens: &[Limit::PathRate],
    needs: &[View::BothDirections, View::AllBytes, View::SteadyPath],
    or_unseen: &[View::SenderAndQueue, View::Handshake, View::Time],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let h = case.sender(way);
    // A queue stands where the path's rate is used: late ACKs alone lengthen round trips too.
    if case.share(way, Limit::PathRate) < 0.1 {
        return None;
    }
    // The queue stands beyond the capture, or between it and the sender.
    let beyond = h.rtt.detail.as_ref().and_then(|d| queue(&h.rtt.samples, &d.with_flight));
    let before = h.sender.as_ref().filter(|s| s.is_known()).and_then(|s| queue(&s.samples, &s.with_flight));
    let found = [beyond, before].into_iter().flatten().max_by_key(|q| q.high.saturating_sub(q.low));
    let Queue { r, low, high, samples } = found?;
    let cost = case.time(way, Limit::PathRate);
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
            way.receiver(),
            samples,
            high.saturating_sub(low)
        ),
        worth: format!(
            "everything else on the path waits up to {} less with fq_codel or CAKE there, or BBR here; this transfer itself gains little",
            high.saturating_sub(low)
        ),
    })
}

/// Round trips that go with what is in flight.
struct Queue {
    r: f64,
    low: Nanos,
    high: Nanos,
    samples: u64,
}

fn queue(samples: &Distribution, with_flight: &Correlation) -> Option<Queue> {
    let r = with_flight.r()?;
    let (low, high) = (samples.min()?, samples.quantile(0.9)?);
    // 30 ms is where interactive use begins to suffer (RFC 7567 speaks of tens of milliseconds as
    // excessive).
    let stands = samples.count() >= 32 && r >= 0.6 && high.0 / 2 >= low.0 && high.0 - low.0 >= 30_000_000;
    stands.then_some(Queue { r, low, high, samples: samples.count() })
}
