//! A server that does not answer QUIC: it does not speak it, or UDP is blocked on the way.

use record::Nanos;
use record::quic::Outcome;

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (c, row) = (case.of, &case.row);
    if row.outcome != Outcome::Unanswered {
        return None;
    }
    let (began, server) = (c.began.at, case.server());
    let asked =
        format!("{server} did not answer QUIC ({} in {})", quantity::counted(row.probes + 1, "hello"), row.probes_ns);
    let (until, text) = match case.fell_back {
        Some(tcp) => {
            let after = Nanos(tcp.start - began);
            (
                tcp.start,
                format!("{asked}: the client went on with TCP, connection {}, {after} after it had begun", tcp.number),
            )
        }
        None => (c.last_probe.map_or(began, |probe| probe.at), asked),
    };
    Some(Shown {
        waited: began..until,
        text,
        next: format!(
            "find out whether something on the way drops UDP port {}, or whether the server has no QUIC: then it should \
             not announce it (Alt-Svc, HTTPS records)",
            row.server.port()
        ),
    })
}
