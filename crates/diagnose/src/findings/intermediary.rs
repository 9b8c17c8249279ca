//! Something on the way acknowledges in the name of the other end: a proxy, a NAT that ends TCP, an
//! accelerator.

use record::Nanos;
use record::conversation::Way;

use super::{Case, Drawn, FindingKind, Rule, View};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::Intermediary,
    find,
    once: false,
    shortens: &[],
    needs: &[View::BothDirections, View::Handshake],
    or_unseen: &[],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let h = case.sender(way);
    let (handshake, usual) = h.rtt.acknowledged_nearer()?;
    Some(Drawn {
        packets: vec![case.c.first_number],
        at: case.c.first_at,
        count: 1,
        cost: Nanos::ZERO,
        text: format!(
            "the {}'s side took {} to complete the handshake, but acknowledges data after {} (median of {}): a proxy or NAT near the capture seems to end the connection, so windows, options and ACKs seen here are its own and not the {}'s",
            way.receiver(),
            handshake,
            usual,
            h.rtt.samples.count(),
            way.receiver(),
        ),
        worth: "capture beyond it as well: what limits the other half of the path does not show here".into(),
    })
}
