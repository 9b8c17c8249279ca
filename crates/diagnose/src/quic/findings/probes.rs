//! A client that had to send its hello again before the server answered: it, or the answer, was
//! lost. Where the server's first answer acknowledges the first hello, nothing was: the client's
//! time-out was shorter than the round trip or the server's time to think.

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;
use crate::quic::conversation::Lost;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (c, row) = (case.of, &case.row);
    let (last, _) = (c.last_probe?, c.heard.or(c.retry.map(|(m, _)| m)).or(c.negotiation.map(|(m, _)| m))?);
    let what = match c.lost {
        Some(Lost::Nothing) => return None,
        // An answer without an ACK (an error) does not show to which hello it is.
        None if c.retry.is_none() && c.negotiation.is_none() => return None,
        Some(Lost::Hello) => "; its ACK shows that the first hello did not arrive",
        Some(Lost::Answer) => "; its numbers show that it had answered before",
        None => "",
    };
    Some(Shown {
        waited: last.at.saturating_sub(c.probes_waited)..last.at,
        text: format!(
            "{} answered only after the client had sent its hello again ({}): that cost {}{what}",
            case.server(),
            quantity::counted(row.probes, "time"),
            row.probes_ns
        ),
        next: "look for losses on the path: only a time-out repairs the first packets of a connection".into(),
    })
}
