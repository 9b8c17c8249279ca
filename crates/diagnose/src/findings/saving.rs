//! What a remedy is worth: how much sooner the connection would be over without what was found.

use record::Nanos;
use record::conversation::{FindingKind, Limit, Way};

use super::{Case, Drawn};
use crate::claims::{Claims, Promise, Transfer};

/// The time that the connection would take less, at most. `None` where it would not be over sooner,
/// or where that cannot be said.
pub(super) fn saving(
    case: &Case<'_>,
    way: Way,
    kind: FindingKind,
    drawn: &Drawn,
    transfer: &Transfer,
) -> Option<Nanos> {
    if !case.vantage.shows_time() {
        return None;
    }
    let saved = match kind {
        FindingKind::Loss => super::loss::saving(case, way, drawn.cost),
        FindingKind::WindowScalingMissing
        | FindingKind::ReceiveWindow
        | FindingKind::SendBuffer
        | FindingKind::CongestionWindow => at_burst_rate(case, way, drawn.cost),
        FindingKind::NagleDelayedAck
        | FindingKind::DelayedAckStall
        | FindingKind::ZeroWindow
        | FindingKind::ReceiverApplication
        | FindingKind::SlowStartAfterIdle
        | FindingKind::SynRetries
        | FindingKind::MtuBlackHole
        | FindingKind::Timestamps
        | FindingKind::PathStalls
        | FindingKind::RoundTrips => Some(drawn.cost),
        _ => None,
    };
    saved.map(|s| transfer.at_most(s)).filter(|s| *s > Nanos::ZERO)
}

/// A window held `cost` of the transfer: what is left of that where the same bytes go as fast as
/// the path carried bursts.
fn at_burst_rate(case: &Case<'_>, way: Way, cost: Nanos) -> Option<Nanos> {
    let idle = case.time(Way::ToServer, Limit::Application) + case.time(Way::ToClient, Limit::Application);
    let busy = case.duration.saturating_sub(idle + case.time(Way::ToServer, Limit::Handshake)).0.max(1);
    let bits = case.sender(way).count.unique_bytes as f64 * 8.0 * (cost.0.min(busy) as f64 / busy as f64);
    let at_best = bits / case.burst_rate(way)?.0.max(1.0);
    Some(Nanos(cost.0.saturating_sub((at_best * 1e9) as u64)))
}

/// What bounds a promise.
pub(super) fn transfer(case: &Case<'_>, way: Way) -> Transfer {
    let h = case.sender(way);
    let rtt = case.rest(way).unwrap_or(Nanos::ZERO);
    let trips = u64::from(case.c.halves[0].offered.seen) + u64::from(h.count.payload_packets > 0);
    Transfer {
        took: case.duration,
        bytes: h.count.unique_bytes,
        opened: case.c.established,
        held: h.bursts.as_ref().map(|b| b.held() as f64 * 8.0).filter(|rate| *rate > 0.0),
        burst: case.burst_rate(way).map(|rate| rate.0),
        trips: Nanos(rtt.0.saturating_mul(trips)).min(case.duration),
    }
}

/// What is saved, in words. `None` below one per cent.
pub(super) fn words(claims: &Claims, transfer: &Transfer, saved: Nanos) -> Option<String> {
    if saved.0 < transfer.took.0 / 100 {
        return None;
    }
    Promise::of(claims, transfer, saved).map(|promise| promise.to_string())
}
