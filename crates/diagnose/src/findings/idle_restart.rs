//! After a pause the sender began again with a small window (RFC 5681, section 4.1; Linux
//! `tcp_slow_start_after_idle`).

use record::conversation::{Limit, Way};

use super::{Case, Drawn, FindingKind, Rule, View, times};
use crate::event::Event;

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::SlowStartAfterIdle,
    find,
    once: false,
    shortens: &[Limit::SlowStart],
    needs: &[View::AllSubflows, View::BothDirections, View::Sender, View::AllBytes],
    or_unseen: &[View::Time],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let restarts = case.c.events.of(Event::IdleRestart, way)?;
    // On a path that is shorter than the capture's clock can show, growing back takes no time.
    let worst = restarts.costliest().filter(|w| w.cost > 0)?;
    // Away from the sender, a pause may be that of its retransmission timer.
    let away = case.vantage.lacks(case.c, way, View::BeforeLoss).is_some();
    if away && case.share(way, Limit::Unknown) > 0.2 {
        return None;
    }
    Some(Drawn {
        text: format!(
            "{} the {} began again after a pause with {} bytes where it had sent {} at a time before: {} to grow back",
            times(restarts.count),
            way.sender(),
            worst.detail & 0xffff_ffff,
            worst.detail >> 32,
            restarts.total
        ),
        worth: format!("net.ipv4.tcp_slow_start_after_idle=0 at the {} saves up to {}", way.sender(), restarts.total),
        ..Drawn::of(restarts)
    })
}
