//! An MTU black hole: full-sized packets vanish while small ones get through (RFC 2923, section
//! 2.1; RFC 4821).

use super::{Case, Drawn, FindingKind, Rule, View, times};
use crate::event::Event;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::MtuBlackHole,
    find,
    once: false,
    shortens: &[Limit::LossRecovery],
    needs: &[View::BothDirections],
    or_unseen: &[View::BeforeLoss, View::Handshake],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let large = case.c.events.of(Event::LargeRetransmission, way)?;
    let h = case.sender(way);
    let size = large.costliest()?.detail;
    // The other side's handshake was answered, so packets as such do get through.
    if large.count < 2
        || u64::from(h.sizes.largest_acked()) >= size
        || !case.c.established
        || case.receiver(way).count.packets == 0
    {
        return None;
    }
    Some(Drawn {
        text: format!(
            "packets of {size} bytes of payload to the {} vanish: retransmitted {} on timeouts, and no larger one than {} bytes was ever acknowledged",
            way.receiver(),
            times(large.count),
            h.sizes.largest_acked()
        ),
        worth:
            "let ICMP \"fragmentation needed\" through, clamp the MSS on the router, or set net.ipv4.tcp_mtu_probing=1"
                .into(),
        ..Drawn::of(large)
    })
}
