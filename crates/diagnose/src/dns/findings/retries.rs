//! A lost question or answer: the client waits for its timeout, seconds mostly, and asks again.

use std::net::SocketAddr;

use record::Nanos;
use record::dns::DnsFinding;

use super::{Asked, BOUND, Shown, View, host};
use crate::dns::lookup::Case;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    view.servers().filter(|s| s.server.answered > 0).flat_map(of_server).collect()
}

fn of_server(asked: &Asked<'_, '_>) -> Vec<DnsFinding> {
    let (mut shown, server) = (Shown::default(), asked.server.server);
    for &(case, i) in asked.tries.iter().filter(|(case, _)| case.is_resolved()) {
        let e = case.tries[i];
        if let Some(waited) = case.waited_for(i).filter(|_| e.answered_at().is_none() && !e.tcp && !e.is_left_for_tcp())
        {
            shown.add(case, waited);
        }
    }
    let more = shown.more();
    let next = format!(
        "a question or its answer was lost on the way, or {} dropped it: a capture there shows which; {BOUND}",
        host(server)
    );
    shown.finding(|case| text(case, server) + &more, next)
}

fn text(case: &Case<'_>, server: SocketAddr) -> String {
    let i = case.at.unwrap_or_default();
    let by = case.tries[i];
    let (took, after) = (Nanos(case.took().unwrap_or_default()), Nanos(by.asked.saturating_sub(case.first().asked)));
    let what = if by.server != server {
        format!("{} did not answer, and {} was asked {after} after the first try", host(server), host(by.server))
    } else if by.repeats {
        // The same message: which of the two was answered is not to be seen.
        let answered = Nanos(by.took().unwrap_or_default());
        format!(
            "{} answered {answered} after the {} try, {after} after the first",
            host(server),
            quantity::ordinal(i + 1)
        )
    } else {
        format!("{} answered only the {} try, {after} after the first", host(server), quantity::ordinal(i + 1))
    };
    format!("{} took {took} to resolve: {what}", case.name())
}
