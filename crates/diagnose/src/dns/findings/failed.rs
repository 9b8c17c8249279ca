//! Errors: the server does not serve this client or this name, or could not find the answer itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use record::dns::DnsFinding;
use wire::packet::dns::code_name;

use super::{Shown, View, host};
use crate::dns::lookup::Case;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    let mut by: BTreeMap<(SocketAddr, u16), Shown<'_, '_>> = BTreeMap::new();
    for case in view.unusual() {
        for (i, e) in case.tries.iter().enumerate() {
            let Some(answer) = e.answer.as_ref().filter(|answer| !answer.is_of_name()) else { continue };
            // If the client goes on, it costs the time to the next try; else it ends there.
            let until = case.tries.get(i + 1).map_or(answer.at, |next| next.asked.max(answer.at));
            by.entry((e.server, answer.code)).or_default().add(case, e.asked..until);
        }
    }
    by.into_iter()
        .flat_map(|((server, code), shown)| {
            let of = view.servers.get(&server).map_or(0, |s| s.server.answered);
            let (n, at) = (shown.0.len() as u64, host(server));
            let share = match (n, of) {
                (1, 1) => "its only answer".to_owned(),
                _ if n == of => format!("all of its {n} answers"),
                _ => format!("{n} of its {of} answers"),
            };
            let text = |case: &Case<'_>| {
                let became = if case.is_resolved() { "another server resolved it" } else { "it was not resolved" };
                format!("{at} answered with {} ({share}), for {}: {became}", code_name(code), case.name())
            };
            let next = match code {
                5 => {
                    format!("{at} does not serve this client, or not this name: ask another server, or allow it there")
                }
                2 => format!("{at} could not find the answer itself: ask for its log (a server above it, or DNSSEC)"),
                _ => format!("find out what {at} does not take of the question, or ask another server"),
            };
            shown.finding(text, next)
        })
        .collect()
}
