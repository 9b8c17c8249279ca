//! Nagle's algorithm met a delayed ACK: a part-filled segment, or the FIN, stood waiting for an ACK
//! that the receiver held back.

use super::{Case, Drawn, FindingKind, Rule, View, times};
use crate::event::Event;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::NagleDelayedAck,
    find,
    once: false,
    shortens: &[Limit::AckWaiting],
    needs: &[View::AllSubflows, View::BothDirections, View::Sender, View::AllBytes, View::HeldBack, View::Clock],
    or_unseen: &[View::Time],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let stalls = case.c.events.of(Event::NagleStall, way)?;
    let worst = stalls.costliest()?;
    let (held, released) = (worst.detail >> 32, worst.detail & 0xffff_ffff);
    let what = if released == 0 { "the FIN".to_owned() } else { format!("the next {released} bytes") };
    // Of the receiver's ACKs that were not held back, as they passed here: at the receiver's host
    // that is its own time, and nothing of the path's.
    let quickest = case.sender(way).rtt.recent().unwrap_or(0);
    Some(Drawn {
        text: format!(
            "{}: the {} acknowledged packet {} ({held} bytes) {} later than its quickest ACK, which came {} after the data here (packet {} is a delayed ACK), and Nagle's algorithm let {what} (packet {}) go only then; {} in all",
            times(stalls.count),
            way.receiver(),
            worst.packets[0],
            super::precise(record::Nanos(worst.cost)),
            record::Nanos(quickest),
            worst.packets[1],
            worst.packets[2],
            stalls.total,
        ),
        worth: format!(
            "TCP_NODELAY at the {}, or one write for what belongs together, saves {}; so does a {} that acknowledges at once",
            way.sender(),
            stalls.total,
            way.receiver()
        ),
        ..Drawn::of(stalls)
    })
}
