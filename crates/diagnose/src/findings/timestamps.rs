//! Timestamps missing where they are needed, or their price where headers count (RFC 7323, sections
//! 3 to 5).

use super::{Case, Drawn, FindingKind, Rule, View};
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::Timestamps,
    find,
    once: false,
    shortens: &[Limit::LossRecovery, Limit::PathRate],
    needs: &[View::BothDirections, View::Handshake],
    or_unseen: &[],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let [client, server] = &case.c.halves;
    let h = case.sender(way);
    let base = Drawn { packets: vec![case.c.first_number], at: case.c.first_at, count: 1, ..Drawn::default() };
    if !client.offered.seen || !server.offered.seen || client.offered.cut || server.offered.cut {
        return None;
    }
    if client.offered.timestamps && server.offered.timestamps {
        let share = case.share(way, Limit::PathRate);
        if h.count.unique_bytes < 10_000_000 || share < 0.5 {
            return None;
        }
        // Ethernet with its preamble and gap: 1538 bytes carry 1448 with the option and 1460
        // without.
        return Some(Drawn {
            text: format!(
                "timestamps cost 12 bytes of every packet: 1448 of 1538 bytes on an Ethernet wire are payload, 1460 would be without ({:.2} %)",
                12.0 / 1460.0 * 100.0
            ),
            worth: format!(
                "0.8 % more payload at the path's rate, for {} of the time; they protect against wrapped sequence numbers and give RTT samples",
                quantity::percent(share)
            ),
            cost: record::Nanos((case.time(way, Limit::PathRate).0 as f64 * 12.0 / 1460.0) as u64),
            ..base
        });
    }
    let who = match (client.offered.timestamps, server.offered.timestamps) {
        (false, _) => "client",
        _ => "server",
    };
    let wrapped = h.count.unique_bytes > u64::from(u32::MAX);
    let blind = h.anomalies.by_class[crate::Class::Timeout as usize] >= 3;
    if !wrapped && !blind {
        return None;
    }
    Some(Drawn {
        text: format!(
            "timestamps are off because the {who} left them out (or a box on the way took them out){}{}",
            if wrapped { ": the sequence space wrapped without protection against old duplicates" } else { "" },
            if blind {
                ": after timeouts the sender can neither measure the RTT nor see that a retransmission was needless"
            } else {
                ""
            },
        ),
        worth: "protection against wrapped sequence numbers, and RTT samples during recovery, for 12 bytes a packet"
            .into(),
        ..base
    })
}
