//! A client whose address changed in the middle of a connection: it moved to another network, or a
//! NAT on the way forgot it.

use super::Shown;
use crate::drawn::Begun as _;
use crate::quic::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (c, row) = (case.of, &case.row);
    let (at, to) = (c.first_move?.at, c.moved_to.first()?);
    let is_port = to.ip() == c.client.ip();
    let what = if is_port { "port" } else { "address" };
    let times = match row.moves {
        1 => String::new(),
        n => format!(", the first of {} changes", quantity::count(n)),
    };
    Some(Shown {
        waited: at..at,
        text: format!(
            "the client's {what} changed from {} to {to} in the middle of a connection with {}{times}",
            c.client,
            case.server()
        ),
        next: if is_port {
            "if the client did not change its port itself, a NAT on the way forgot it: raise its time-out for UDP, or send \
             something more often"
                .into()
        } else {
            "if the client did not change its network itself, look at what translates addresses on the way".into()
        },
    })
}
