//! Packets were lost, and repairing them took time.

use super::{Case, Drawn, Kind, Rule, View, percent, times};
use record::Nanos;

use crate::episode::Happening;
use crate::resend::Class;

pub(super) const RULE: Rule = Rule {
    kind: Kind { name: "loss", words: "loss", rule: "segments were retransmitted, and not all of them needlessly" },
    find,
    once: false,
    needs: &[View::Data],
    or_unseen: &[View::BothDirections],
};

fn find(case: &Case<'_>, dir: usize) -> Option<Drawn> {
    let h = case.sender(dir);
    let count = &h.count;
    // A FIN is no data, and what was needless was not lost.
    let data = count.resent_packets.saturating_sub(u64::from(h.rare.resent_fins));
    let needed = data.saturating_sub(u64::from(h.rare.spurious)).min(count.payload_packets);
    if needed == 0 {
        return None;
    }
    let recoveries = case.c.book.of(Happening::Recovery, dir);
    let cost = case.time(dir, crate::Limit::LossRecovery);
    let one_sided = case.vantage.only_direction.is_some();
    // A probe of a closed window looks the same without the ACKs.
    if one_sided && needed < 3 {
        return None;
    }
    if !one_sided && cost == Nanos::ZERO && needed == u64::from(h.rare.by_class[Class::Unclear as usize]) {
        // Bytes that came again, such as a window probe's, while nothing was being repaired.
        return None;
    }
    let classes: Vec<String> = Class::ALL
        .into_iter()
        .filter(|c| *c != Class::Syn && h.rare.by_class[*c as usize] > 0)
        .map(|c| format!("{} {}", h.rare.by_class[c as usize], c.words()))
        .collect();
    let unfinished = h.recovery.is_some() && !one_sided;
    let slowest = recoveries.and_then(|e| e.costliest());
    let timeouts = h.rare.by_class[Class::Timeout as usize];
    let rate = needed as f64 / count.payload_packets.max(1) as f64;
    Some(Drawn {
        packets: recoveries.map(|e| e.packets()).unwrap_or_default(),
        at: recoveries.map_or(case.c.first_at, |e| e.first_at()),
        count: needed,
        cost,
        text: format!(
            "{needed} of {} data packets to the {} were retransmitted ({:.2} %: {}){}{}{}",
            count.payload_packets,
            case.receiver_name(dir),
            rate * 100.0,
            classes.join(", "),
            if h.rare.spurious > 0 { format!(", {} more needlessly", h.rare.spurious) } else { String::new() },
            slowest.map_or(String::new(), |e| format!(
                "; the slowest recovery took {} (packet {}, by {}; {})",
                Nanos(e.cost),
                e.packets[1],
                Class::ALL.get(e.detail as usize).map_or("", |c| c.words()),
                recoveries.map_or(String::new(), |r| if r.count == 1 {
                    "1 recovery".into()
                } else {
                    format!("{} recoveries", r.count)
                })
            )),
            if unfinished {
                format!("; the last recovery was not finished: nothing more came from the {}", case.receiver_name(dir))
            } else {
                String::new()
            },
        ),
        worth: format!(
            "{}{}",
            gain(case, dir, cost),
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

/// What the transfer would gain without the losses: the bytes of the recoveries at the rate outside of them, against the recoveries.
fn gain(case: &Case<'_>, dir: usize, cost: Nanos) -> String {
    use crate::budget::Limit;
    let h = case.sender(dir);
    let (time, bytes) = h.rare.recoveries;
    let busy: u64 =
        [Limit::SlowStart, Limit::CongestionWindow, Limit::ReceiveWindow, Limit::PathRate, Limit::AckWaiting]
            .map(|l| case.time(dir, l).0)
            .iter()
            .sum();
    let share = |t: Nanos| percent(t.0 as f64 / case.duration.0.max(1) as f64);
    let rest = h.count.unique_bytes.saturating_sub(bytes);
    if case.vantage.only_direction.is_some() {
        return "find where packets are dropped: counters of interfaces, policers and queues on the path".into();
    }
    if bytes == 0 || rest == 0 || busy < 1_000_000 {
        return format!("at most {cost} of recovery ({} of the time)", share(cost));
    }
    let without = (bytes as f64 / (rest as f64 / busy as f64)) as u64;
    let saved = Nanos(time.saturating_sub(without)).min(cost);
    if saved.0 < case.duration.0 / 100 {
        return format!("little: in the {cost} of recovery data went on as fast as at other times");
    }
    format!("about {saved} ({} of the time): the recoveries' bytes at the rate outside of them", share(saved))
}
