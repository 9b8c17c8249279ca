//! A name that nobody resolves, by servers that answer for others: each question may have been
//! lost, or the server gets no answer itself.

use std::collections::HashSet;

use record::Nanos;
use record::dns::{Answered, DnsFinding};

use super::{BOUND, Shown, View, host};
use crate::dns::lookup::Case;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    // A name of which one address is known is resolved; the other one has its own finding.
    let unanswered = || view.unusual().filter(|case| case.answered == Answered::Unanswered);
    let asked: HashSet<_> = unanswered().map(|case| (case.client(), &*case.first().name)).collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let found = view.cases().filter(|case| case.answered == Answered::Found && case.is_address());
    let found: HashSet<_> =
        found.map(|case| (case.client(), &*case.first().name)).filter(|name| asked.contains(name)).collect();
    let mut shown = Shown::default();
    for case in unanswered() {
        let first = case.first();
        let is_known = case.is_address() && found.contains(&(case.client(), &*first.name));
        // What came too late has its own finding, and is an answer.
        let came = case.tries.iter().any(|e| e.refused().is_some());
        if !is_known && !came && case.tries.iter().any(|e| view.answers(e.server)) {
            shown.add(case, first.asked..first.asked + case.waited());
        }
    }
    let more = shown.more();
    let Some(server) = shown.worst().map(|(case, _)| host(case.first().server)) else { return Vec::new() };
    let text = |case: &Case<'_>| {
        let asked = match case.tries.len() as u64 {
            1 => format!("{server} did not answer the only question"),
            n => format!("none of {n} questions in {} was answered", Nanos(case.waited())),
        };
        format!("{} was not resolved: {asked}{more}", case.name())
    };
    let next =
        format!("ask {server} for the name from elsewhere: it may wait for a server that does not answer it; {BOUND}");
    shown.finding(text, next)
}
