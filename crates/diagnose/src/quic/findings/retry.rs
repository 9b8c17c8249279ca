//! A server that has clients show first that their address is their own (RFC 9000, section 8.1.2).

use record::Nanos;

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let ((retry, trip), again) = (case.of.retry?, case.of.again?);
    let from = retry.at.saturating_sub(trip);
    Some(Shown {
        waited: from..again.at,
        text: format!(
            "{} answered with a Retry, which cost a round trip: {}",
            case.server(),
            Nanos(again.at.saturating_sub(from))
        ),
        next: "servers send one when they are flooded: look whether this one is, or is set to do so always; a token of an \
               earlier connection (NEW_TOKEN) saves it"
            .into(),
    })
}
