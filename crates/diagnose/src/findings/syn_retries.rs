//! The SYN or the SYN-ACK were retransmitted.

use super::{Case, Drawn, Kind, Rule, View, times};
use crate::episode::Happening;

pub(super) const RULE: Rule = Rule {
    kind: Kind {
        name: "syn_retries",
        words: "SYNs without an answer",
        rule: "a SYN or SYN-ACK was sent more than once",
    },
    find,
    once: false,
    needs: &[View::Data],
    or_unseen: &[View::Handshake, View::BeforeLoss],
};

fn find(case: &Case<'_>, dir: usize) -> Option<Drawn> {
    let retries = case.c.book.of(Happening::SynRetry, dir)?;
    let cost = retries.costliest()?.cost;
    let answered = case.c.established_at.is_some();
    let what = if dir == 0 { "SYN" } else { "SYN-ACK" };
    Some(Drawn {
        packets: retries.packets(),
        at: retries.first_at(),
        count: retries.count,
        cost: record::Nanos(cost),
        text: format!(
            "the {what} was retransmitted {} over {}{}",
            times(retries.count),
            record::Nanos(cost),
            if answered { ", then the connection opened" } else { ", and the connection never opened" }
        ),
        worth: if dir == 0 {
            "find what drops the first SYN: a full accept queue, a firewall, a lossy path; its timer starts at 1 s (RFC 6298)".into()
        } else {
            "the way back to the client loses packets, or the client's ACK is lost".into()
        },
    })
}
