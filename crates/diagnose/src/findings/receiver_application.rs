//! The receiving application read more slowly than data came: its window shrank while the sender
//! filled it.

use super::{Case, Drawn, FindingKind, Rule, View};
use crate::event::Event;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::ReceiverApplication,
    find,
    once: false,
    shortens: &[Limit::ReceiveWindow],
    needs: &[View::AllSubflows, View::Receiver, View::BothDirections, View::Sender, View::AllBytes],
    or_unseen: &[View::Handshake, View::Time],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let (h, share) = (case.sender(way), case.share(way, Limit::ReceiveWindow));
    let largest = case.receiver(way).window.largest();
    let shrank =
        h.anomalies.full_shrunk * 4 > h.anomalies.full_windows || case.receiver(way).anomalies.zero_windows > 0;
    if share < 0.10 || !shrank {
        return None;
    }
    let cost = case.time(way, Limit::ReceiveWindow);
    let full = case.c.events.of(Event::WindowFull, way);
    Some(Drawn {
        packets: full.map(|e| e.packets()).unwrap_or_default(),
        at: full.map_or(case.c.first_at, |e| e.first_at()),
        count: h.anomalies.full_windows,
        cost,
        text: format!(
            "the {}'s application reads more slowly than data comes: its window shrank from {largest} bytes to {} while the sender stood at its edge for {cost} ({})",
            way.receiver(),
            if case.receiver(way).anomalies.zero_windows > 0 { 0 } else { h.anomalies.full_least },
            quantity::percent(share)
        ),
        worth: format!(
            "a {} that reads as fast as data comes saves up to {} of the time",
            way.receiver(),
            quantity::percent(share)
        ),
    })
}
