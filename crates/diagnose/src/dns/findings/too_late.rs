//! Answers that nobody waits for: the client has closed its socket, and its host says so.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use record::Nanos;
use record::dns::DnsFinding;

use super::{Shown, View, host};
use crate::dns::lookup::Case;

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    let mut by: BTreeMap<SocketAddr, Shown<'_, '_>> = BTreeMap::new();
    for case in view.unusual() {
        for e in &case.tries {
            if e.refused().is_some() {
                // When it gave up is not known: after its last question.
                let asked = case.first().asked;
                by.entry(e.server).or_default().add(case, asked..asked + case.waited());
            }
        }
    }
    by.into_iter()
        .flat_map(|(server, shown)| {
            let (at, more) = (host(server), shown.more());
            let text = |case: &Case<'_>| {
                let late = case.tries.iter().filter(|e| e.server == server).filter_map(|e| e.refused());
                let late = late.map(|answer| answer.at).max();
                let after = Nanos(late.unwrap_or_default().saturating_sub(case.first().asked));
                format!(
                    "{at} answered {} {after} after the first question, when the client no longer waited: ICMP port \
                     unreachable came back{more}",
                    case.name()
                )
            };
            let next = format!("find out why {at} takes so long, or why the client gives up so soon");
            shown.finding(text, next)
        })
        .collect()
}
