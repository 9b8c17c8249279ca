//! The path's own delay changed for good in mid-connection: another route, a handover, a changed
//! shaper.

use super::{Case, Drawn, FindingKind, Rule, View};
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::PathDelayStep,
    find,
    once: false,
    shortens: &[],
    needs: &[View::BothDirections, View::AllBytes],
    or_unseen: &[View::Time],
};

const SIDE: usize = 3;

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    // A queue's rise and fall go with what is in flight.
    if case.sender(way).rtt.detail.as_ref()?.with_flight.r().is_some_and(|r| r >= 0.5) {
        return None;
    }
    // While a queue stands, ACKs that come in bunches make round trips longer by one or several
    // times what is between two of them.
    let bunches = if case.share(way, Limit::PathRate) < 0.1 { 0 } else { case.sender(way).rounds.pause() };
    let blocks = &case.sender(way).rtt.detail.as_ref()?.blocks;
    let blocks = &blocks[..blocks.len().saturating_sub(1)];
    if blocks.len() < 2 * SIDE {
        return None;
    }
    // Least and largest of all blocks up to each, and from each on.
    let wider = |span: &mut (u64, u64), block: &crate::rtt::Block| {
        *span = (span.0.min(block.min), span.1.max(block.min));
        Some(*span)
    };
    let before: Vec<_> = blocks.iter().scan((u64::MAX, 0), wider).collect();
    let mut after: Vec<_> = blocks.iter().rev().scan((u64::MAX, 0), wider).collect();
    after.reverse();
    let (at, before, after) = (SIDE..=blocks.len() - SIDE)
        .map(|i| (i, before[i - 1], after[i]))
        .filter(|(_, b, a)| {
            let step = b.0.abs_diff(a.0);
            // The levels must not overlap, and each must be flat to a quarter of the step: a queue
            // that fills is a slope.
            step >= 2_000_000 && step > bunches && step >= b.0 / 5 && b.1 - b.0 <= step / 4 && a.1 - a.0 <= step / 4
        })
        .max_by_key(|(_, b, a)| b.0.abs_diff(a.0))?;
    let (old, new) = (record::Nanos(before.0), record::Nanos(after.0));
    let block = blocks[at];
    Some(Drawn {
        packets: vec![block.number],
        at: block.at,
        count: 1,
        cost: record::Nanos::ZERO,
        text: format!("from packet {} on the path's RTT is {new} where it was {old}", block.number),
        worth: "another route or shaper: windows that fit the old delay may not fit the new one".into(),
    })
}
