//! A server that takes none of the application protocols that the client offers: over QUIC it has
//! to refuse the connection then (RFC 9001, section 8.1).

use record::Nanos;
use record::conversation::Side;
use record::quic::Outcome;

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

/// Whether this is what ended a handshake.
pub(super) fn is_refused(case: &Case<'_>) -> bool {
    let row = &case.row;
    row.outcome == Outcome::Failed
        && row.closed_by == Some(Side::Server)
        && row.error.as_deref() == Some("no_application_protocol")
}

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (.., end) = case.of.close.filter(|_| is_refused(case))?;
    let began = case.of.began.at;
    Some(Shown {
        waited: began..end.at,
        text: format!(
            "the QUIC handshake with {} failed after {}: the server takes {}",
            case.server(),
            Nanos(end.at.saturating_sub(began)),
            crate::drawn::none_of(&case.row.offered_protocols)
        ),
        next: crate::drawn::OFFER_ANOTHER.into(),
    })
}
