//! A session of TLS 1.2 that the client wanted to go on with, and the server did not.

use record::Nanos;

use super::{Shown, TRIP, waited};
use crate::drawn::Begun as _;
use crate::tls::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (n, row) = (case.negotiation, &case.row);
    // With TLS 1.3 it saves work, and no round trip.
    let is_refused = row.resumption_offered && row.resumed == Some(false) && !n.is_13() && row.took_ns.is_some();
    let trip = case.trip.filter(|trip| *trip >= TRIP)?;
    is_refused.then(|| Shown {
        waited: waited(case, trip),
        text: format!(
            "{} did not go on with the session that the client offered, which would have saved a round trip: {}",
            case.server(),
            Nanos(trip)
        ),
        next: "have all servers behind the name share their session tickets' keys or their cache of sessions, and keep them \
               long enough"
            .into(),
    })
}
