//! The SYN or the SYN-ACK were retransmitted.

use super::{Case, Drawn, FindingKind, Rule, View, times};
use crate::event::Event;
use crate::retransmission::Class;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::SynRetries,
    find,
    once: false,
    shortens: &[Limit::Handshake],
    needs: &[View::Data],
    or_unseen: &[View::Handshake, View::BeforeLoss],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let retries = case.c.events.of(Event::SynRetry, way)?;
    let cost = retries.costliest()?.cost;
    let answered = case.c.established;
    let what = if way == Way::ToServer { "SYN" } else { "SYN-ACK" };
    // The SYN came through where the capture holds an answer to it.
    let was_answered = way == Way::ToServer && retries.worst.iter().all(|e| e.detail == 1);
    // The client acknowledged each SYN-ACK, also those that were retransmitted: none was lost.
    let again = case.c.halves[Way::ToClient].anomalies.by_class[Class::Syn as usize];
    let held_up =
        again > 0 && case.c.halves[Way::ToServer].anomalies.syn_acks > again && (way == Way::ToClient || was_answered);
    Some(Drawn {
        packets: retries.packets(),
        at: retries.first_at(),
        count: retries.count,
        cost: record::Nanos(cost),
        text: format!(
            "the {what} was retransmitted {} over {}{}{}",
            times(retries.count),
            record::Nanos(cost),
            if was_answered { " although it had been answered" } else { "" },
            if answered { ", then the connection opened" } else { ", and the connection never opened" }
        ),
        worth: if held_up {
            format!(
                "no SYN-ACK was lost, the client acknowledged all {}: find what held them up on their way to the client, or the client's ACKs, for up to {}, such as a radio link that sleeps",
                again + 1,
                record::Nanos(cost)
            )
        } else if was_answered {
            "find what loses the SYN-ACK on its way to the client: the SYN came through".into()
        } else if way == Way::ToServer {
            "find what drops the first SYN: a full accept queue, a firewall, a lossy path; its timer starts at 1 s (RFC 6298)".into()
        } else {
            "the way back to the client loses packets, or the client's ACK is lost".into()
        },
    })
}
