//! A server that thinks before it answers in the handshake.

use super::{LONG, Shown};
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let row = &case.row;
    let (wait, trip, answered) = (row.server_wait_ns?, row.to_server_ns?, case.of.answered?);
    (wait.0 >= LONG && wait >= trip).then(|| Shown {
        waited: answered.at.saturating_sub(wait.0)..answered.at,
        text: format!("{} took {wait} to answer the client's hello, beside the path's {trip}", case.server()),
        next: "look at the server's CPU time, and at what it asks others during a handshake (keys, a certificate for the name)"
            .into(),
    })
}
