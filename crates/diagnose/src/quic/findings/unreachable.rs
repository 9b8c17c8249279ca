//! QUIC to a host that refuses it.

use record::Nanos;
use record::quic::Outcome;

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let end = case.of.unreachable.filter(|_| case.row.outcome == Outcome::Unreachable)?;
    let began = case.of.began.at;
    let until = case.fell_back.map_or(end.at, |tcp| tcp.start.max(end.at));
    let went_on = case.fell_back.map(|tcp| {
        format!(
            "; the client went on with TCP, connection {}, {} after it had begun",
            tcp.number,
            Nanos(tcp.start - began)
        )
    });
    Some(Shown {
        waited: began..until,
        text: format!(
            "{} cannot be reached by QUIC, as ICMP said after {}{}",
            case.server(),
            Nanos(end.at.saturating_sub(began)),
            went_on.unwrap_or_default()
        ),
        next: format!("have something listen at UDP port {} there, or do not announce it", case.row.server.port()),
    })
}
