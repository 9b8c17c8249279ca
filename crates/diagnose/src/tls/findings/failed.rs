//! A handshake that one side ended.

use record::tls::Outcome;

use super::{Shown, protocol, waited};
use crate::drawn::Begun as _;
use crate::tls::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (n, row) = (case.negotiation, &case.row);
    let by = row.ended_by.filter(|_| row.outcome == Outcome::Failed && !protocol::is_refused(case))?;
    let end = n.alert.map(|(.., m)| m).or(n.closed.map(|(_, m)| m))?;
    let (who, server) = (format!("the {by}"), case.server());
    let how = match (&row.alert, n.alert) {
        (Some(alert), _) => format!("{who} ended it with the alert {alert}"),
        (None, Some(_)) if n.sends_certificate => {
            format!(
                "{who} ended it with an alert, which is encrypted, after the client's answer to its wish for a certificate"
            )
        }
        (None, Some(_)) => format!("{who} ended it with an alert, which is encrypted"),
        (None, None) => format!("{who} closed the connection in the middle of it"),
    };
    let next = match row.alert.as_deref() {
        Some("unknown_ca" | "bad_certificate" | "certificate_unknown" | "certificate_expired") => {
            "look at the server's certificate, its chain, and what the client trusts: `openssl s_client -connect`"
        }
        Some("protocol_version" | "handshake_failure" | "insufficient_security") => {
            "compare the versions, cipher suites and groups that both sides are set up for"
        }
        Some("unrecognized_name") => {
            "compare the name that the client asks for with those that the server is set up for"
        }
        None if n.sends_certificate && n.alert.is_some() => {
            "look whether the client has a certificate for this server, and whether the server trusts who issued it"
        }
        _ => "look into the log of the side that ended it, and at the server's certificate",
    };
    let took = end.at.saturating_sub(n.began.at);
    Some(Shown {
        waited: waited(case, took),
        text: format!("the TLS handshake with {server} failed after {}: {how}", record::Nanos(took)),
        next: next.into(),
    })
}
