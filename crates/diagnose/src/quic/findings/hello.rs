//! A client's hello that is larger than a datagram, as those with keys against quantum computers
//! are: the server waits for all of it.

use record::Nanos;

use super::{Shown, TRIP};
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (first, last) = case.of.hello_pieces.filter(|_| case.of.hello_datagrams > 1)?;
    let late = last.at.saturating_sub(first.at);
    (late >= TRIP).then(|| Shown {
        waited: first.at..last.at,
        text: format!(
            "the client's hello for {} came in {}, the last {} after the first: {}",
            case.server(),
            quantity::counted(case.row.hello_datagrams, "datagram"),
            Nanos(late),
            quantity::bytes(case.row.hello_bytes)
        ),
        next: "find out whether the path lost the first of them, or the client paused; a hello without keys against \
               quantum computers (X25519MLKEM768) fits into one datagram"
            .into(),
    })
}
