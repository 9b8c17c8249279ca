//! A HelloRetryRequest: the server takes none of the keys that the client sent (RFC 8446, section
//! 4.1.4).

use wire::packet::tls::group_name;

use super::{Shown, waited};
use crate::drawn::Begun as _;
use crate::tls::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (n, row) = (case.negotiation, &case.row);
    n.again?;
    let sent = n.client_hello.as_ref().map(|hello| &hello.key_shares).filter(|sent| !sent.is_empty());
    let sent = sent.map(|sent| sent.iter().map(|g| group_name(*g)).collect::<Vec<_>>().join(" and "));
    let sent = sent.map_or_else(String::new, |sent| format!("; the client had sent a key of {sent}"));
    let wants = n.retry_group.map_or_else(
        || "another hello of the client".to_owned(),
        |group| format!("a key of the group {}", group_name(group)),
    );
    Some(Shown {
        waited: waited(case, row.retry_ns.0),
        text: format!(
            "{} answered with a HelloRetryRequest, which cost {}: it wants {wants}{sent}",
            case.server(),
            row.retry_ns
        ),
        next: match n.retry_group {
            Some(group) => format!(
                "have the server take a group of which the client sends a key, or the client send one of {} first",
                group_name(group)
            ),
            None => "find out why the server asks again: it may want a cookie, or another cipher suite".into(),
        },
    })
}
