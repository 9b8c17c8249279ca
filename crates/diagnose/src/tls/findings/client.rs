//! A client that thinks before it goes on with the handshake.

use super::{LONG, Shown, waited};
use crate::drawn::Begun as _;
use crate::tls::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let row = &case.row;
    let (client, path, all) = (row.client_wait_ns?, row.path_wait_ns?, row.took_ns?);
    if client.0 < LONG || client < path {
        return None;
    }
    Some(Shown {
        waited: waited(case, client.0),
        text: format!(
            "the TLS handshake with {} took {all}: {client} of it after the server's certificate, waiting for the client",
            case.server()
        ),
        next: "look at what the client does before it trusts a certificate (OCSP, a list of revoked ones, a user's \
               consent, a smart card) and at its CPU time"
            .into(),
    })
}
