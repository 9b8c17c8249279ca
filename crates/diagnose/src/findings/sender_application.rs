//! The application did not give or answer fast enough: the network was not what was waited for.

use super::{Case, Drawn, FindingKind, Rule, View};
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::SenderApplication,
    find,
    once: true,
    shortens: &[Limit::Application],
    needs: &[View::AllSubflows, View::BothDirections, View::AllBytes],
    or_unseen: &[View::Time],
};

fn find(case: &Case<'_>, _: Way) -> Option<Drawn> {
    let by_side = Way::ALL.map(|way| case.time(way, Limit::Application));
    let cost = by_side[0] + by_side[1];
    let share = cost.0 as f64 / case.duration.0.max(1) as f64;
    if share <= 0.5 || cost.0 < 100_000_000 {
        return None;
    }
    let (count, longest) = (
        case.c.halves[0].anomalies.idle.0 + case.c.halves[1].anomalies.idle.0,
        case.idle.longest.first().map_or(0, |p| p.ns.0),
    );
    let trips: u64 =
        Way::ALL.into_iter().filter_map(|way| (super::dialogue::RULE.find)(case, way)).map(|f| f.cost.0).sum();
    Some(Drawn {
        packets: case.c.halves.iter().map(|h| h.last_data_number).filter(|n| *n > 0).collect(),
        at: case.c.first_at,
        count: u64::from(count.max(1)),
        cost,
        text: format!(
            "for {cost} ({}) no data stood ready: the applications were thinking or idle{}",
            quantity::percent(share),
            if longest > 0 { format!(", the longest pause {}", record::Nanos(longest)) } else { String::new() }
        ),
        worth: if trips == 0 {
            "nothing that the network or TCP can change".into()
        } else {
            format!(
                "the {} of round trips in it are the dialogue's; the rest neither the network nor TCP can change",
                record::Nanos(trips)
            )
        },
    })
}
