//! A server that answers nothing: a host that is down, or a firewall on the way.

use record::Nanos;
use record::dns::DnsFinding;

use super::{Asked, BOUND, Shown, View, host};
use crate::dns::lookup::Case;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    let is_silent = |s: &&Asked<'_, '_>| {
        let s = s.server;
        s.answered == 0 && s.unreachable == 0 && s.unanswered > 0
    };
    view.servers().filter(is_silent).flat_map(of_server).collect()
}

fn of_server(asked: &Asked<'_, '_>) -> Vec<DnsFinding> {
    let (mut shown, at) = (Shown::default(), asked.server.server);
    for &(case, i) in &asked.tries {
        // The last try has no next one to show how long it was waited for.
        let own = case.tries[i].asked;
        match case.waited_for(i) {
            Some(waited) => shown.add(case, waited),
            None if case.at.is_none() => shown.add(case, own..own),
            None => {}
        }
    }
    let none = format!("{} answered none of {}", host(at), quantity::counted(asked.server.unanswered, "question"));
    let Some((_, waited)) = shown.worst() else { return Vec::new() };
    let text = |case: &Case<'_>| match case.at {
        Some(i) => {
            let (took, by) = (Nanos(case.took().unwrap_or_default()), host(case.tries[i].server));
            let (name, waited) = (case.name(), Nanos(waited));
            format!(
                "{name} took {took} to resolve: {} did not answer, and {by} was asked {waited} later; {none}",
                host(at)
            )
        }
        None if waited > 0 => {
            format!("{} was not resolved: {none}, and the client asked again for {}", case.name(), Nanos(waited))
        }
        None => format!("{} was not resolved: {none}", case.name()),
    };
    let next = format!(
        "find out why {} does not answer (it is down, or something on the way drops UDP port {}) and take it out of \
         resolv.conf until it does; {BOUND}",
        host(at),
        at.port()
    );
    shown.finding(text, next)
}
