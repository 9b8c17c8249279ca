//! The connection was reset: by whom, and what speaks for which cause.

use super::{Case, Drawn, FindingKind, Rule, View};
use record::conversation::Way;

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::Reset,
    find,
    once: false,
    shortens: &[],
    needs: &[View::Data],
    or_unseen: &[View::BothDirections],
};

/// Many firewalls and NAT tables forget a connection after some minutes; RFC 5382 asks for two
/// hours and four minutes.
const LONG_IDLE: u64 = 60_000_000_000;

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let (h, p) = (case.sender(way), case.receiver(way));
    let (number, at) = h.anomalies.reset?;
    if p.anomalies.reset.is_some_and(|(_, first)| first < at)
        || (h.fin.is_some() && p.fin.is_some() && !p.outstanding())
    {
        return None;
    }
    // Whether the peer had closed as well, one direction does not show.
    let one_sided = case.vantage.only_direction.is_some();
    if one_sided && h.fin.is_some() {
        return None;
    }
    let who = way.sender();
    let last = h.last_data_at.max(p.last_data_at);
    let ttl = h.datagrams.first_ttl();
    let hops = ttl.abs_diff(h.anomalies.reset_ttl);
    let text = if h.count.packets == 1 && !case.c.established {
        format!(
            "the {who} refused the connection: it answered the SYN with a RST; nothing listens there, or a firewall rejects"
        )
    } else if h.anomalies.reset_ttl != 0 && ttl != 0 && hops > 2 {
        format!(
            "a RST in the {who}'s name ended it, but its TTL ({}) is not the {who}'s ({}): a box on the way sent it",
            h.anomalies.reset_ttl, ttl
        )
    } else if !case.c.established && !one_sided {
        format!("the {who} broke the handshake off with a RST")
    } else if h.recovery.is_some() || p.recovery.is_some() {
        format!("the {who} gave up with a RST while a loss was being repaired")
    } else if h.fin.is_some() {
        format!("the {who} reset it after closing: data still came that its application no longer reads")
    } else if last > 0 && at.saturating_sub(last) > LONG_IDLE {
        format!(
            "the {who} reset it after {} of silence: a keep-alive, an idle limit, or a box on the way that forgot it",
            record::Nanos(at - last)
        )
    } else if p.last_data_at > 0 && at.saturating_sub(p.last_data_at) < 1_000_000_000 && p.outstanding_data() {
        format!(
            "the {who} reset it with data still unacknowledged: its application closed without reading everything, or ended"
        )
    } else if p.fin.is_some() {
        let peer = way.receiver();
        format!(
            "the {who} answered the {peer}'s FIN with a RST: its application aborted (SO_LINGER of 0), closed with data not yet read, or ended"
        )
    } else {
        format!(
            "the {who} ended it with a RST instead of a FIN: its application aborted (SO_LINGER of 0), closed with data not yet read, or ended"
        )
    };
    Some(Drawn {
        packets: vec![number],
        at,
        count: u64::from(h.anomalies.resets),
        cost: record::Nanos::ZERO,
        text: format!("{text} (packet {number})"),
        worth: "what was not acknowledged before it is lost".into(),
    })
}
