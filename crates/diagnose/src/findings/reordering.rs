//! Reordering was taken for loss: segments were retransmitted although the originals arrived (RFC 3708, RFC 3522).

use super::{Case, Drawn, Kind, Rule, View};
use crate::episode::Happening;
use crate::resend::Class;

pub(super) const RULE: Rule = Rule {
    kind: Kind {
        name: "reordering_taken_for_loss",
        words: "reordering taken for loss",
        rule: "a fast retransmission was not needed by DSACK or Eifel",
    },
    find,
    once: false,
    needs: &[View::BothDirections],
    or_unseen: &[View::Handshake],
};

fn find(case: &Case<'_>, dir: usize) -> Option<Drawn> {
    let needless = case.c.book.of(Happening::NeedlessRecovery, dir)?;
    let fast = needless
        .worst
        .iter()
        .filter(|e| e.detail == Class::Fast as u64 || e.detail == Class::SackRecovery as u64)
        .count();
    // One among many is as likely a copy that the path made of a retransmission.
    let driven = case.sender(dir).rare.by_class;
    let driven = driven[Class::Fast as usize] + driven[Class::SackRecovery as usize];
    if fast == 0 || needless.count < 3 && needless.count * 4 < u64::from(driven) {
        return None;
    }
    let h = case.sender(dir);
    Some(Drawn {
        text: format!(
            "{} retransmissions to the {} were needless: the originals arrived late, not never (packets changed places by up to {} bytes); each cut the window",
            needless.count,
            case.receiver_name(dir),
            h.rare.reorder_extent.max(u64::from(h.segment_size))
        ),
        worth: format!(
            "a path that keeps order, or a sender with RACK's adaptive window, keeps its rate; {} in recoveries",
            needless.total
        ),
        ..Drawn::of(needless)
    })
}
