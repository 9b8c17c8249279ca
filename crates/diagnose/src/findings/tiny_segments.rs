//! Many small segments one after the other: the sender writes in small pieces and does not let TCP
//! join them.

use super::{Case, Drawn, FindingKind, Rule, View};
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::TinySegments,
    find,
    once: false,
    shortens: &[Limit::Application],
    needs: &[View::AllSubflows, View::BothDirections],
    or_unseen: &[View::Time],
};

/// Ethernet preamble, header, frame check sequence and gap with an IPv4 and a TCP header with
/// timestamps.
const OVERHEAD: u64 = 38 + 20 + 32;

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let h = case.sender(way);
    let c = &h.count;
    let (small, bursts) = (u64::from(c.small), u64::from(c.small_bursts));
    if c.payload_packets < 100 || small * 10 < c.payload_packets * 8 || bursts * 2 < small {
        return None;
    }
    let size = u64::from(crate::connection::segment_limit(&case.c.halves, way).unwrap_or(1448)).max(1);
    let needed = c.unique_bytes.div_ceil(size).max(1);
    let overhead = |packets: u64| packets * OVERHEAD;
    let wire = c.unique_bytes + overhead(c.payload_packets);
    Some(Drawn {
        packets: vec![h.last_data_number],
        at: case.c.first_at,
        count: small,
        cost: record::Nanos::ZERO,
        text: format!(
            "{} data packets of {} bytes on average where {needed} full ones would do: {} of what crosses the wire is headers",
            c.payload_packets,
            c.unique_bytes / c.payload_packets.max(1),
            quantity::percent(overhead(c.payload_packets) as f64 / wire.max(1) as f64),
        ),
        worth: format!(
            "larger writes (or leaving Nagle's algorithm on) take {} packets off path and hosts, {} of the bytes on the wire",
            c.payload_packets - needed.min(c.payload_packets),
            quantity::percent(1.0 - (c.unique_bytes + overhead(needed)) as f64 / wire.max(1) as f64)
        ),
    })
}
