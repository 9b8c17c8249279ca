//! A server that takes none of the application protocols that the client offers (RFC 7301, section
//! 3.2). One that passes over the offer instead answers without a protocol, and that is no failure.

use record::Nanos;
use record::conversation::Side;
use record::tls::Outcome;

use super::{Shown, waited};
use crate::drawn::Begun as _;
use crate::tls::analysis::Case;

/// Whether this is what ended a handshake.
pub(super) fn is_refused(case: &Case<'_>) -> bool {
    let row = &case.row;
    row.outcome == Outcome::Failed
        && row.ended_by == Some(Side::Server)
        && row.alert.as_deref() == Some("no_application_protocol")
}

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (.., end) = case.negotiation.alert.filter(|_| is_refused(case))?;
    let took = end.at.saturating_sub(case.negotiation.began.at);
    Some(Shown {
        waited: waited(case, took),
        text: format!(
            "the TLS handshake with {} failed after {}: the server takes {}",
            case.server(),
            Nanos(took),
            crate::drawn::none_of(&case.row.offered_protocols)
        ),
        next: crate::drawn::OFFER_ANOTHER.into(),
    })
}
