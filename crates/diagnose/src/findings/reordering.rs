//! Reordering was taken for loss: segments were retransmitted although the originals arrived (RFC
//! 3708, RFC 3522).

use super::{Case, Drawn, FindingKind, Rule, View};
use crate::event::Event;
use crate::retransmission::Class;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::ReorderingTakenForLoss,
    find,
    once: false,
    shortens: &[Limit::LossRecovery, Limit::CongestionWindow],
    needs: &[View::BothDirections],
    or_unseen: &[View::Handshake],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let needless = case.c.events.of(Event::NeedlessRecovery, way)?;
    let fast = needless
        .worst
        .iter()
        .filter(|e| e.detail == Class::Fast as u64 || e.detail == Class::SackRecovery as u64)
        .count();
    // Few among many are as likely copies that the path made of retransmissions.
    let driven = case.sender(way).anomalies.by_class;
    let driven = driven[Class::Fast as usize] + driven[Class::SackRecovery as usize];
    if fast == 0 || needless.count * 4 < u64::from(driven) {
        return None;
    }
    let h = case.sender(way);
    // Where packets arrive twice, the path makes copies, of retransmissions too.
    if h.anomalies.capture_copies >= needless.count {
        return None;
    }
    Some(Drawn {
        text: format!(
            "{} retransmissions to the {} were needless: the originals arrived late, not never (packets changed places by up to {} bytes); each cut the window",
            needless.count,
            way.receiver(),
            h.anomalies.reorder_extent.max(u64::from(h.sizes.largest()))
        ),
        worth: format!(
            "a path that keeps order, or a sender with RACK's adaptive window, keeps its rate; {} in recoveries",
            needless.total
        ),
        ..Drawn::of(needless)
    })
}
