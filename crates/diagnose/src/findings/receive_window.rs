//! The receive window was full although the receiver kept up: its buffer is too small for the path.

use super::{Case, Drawn, FindingKind, Rule, View};
use crate::event::Event;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::ReceiveWindow,
    find,
    once: false,
    shortens: &[Limit::ReceiveWindow],
    needs: &[View::AllSubflows, View::Receiver, View::BothDirections, View::Handshake, View::Sender, View::AllBytes],
    or_unseen: &[],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let (h, share) = (case.sender(way), case.share(way, Limit::ReceiveWindow));
    if share < 0.10 || h.anomalies.full_windows == 0 || !case.keeps_up(way) {
        return None;
    }
    if (super::window_scaling::RULE.find)(case, way).is_some() {
        return None;
    }
    let trip = case.round_trip(way)?;
    let rtt = trip.usual();
    let cost = case.time(way, Limit::ReceiveWindow);
    let full = case.c.events.of(Event::WindowFull, way)?;
    let ceiling = case.window_rate(way, rtt);
    let now = case.rate(way);
    let worth = match case.burst_rate(way).filter(|b| b.0 > now.0) {
        Some(burst) => format!(
            "a receive window of {} KiB over this RTT: bursts got through at {burst}, against {now} on the whole",
            (burst.0 / 8.0 * rtt.as_secs_f64() / 1024.0).ceil()
        ),
        None => format!("a larger receive buffer saves up to {} of the time", quantity::percent(share)),
    };
    Some(Drawn {
        packets: full.packets(),
        at: full.first_at(),
        count: h.anomalies.full_windows,
        cost,
        text: format!(
            "the {}'s receive window of {} bytes was full for {cost} ({}): over an RTT of {trip} it lets no more than {ceiling} through",
            way.receiver(),
            h.anomalies.full_most,
            quantity::percent(share)
        ),
        worth,
    })
}
