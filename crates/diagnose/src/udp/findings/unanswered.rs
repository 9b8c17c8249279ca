//! A request that was repeated, and that nobody answered; or requests among answered ones that the
//! client gave up.

use record::Nanos;
use record::udp::Shape;

use super::Shown;
use crate::udp::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    of_repeated(case).or_else(|| of_passed(case))
}

fn of_passed(case: &Case<'_>) -> Option<Shown> {
    let row = &case.row;
    let of = case.of.filter(|_| row.shape == Shape::RequestResponse && case.streams.is_empty())?;
    let (count, from, to) = of.turns.passed()?;
    let (server, waited) = (row.server, Nanos(to.at.saturating_sub(from.at)));
    let share = quantity::percent(quantity::share(count.into(), row.requests.into()));
    Some(Shown {
        waited: from.at..to.at,
        text: format!(
            "{server} left {} of {} without an answer ({share}): the client waited up to {waited} for one before it sent the next",
            quantity::count(count),
            quantity::counted(row.requests, "request")
        ),
        next: format!(
            "requests or answers were lost, or {} did not answer these: a capture there shows which",
            server.ip()
        ),
    })
}

fn of_repeated(case: &Case<'_>) -> Option<Shown> {
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
