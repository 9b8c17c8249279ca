//! A server that does not speak the client's version (RFC 9000, section 6).

use record::Nanos;

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (row, (named, trip), renewed) = (&case.row, case.of.negotiation?, case.of.renewed?);
    let from = named.at.saturating_sub(trip);
    Some(Shown {
        waited: from..renewed.at,
        text: format!(
            "{} does not speak {}, with which the client began, and named {}: that cost a round trip, {}",
            case.server(),
            row.first_version,
            row.server_versions,
            Nanos(renewed.at.saturating_sub(from))
        ),
        next: format!("have the client begin with {}, or the server speak {}", row.version, row.first_version),
    })
}
