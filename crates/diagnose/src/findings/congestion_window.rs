//! The sender's congestion window held the transfer back while the path had room.

use super::{Case, Drawn, FindingKind, Rule, View};
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::CongestionWindow,
    find,
    once: false,
    shortens: &[Limit::CongestionWindow, Limit::SlowStart],
    needs: &[View::AllSubflows, View::BothDirections, View::AllBytes, View::Sender],
    or_unseen: &[View::SenderAndQueue, View::Time],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let (h, share) = (case.sender(way), case.share(way, Limit::CongestionWindow));
    if share < 0.25 || h.rounds.most_flat().0 >= super::send_buffer::FLAT_ROUNDS || h.count.payload_packets < 20 {
        return None;
    }
    let cost = case.time(way, Limit::CongestionWindow);
    if cost < case.unclear_time(way) {
        return None;
    }
    let (losses, marks) = (h.anomalies.retransmitted_packets, h.anomalies.cwr);
    let (name, why) = match (losses, marks) {
        (0, 0) => ("congestion window, or its send buffer,", "; nothing was lost".into()),
        (0, _) => ("congestion window", format!(", after congestion marks had cut it {}", super::times(marks.into()))),
        _ => ("congestion window", format!(", after {losses} retransmissions had cut it")),
    };
    let remedy = match (losses, marks) {
        (0, 0) => "a larger send buffer (tcp_wmem), or a congestion control that grows faster on this path",
        (0, _) => {
            "a queue that marks later (a higher ECN threshold), or a congestion control that recovers faster on this path"
        }
        _ => "fewer losses, or a congestion control that recovers faster on this path",
    };
    Some(Drawn {
        packets: vec![h.last_data_number],
        at: case.c.first_at,
        count: 1,
        cost,
        text: format!(
            "the {}'s {name} (at most {} bytes were in flight) set the rate for {cost} ({}){why}",
            way.sender(),
            h.space.peak(),
            quantity::percent(share),
        ),
        worth: format!("{remedy}, for up to {} of the time", quantity::percent(share)),
    })
}
