//! TLS 1.2, where the client can do TLS 1.3: its handshake takes two round trips instead of one.

use record::Nanos;
use wire::packet::tls::TLS13;

use super::{Shown, TRIP, waited};
use crate::drawn::Begun as _;
use crate::tls::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (n, row) = (case.negotiation, &case.row);
    let offered = n.client_hello.as_ref().is_some_and(|hello| hello.versions.contains(&TLS13));
    let (version, trip) = (row.version.as_ref()?, case.trip?);
    // A resumption takes one in either.
    let is_longer = offered && !n.is_13() && row.resumed == Some(false) && row.took_ns.is_some();
    (is_longer && trip >= TRIP).then(|| Shown {
        waited: waited(case, trip),
        text: format!(
            "{} chose {version} although the client offers TLS 1.3, which takes a round trip less: {}",
            case.server(),
            Nanos(trip)
        ),
        next: "have the server (or the proxy before it) speak TLS 1.3".into(),
    })
}
