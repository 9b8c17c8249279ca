//! The path stood still for a while, time and again, with data under way: a radio link that sleeps,
//! scans or roams, a paused machine.

use record::Nanos;

use super::{Case, Drawn, FindingKind, Rule, View, times};
use crate::event::Event;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::PathStalls,
    find,
    once: false,
    shortens: &[Limit::PathRate],
    needs: &[View::BothDirections, View::AllBytes, View::Clock],
    or_unseen: &[View::Time],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let stalls = case.c.events.of(Event::PathStall, way)?;
    let worst = stalls.costliest()?;
    // One late round trip of many has causes that need no remedy.
    if stalls.total.0 < case.duration.0 / 100 {
        return None;
    }
    let clock = if case.c.halves.iter().all(|h| h.habits.shows_clock()) {
        ""
    } else {
        ", or the capture's clock was set forward (without TCP timestamps nothing shows that)"
    };
    Some(Drawn {
        text: format!(
            "{} nothing got through for a while, with data to the {} under way (the longest time {}, until packet {}), and then most of it came together, {} in all: the path stood still or carried other traffic, or the machine at one end stood still{clock}",
            times(stalls.count),
            way.receiver(),
            Nanos(worst.cost),
            worst.packets[0],
            stalls.total,
        ),
        worth: format!(
            "find what stands still for {}: a radio link (sleep, scan, handover), a virtual machine that is paused, a device that handles other traffic first",
            stalls.total
        ),
        ..Drawn::of(stalls)
    })
}
