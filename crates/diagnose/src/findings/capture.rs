//! The capture itself is incomplete: the peers acknowledged bytes that it does not hold.

use record::conversation::Way;

use super::{Case, Drawn, FindingKind, Rule, View};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::CaptureIncomplete,
    find,
    once: true,
    shortens: &[],
    needs: &[View::BothDirections],
    or_unseen: &[],
};

fn find(case: &Case<'_>, _: Way) -> Option<Drawn> {
    let bytes = case.c.halves.iter().map(|h| h.unseen_bytes()).sum::<u64>();
    if bytes == 0 {
        return None;
    }
    Some(Drawn {
        packets: vec![],
        at: case.c.first_at,
        count: 1,
        cost: record::Nanos::ZERO,
        text: format!(
            "the capture dropped packets: {bytes} bytes were acknowledged that it does not hold; losses found here may be its own"
        ),
        worth: "capture again with a larger buffer or a shorter snap length".into(),
    })
}
