//! A connection of any kind but sends, in few words.

use summary::{FlowFigures, TimedKind};

/// The program that a connection belongs to.
pub(crate) fn owner(tally: &FlowFigures) -> String {
    tally.owner.map_or_else(|| "not known".into(), |owner| format!("{}[{}]", owner.comm, owner.pid))
}

/// The leg that took the largest part of the time, with its share.
pub(crate) fn mostly(kind: TimedKind, tally: &FlowFigures) -> String {
    let whole = tally.time(kind);
    let most = kind.adding().max_by_key(|(i, _)| (tally.sums[*i], std::cmp::Reverse(*i)));
    match most {
        Some((i, leg)) if whole > 0 => {
            format!("{} {}", leg.name, quantity::percent(quantity::share(tally.sums[i], whole)))
        }
        _ => "—".into(),
    }
}
