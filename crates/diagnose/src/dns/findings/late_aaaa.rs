//! Both addresses are asked for together, and most programs wait for both: one that waits holds up
//! a name that is known.

use std::collections::HashMap;

use record::Nanos;
use record::dns::{Answered, DnsFinding};
use wire::packet::dns::kind;

use super::{Shown, View};
use crate::dns::lookup::Case;

/// A client asks for both at once.
const TOGETHER: u64 = 50_000_000;
/// So much later it is noticed.
const LATER: u64 = 100_000_000;

/// The lookups of AAAA that came late, or not at all, after A of the same name.
pub(super) fn late<'v, 'a>(view: &View<'v, 'a>) -> Shown<'v, 'a> {
    let mut latest: HashMap<_, &Case<'_>> = HashMap::new();
    let mut shown = Shown::default();
    if view.cases().all(|case| case.kind != kind::AAAA) {
        return shown;
    }
    for case in view.cases().filter(|case| case.is_address()) {
        let first = case.first();
        latest.insert((case.client(), &first.name, first.kind), case);
        let other = if first.kind == kind::A { kind::AAAA } else { kind::A };
        let Some(&other) = latest.get(&(case.client(), &first.name, other)) else { continue };
        if first.asked.saturating_sub(other.first().asked) > TOGETHER {
            continue;
        }
        let (a, aaaa) = if first.kind == kind::A { (case, other) } else { (other, case) };
        let (Some(known), Answered::Found) = (a.end(), a.answered) else { continue };
        let until = match aaaa.answered {
            Answered::Unanswered => aaaa.tries.last().map_or(known, |e| e.asked),
            Answered::NotKnown => continue,
            _ => aaaa.end().unwrap_or(known),
        };
        let is_late = until >= known + LATER;
        if is_late || matches!(aaaa.answered, Answered::Failed | Answered::Unanswered) {
            shown.add(aaaa, known.min(until)..until);
        }
    }
    shown.0.sort_by_key(|(case, _)| case.number);
    shown
}

pub(super) fn draw(view: &View<'_, '_>) -> Vec<DnsFinding> {
    let shown = &view.late_aaaa;
    let more = shown.more();
    let text = |case: &Case<'_>| {
        let late = shown.by_case().find(|(c, _)| c.number == case.number).map_or(0, |(_, waited)| waited);
        let what = match case.answered {
            Answered::Unanswered if late == 0 => "was not answered".to_owned(),
            Answered::Unanswered => format!("was not answered, and asked for again for {}", Nanos(late)),
            Answered::Failed => "was answered with an error".to_owned(),
            _ => format!("was answered {} later", Nanos(late)),
        };
        format!("A of {} was found, but AAAA, asked for with it, {what}{more}", case.name())
    };
    let next = "find out what drops or delays AAAA (the server, a firewall that takes the second question from one port for a \
                copy of the first); `options single-request-reopen` in resolv.conf avoids the latter, `options no-aaaa` (glibc \
                2.36) the question"
        .to_owned();
    shown.finding(text, next)
}
