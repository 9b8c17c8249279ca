//! What a remedy should be worth, from the packets alone: the measured worth stands beside it.

use diagnose::conditions::Conditions;
use record::Nanos;
use record::conversation::Way;

use crate::remedies::Remedy;

/// How much sooner the connection would be over, at most, by what was found.
pub(crate) fn saved(c: &Conditions, remedy: &Remedy) -> Option<Nanos> {
    remedy.findings.iter().filter_map(|kind| c.cause(*kind)).filter_map(|cause| cause.saves_ns).max()
}

/// How long it would take with the remedy: what is saved taken off, but no less than its bytes and
/// round trips take.
pub(crate) fn duration(c: &Conditions, remedy: &Remedy) -> Option<Nanos> {
    let saved = saved(c, remedy)?;
    Some(c.span_ns.saturating_sub(saved).max(least(c)).min(c.span_ns))
}

/// What any connection with these bytes takes on this path: a round trip to open it, the way of the
/// last byte there and back, and the time of the bytes at the path's rate.
fn least(c: &Conditions) -> Nanos {
    let bytes = |way: Way| match &c.lanes[way as usize].rate {
        Some(rate) => u128::from(c.script.bytes(way)) * 8_000_000_000 / u128::from(rate.value.max(1)),
        None => 0,
    };
    let longest = Way::ALL.into_iter().map(bytes).max().unwrap_or(0);
    Nanos(u64::try_from(longest).unwrap_or(u64::MAX).saturating_add(c.round_trip.value.0.saturating_mul(2)))
}
