//! The receiver closed its window.

use super::{Case, Drawn, FindingKind, Rule, View, times};
use crate::event::Event;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::ZeroWindow,
    find,
    once: false,
    shortens: &[Limit::ReceiveWindow],
    needs: &[View::AllSubflows, View::Receiver, View::Acks],
    or_unseen: &[],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let receiver = case.receiver(way);
    let closed = case.c.events.of(Event::ZeroWindow, !way);
    // One that never opened again counts to the end of the connection.
    let still_closed = receiver.window.closed_since().filter(|_| receiver.anomalies.reset.is_none());
    let open_end = still_closed.map_or(0, |since| case.c.last_at.saturating_sub(since));
    if closed.is_none() && open_end == 0 {
        return None;
    }
    let mut packets = closed.map(|e| e.packets()).unwrap_or_default();
    if open_end > 0 {
        packets.insert(0, receiver.anomalies.zero_number);
    }
    let total = closed.map_or(record::Nanos::ZERO, |e| e.total) + record::Nanos(open_end);
    let longest = closed.and_then(|e| e.costliest()).map_or(0, |e| e.cost).max(open_end);
    let count = closed.map_or(0, |e| e.count) + u64::from(open_end > 0);
    Some(Drawn {
        packets,
        at: closed.map_or(still_closed.unwrap_or_default(), |e| e.first_at()),
        count,
        cost: total,
        text: format!(
            "the {} closed its window {} for {total} in all, the longest {}{}: its application did not read",
            way.receiver(),
            times(count),
            record::Nanos(longest),
            if open_end > 0 { ", and it was still closed at the end" } else { "" },
        ),
        worth: format!("a {} that reads as fast as data comes saves {total}", way.receiver()),
    })
}
