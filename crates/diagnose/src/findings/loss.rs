//! Packets were lost, and repairing them took time.

use super::{Case, Drawn, FindingKind, Rule, View, times};
use record::Nanos;

use crate::event::Event;
use crate::retransmission::Class;
use record::conversation::{Limit, Way};

pub(super) const RULE: Rule = Rule {
    kind: FindingKind::Loss,
    find,
    once: false,
    shortens: &[Limit::LossRecovery, Limit::CongestionWindow],
    needs: &[View::Data],
    or_unseen: &[View::BothDirections],
};

fn find(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let h = case.sender(way);
    let count = &h.count;
    // A FIN is no data, and what was needless was not lost.
    let data = h.anomalies.retransmitted_packets.saturating_sub(u64::from(h.anomalies.retransmitted_fins));
    let needed = data.saturating_sub(u64::from(h.anomalies.spurious)).min(count.payload_packets);
    if needed == 0 {
        return lost_before(case, way);
    }
    let recoveries = case.c.events.of(Event::Recovery, way);
    let cost = case.time(way, Limit::LossRecovery);
    let one_sided = case.vantage.only_direction.is_some();
    // A probe of a closed window looks the same without the ACKs.
    if one_sided && needed < 3 {
        return None;
    }
    if !one_sided && cost == Nanos::ZERO && needed == u64::from(h.anomalies.by_class[Class::Unclear as usize]) {
        // Bytes that came again, such as a window probe's, while nothing was being repaired.
        return None;
    }
    let classes: Vec<String> = Class::ALL
        .into_iter()
        .filter(|c| *c != Class::Syn && h.anomalies.by_class[*c as usize] > 0)
        .map(|c| format!("{} {}", h.anomalies.by_class[c as usize], c.words()))
        .collect();
    let classes = classes.join(", ");
    let unfinished = h.recovery.is_some() && !one_sided;
    let slowest = recoveries.and_then(|e| e.costliest());
    let timeouts = h.anomalies.by_class[Class::Timeout as usize];
    let rate = needed as f64 / count.payload_packets.max(1) as f64;
    Some(Drawn {
        packets: recoveries.map(|e| e.packets()).unwrap_or_default(),
        at: recoveries.map_or(case.c.first_at, |e| e.first_at()),
        count: needed,
        cost,
        text: format!(
            "{needed} of {} data packets to the {} were retransmitted ({}{}){}{}{}{}",
            count.payload_packets,
            way.receiver(),
            quantity::percent_to(rate, 3),
            // The classes are those of all of them.
            match h.anomalies.spurious {
                0 => format!(": {classes}"),
                needless => format!("), {needless} more needlessly (by class: {classes}"),
            },
            h.anomalies
                .damage
                .as_ref()
                .filter(|d| d.count > 0)
                .map_or(String::new(), |d| format!("; {} packets were damaged, which is loss too", d.count)),
            slowest.map_or(String::new(), |e| format!(
                "; {} took {} (packet {}, by {})",
                match recoveries.map_or(0, |r| r.count) {
                    0 | 1 => "the recovery".into(),
                    several => format!("the slowest of {several} recoveries"),
                },
                Nanos(e.cost),
                e.packets[1],
                Class::ALL.get(e.detail as usize).map_or("", |c| c.words()),
            )),
            if unfinished {
                format!("; the last recovery was not finished: nothing more came from the {}", way.receiver())
            } else {
                String::new()
            },
            match h.anomalies.lost_before {
                0 => String::new(),
                before => format!("; at least {before} more were lost before the capture"),
            },
        ),
        worth: format!(
            "{}{}",
            gain(case, way, cost),
            if timeouts > 0 {
                format!(
                    "; the timer had to act {}: SACK, tail-loss probes or a lower minimum RTO shorten that",
                    times(timeouts.into())
                )
            } else {
                String::new()
            }
        ),
    })
}

/// Losses that the capture shows by what came late for them alone.
fn lost_before(case: &Case<'_>, way: Way) -> Option<Drawn> {
    let lost = case.sender(way).anomalies.lost_before;
    let cost = case.time(way, Limit::LossRecovery);
    (lost > 0 && cost > Nanos::ZERO).then(|| Drawn {
        packets: Vec::new(),
        at: case.c.first_at,
        count: lost.into(),
        cost,
        text: format!(
            "at least {lost} packets to the {} were lost before the capture: their sender counts its packets \
             (IP identification), and {cost} went by until it had sent their data again",
            way.receiver()
        ),
        worth: gain(case, way, cost),
    })
}

/// What the transfer would gain without the losses: the recoveries, less what their bytes take at
/// the rate outside of them. All of them where that rate is not known.
pub(super) fn saving(case: &Case<'_>, way: Way, cost: Nanos) -> Option<Nanos> {
    let h = case.sender(way);
    let (time, bytes) = h.anomalies.recoveries;
    let busy: u64 =
        [Limit::SlowStart, Limit::CongestionWindow, Limit::ReceiveWindow, Limit::PathRate, Limit::AckWaiting]
            .map(|l| case.time(way, l).0)
            .iter()
            .sum();
    let rest = h.count.unique_bytes.saturating_sub(bytes);
    if bytes == 0 || rest == 0 || busy < 1_000_000 {
        return Some(cost);
    }
    let without = (bytes as f64 / (rest as f64 / busy as f64)) as u64;
    Some(Nanos(time.saturating_sub(without)).min(cost))
}

fn gain(case: &Case<'_>, way: Way, cost: Nanos) -> String {
    if case.vantage.only_direction.is_some() {
        return "find where packets are dropped: counters of interfaces, policers and queues on the path".into();
    }
    match saving(case, way, cost) {
        Some(saved) if saved.0 >= case.duration.0 / 100 => format!(
            "find where packets are dropped: about {saved} ({} of the time)",
            quantity::percent(saved.0 as f64 / case.duration.0.max(1) as f64)
        ),
        _ if cost == Nanos::ZERO => "nothing: the path was full while they were repaired".into(),
        _ => format!("little: in the {cost} of recovery data went on as fast as at other times"),
    }
}
