//! A server that thinks before it answers in the handshake.

use super::{LONG, Shown, waited};
use crate::drawn::Begun as _;
use crate::tls::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let row = &case.row;
    let (server, path, all) = (row.server_wait_ns?, row.path_wait_ns?, row.took_ns?);
    if server.0 < LONG || server < path {
        return None;
    }
    Some(Shown {
        waited: waited(case, server.0),
        text: format!(
            "the TLS handshake with {} took {all}: {server} waiting for the server, {path} for the path",
            case.server()
        ),
        next:
            "look at whether the server accepts connections late, at its CPU time, and at what it asks others during a \
               handshake (keys, OCSP, a certificate for the name)"
                .into(),
    })
}
