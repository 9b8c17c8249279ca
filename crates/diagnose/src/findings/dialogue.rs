//! A dialogue: request and answer by turns, each of which costs the path's round trip.

use record::Nanos;

use super::{Case, Drawn, FindingKind, Rule, View, times};
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::RoundTrips,
    find,
    once: false,
    shortens: &[Limit::Application],
    needs: &[View::AllSubflows, View::BothDirections, View::AllBytes],
    or_unseen: &[View::Time],
};

/// `way` is the direction of the answers.
fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let turns = case.c.turns[way];
    let asked = case.receiver(way);
    if asked.rtt.acknowledged_nearer().is_some() {
        // The handshake's round trip is the path to the end; what of an answer's time it makes
        // beyond what acknowledges does not show.
        return None;
    }
    let path = if asked.rtt.handshake != u64::MAX { asked.rtt.handshake } else { asked.rtt.base()? };
    let mean = turns.total / u64::from(turns.count.max(1));
    // What an answer takes beyond the path is its maker's thinking, and no round trip.
    let trips = path.min(mean).saturating_mul(turns.count.into());
    if turns.count < 5 || path < 5_000_000 || trips.saturating_mul(10) < case.duration.0.saturating_mul(3) {
        return None;
    }
    let who = way.sender();
    Some(Drawn {
        packets: turns.longest_packets.into_iter().filter(|n| *n > 0).collect(),
        at: case.c.first_at,
        count: turns.count.into(),
        cost: Nanos(trips),
        text: format!(
            "{} the {} waited for the {who} to answer, {} each on average, of which the path alone takes {}: {} of the {} went into round trips ({})",
            times(turns.count.into()),
            way.receiver(),
            Nanos(mean),
            Nanos(path.min(mean)),
            Nanos(trips),
            case.duration,
            quantity::percent(trips as f64 / case.duration.0.max(1) as f64),
        ),
        worth: format!(
            "every turn saved, by pipelining or by asking for more at once, saves {}; bandwidth and windows change nothing here{}",
            Nanos(path.min(mean)),
            if way == Way::ToClient { ", a server closer by does" } else { "" }
        ),
    })
}
