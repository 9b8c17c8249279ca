//! A server that is not there: ICMP says so, and clients go on to the next one without a wait.

use record::dns::DnsFinding;

use super::{Asked, Shown, View, host};

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    view.servers().filter(|s| s.server.unreachable > 0).flat_map(of_server).collect()
}

fn of_server(asked: &Asked<'_, '_>) -> Vec<DnsFinding> {
    let mut shown = Shown::default();
    for &(case, i) in &asked.tries {
        let e = case.tries[i];
        if let Some((at, _)) = e.unreachable {
            shown.add(case, e.asked..case.tries.get(i + 1).map_or(at, |next| next.asked));
        }
    }
    let (at, questions) = (host(asked.server.server), quantity::counted(asked.server.unreachable, "question"));
    let text =
        format!("ICMP came in answer to {questions} to {at}: nothing listens on its port, or it cannot be reached");
    let next = format!("start the server on {at}, or take it out of resolv.conf");
    shown.finding(|_| text, next)
}
