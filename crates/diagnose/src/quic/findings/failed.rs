//! A handshake that one side ended with an error in an Initial packet.

use record::Nanos;
use record::quic::Outcome;

use super::{Shown, protocol};
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let is_failed = case.row.outcome == Outcome::Failed && !protocol::is_refused(case);
    let (by, .., end) = case.of.close.filter(|_| is_failed)?;
    // Without an error, a client has chosen another way.
    let error = case.row.error.as_deref().filter(|error| *error != "NO_ERROR")?;
    let (who, server) = (format!("the {by}"), case.server());
    let next = match error {
        "unrecognized_name" => "compare the name that the client asks for with those that the server is set up for",
        "CONNECTION_REFUSED" => "look into the server's log: it may be overloaded, or about to end",
        "INVALID_TOKEN" => "have all servers behind the address share the key of their tokens",
        _ => "look into the log of the side that ended it",
    };
    let took = Nanos(end.at.saturating_sub(case.of.began.at));
    Some(Shown {
        waited: case.of.began.at..end.at,
        text: format!("the QUIC handshake with {server} failed after {took}: {who} closed it with {error}"),
        next: next.into(),
    })
}
