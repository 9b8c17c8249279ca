//! Echo requests that have no answer.

use std::collections::BTreeMap;

use super::{Shown, View, by};
use crate::network::analysis::EchoCase;

pub(super) fn draw(view: &View<'_>) -> BTreeMap<String, Vec<Shown>> {
    by(&view.echoes, |case| of_case(case).map(|shown| (case.row.server.to_string(), shown)))
}

fn of_case(case: &EchoCase) -> Option<Shown> {
    let row = &case.row;
    if row.lost == 0 {
        return None;
    }
    let since = case.unanswered.since;
    let (text, next) = match row.answered {
        0 => (
            format!("{} answered none of {}", row.server, quantity::counted(row.lost, "echo request")),
            format!(
                "many hosts and firewalls drop echo requests: try {} by TCP (`wirelapse probe`) before calling it down",
                row.server
            ),
        ),
        _ => (
            format!(
                "{} left {} of {} without an answer ({})",
                row.server,
                quantity::count(row.lost),
                quantity::counted(row.sent, "echo request"),
                quantity::percent(quantity::share(row.lost.into(), row.sent.into()))
            ),
            format!(
                "requests or answers were lost, or {} answers only so many a second: a capture there shows which",
                row.server
            ),
        ),
    };
    Some(Shown {
        number: row.number,
        client: row.client,
        // Whoever asks goes on without an answer.
        waited: since..since,
        packets: case.unanswered.packets.clone(),
        text,
        next,
    })
}
