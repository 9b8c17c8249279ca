//! What a remedy is worth: how much sooner the connection would be over without what was found.

use record::Nanos;
use record::conversation::{FindingKind, Limit, Way};

use super::{Case, Drawn, Rate};

/// The time that the connection would take less, at most. `None` where it would not be over sooner,
/// or where that cannot be said.
pub(super) fn saving(case: &Case<'_>, way: Way, kind: FindingKind, drawn: &Drawn) -> Option<Nanos> {
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
    saved.map(|s| s.min(case.duration)).filter(|s| *s > Nanos::ZERO)
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

/// The same in words: `2.10 s instead of 4.20 s, 32.0 Mbit/s instead of 16.0 Mbit/s`. `None` below
/// one per cent.
pub(super) fn words(case: &Case<'_>, way: Way, saved: Nanos) -> Option<String> {
    let (now, then) = (case.duration, case.duration.saturating_sub(saved));
    if saved.0 < now.0 / 100 {
        return None;
    }
    let bits = case.sender(way).count.unique_bytes as f64 * 8.0;
    let rate = |time: Nanos| Rate(bits / time.as_secs_f64().max(1e-9));
    // A rate says something of what goes on for more than a few round trips.
    let rates = (bits >= 800_000.0 && then.0 > 0).then(|| format!(", {} instead of {}", rate(then), rate(now)));
    Some(format!("the connection would take {then} instead of {now}{}", rates.unwrap_or_default()))
}
