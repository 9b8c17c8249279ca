//! A request that was repeated, and that nobody answered.

use record::Nanos;

use super::Shown;
use crate::udp::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let open = case.given_up?;
    let what = case.row.protocol.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
    let server = case.row.server;
    let waited = open.last.at.saturating_sub(open.first.at);
    let others = match case.row.answered {
        0 => String::new(),
        n => format!(", after {} before it", quantity::counted(n, "answered request")),
    };
    Some(Shown {
        waited: open.first.at..open.last.at,
        text: format!(
            "{server} did not answer a request{what}, which was sent {} times within {}{others}",
            open.tries,
            Nanos(waited)
        ),
        next: format!(
            "see whether it reaches {} (a capture there), whether something listens at UDP port {}, and whether a firewall \
             between drops it",
            server.ip(),
            server.port()
        ),
    })
}
