//! A request that was answered on a later try.

use record::Nanos;

use super::Shown;
use crate::udp::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let turns = &case.of.filter(|_| case.row.answered > 0 && case.streams.is_empty())?.turns;
    let late = turns.late?;
    let more = match turns.later_tries {
        1 => String::new(),
        n => format!(", as it did {} more", quantity::counted(n - 1, "time")),
    };
    Some(Shown {
        waited: late.asked.at..late.answered.at,
        text: format!(
            "{} answered after {}, when the request had been sent {} times{more}",
            case.row.server,
            Nanos(late.took()),
            late.tries
        ),
        next:
            "the first try, or its answer, was lost or came late: compare with a capture at the other end; a shorter \
               time-out of the client bounds the wait"
                .into(),
    })
}
