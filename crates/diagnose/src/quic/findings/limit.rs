//! A server whose certificate is larger than three times what it has received: it waits for the
//! client's next packet (RFC 9000, section 8.1).

use record::Nanos;

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (from, _) = case.of.limit.first?;
    (case.row.limited_ns > Nanos::ZERO).then(|| Shown {
        waited: from.at..from.at.saturating_add(case.row.limited_ns.0),
        text: format!(
            "{} may send three times what it has received before it knows the client's address, and waited {} within its \
             flight of {}",
            case.server(),
            case.row.limited_ns,
            quantity::bytes(case.row.flight_bytes)
        ),
        next: "send fewer and smaller certificates (no root, ECDSA keys, compression of certificates by RFC 8879), or have \
               clients fill several datagrams"
            .into(),
    })
}
