//! Packets were damaged on the way: their TCP checksum is wrong where checksums are right
//! otherwise.

use record::Nanos;

use super::{Case, Drawn, FindingKind, Rule, View};
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::DamagedPackets,
    find,
    once: false,
    shortens: &[Limit::LossRecovery],
    needs: &[View::Data],
    or_unseen: &[View::Data, View::Damage],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let h = case.sender(way);
    let damage = h.anomalies.damage.as_ref().filter(|d| d.count > 0)?;
    Some(Drawn {
        packets: damage.numbers.into_iter().filter(|n| *n > 0).collect(),
        at: damage.first_at,
        count: damage.count.into(),
        // The time of their repair is that of the loss.
        cost: Nanos::ZERO,
        text: format!(
            "the TCP checksum of {} of {} packets to the {} is wrong ({}): damaged before the capture, and discarded by the {}",
            damage.count,
            h.count.packets,
            way.receiver(),
            quantity::percent_to(f64::from(damage.count) / h.count.packets.max(1) as f64, 3),
            way.receiver(),
        ),
        worth: "look for faulty hardware on the way: error counters of interfaces, cables and optics, memory of switches and routers".into(),
    })
}
