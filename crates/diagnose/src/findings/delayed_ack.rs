//! A delayed ACK held back a full segment: the congestion window had room for so little that the
//! receiver waited for more.

use super::{Case, Drawn, FindingKind, Rule, View, times};
use crate::event::Event;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::DelayedAckStall,
    find,
    once: false,
    shortens: &[Limit::AckWaiting],
    needs: &[View::Receiver, View::BothDirections, View::Sender, View::AllBytes, View::HeldBack, View::Clock],
    or_unseen: &[View::Time],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let stalls = case.c.events.of(Event::DelayedAckStall, way)?;
    let worst = stalls.costliest()?;
    Some(Drawn {
        text: format!(
            "{}: a delayed ACK of the {} (packet {}, {} later than the path takes) kept the next full segment (packet {}) waiting; {} in all",
            times(stalls.count),
            way.receiver(),
            worst.packets[1],
            record::Nanos(worst.cost),
            worst.packets[2],
            stalls.total,
        ),
        worth: format!(
            "a window of two segments or more at the {}, or a receiver that acknowledges at once, saves {}",
            way.sender(),
            stalls.total
        ),
        ..Drawn::of(stalls)
    })
}
