//! A server that takes long for its first answer. What it sends is encrypted, but who ends a
//! silence shows: a client that has not asked yet would end it itself, and what was lost is
//! repaired sooner than after six round trips.

use record::Nanos;

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

/// The least pause that is told, ns.
const LEAST: u64 = 100_000_000;
/// Round trips that a pause takes at least. A time-out that repairs takes about three (RFC 9002,
/// section 6.2.1).
const TRIPS: u64 = 6;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let ((from, to), row) = (case.of.server_pause?, &case.row);
    let took = to.at.saturating_sub(from.at);
    let (there, back) = (row.to_server_ns?, row.to_client_ns.unwrap_or_default());
    let trip = there.0 + back.0;
    // A time-out after one that was lost as well is twice as long.
    (took >= LEAST && took >= TRIPS * trip).then(|| Shown {
        waited: from.at.saturating_add(there.0).min(to.at)..to.at,
        text: format!(
            "nothing passed for {} after the QUIC handshake with {}, until the server went on by itself: it, or what it asks, \
             took that long for an answer, beside the path's {}",
            Nanos(took),
            case.server(),
            Nanos(trip)
        ),
        next: "look at the server's time for this request: its CPU time, and what it asks others (a database, another service)"
            .into(),
    })
}
