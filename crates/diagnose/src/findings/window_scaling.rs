//! Window scaling was not in use, and the window of at most 65,535 bytes held the sender back (RFC
//! 7323, section 2).

use record::Nanos;

use super::{Case, Drawn, FindingKind, Rate, Rule, View};
use crate::event::Event;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::WindowScalingMissing,
    find,
    once: false,
    shortens: &[Limit::ReceiveWindow],
    needs: &[View::Receiver, View::BothDirections, View::Handshake, View::Sender, View::AllBytes],
    or_unseen: &[],
};

/// The largest window without scaling (RFC 9293, section 3.1).
const CEILING: u64 = 65_535;

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let [client, server] = &case.c.halves;
    if !client.offered.seen || !server.offered.seen || client.offered.cut || server.offered.cut {
        return None;
    }
    let culprit = match (client.offered.window_scale, server.offered.window_scale) {
        (Some(_), Some(_)) => return None,
        // A server must not send the option unless the SYN had it (section 2.2), so its silence
        // says nothing here.
        (None, _) => ("client", "its SYN has none, and without that the server must not answer with one"),
        (Some(_), None) => ("server", "the SYN offered it, the SYN-ACK does not answer"),
    };
    let (h, rtt, trip) = (case.sender(way), case.rtt(way)?, case.round_trip(way)?);
    // A receiver with a window far below the ceiling would not gain by a scale.
    if h.anomalies.full_windows == 0 || h.anomalies.full_most < CEILING / 2 {
        return None;
    }
    // A closed window is the reader's doing, and would be with scaling too.
    let closed = case.c.events.of(Event::ZeroWindow, !way).map_or(Nanos::ZERO, |e| e.total);
    let held = case.time(way, Limit::ReceiveWindow).saturating_sub(closed);
    if h.anomalies.full_windows < 10 && held.0 < case.duration.0 / 20 {
        return None;
    }
    let ceiling = Rate(CEILING as f64 * 8.0 / rtt.as_secs_f64().max(1e-6));
    let mut packets = vec![case.c.first_number];
    packets.extend(case.c.events.of(Event::WindowFull, way).map(|e| e.packets()).unwrap_or_default());
    let now = case.rate(way);
    let worth = match case.burst_rate(way).filter(|b| b.0 > now.0) {
        Some(burst) => format!(
            "with scaling on at both ends the window no longer sets the rate: {now} now, and the path carried bursts at {burst} ({:.1} times as much), for which the receiver needs a window of {} KiB",
            burst.0 / now.0.max(1.0),
            (burst.0 / 8.0 * rtt.as_secs_f64() / 1024.0).ceil()
        ),
        None => format!(
            "with scaling on at both ends the window no longer sets the rate ({now} now): up to {} of the connection's time",
            quantity::percent(held.0 as f64 / case.duration.0.max(1) as f64)
        ),
    };
    Some(Drawn {
        packets,
        at: case.c.first_at,
        count: h.anomalies.full_windows,
        cost: held,
        text: format!(
            "window scaling is off because the {} left it out ({}; or a box on the way took it out): the window cannot pass 65,535 bytes, so over an RTT of {trip} no more than {ceiling} can flow; the sender filled the window {} times and waited {held} for it ({}), closed windows not counted",
            culprit.0,
            culprit.1,
            h.anomalies.full_windows,
            quantity::percent(held.0 as f64 / case.duration.0.max(1) as f64),
        ),
        worth,
    })
}
