//! Packets were lost, and repairing them took time.

use super::{Case, Drawn, Kind, Rule, View, percent, times};
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
    let needed = count.resent_packets.saturating_sub(u64::from(h.rare.spurious));
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
    if !one_sided && cost == record::Nanos::ZERO && needed == u64::from(h.rare.by_class[Class::Unclear as usize]) {
        // Bytes that came again, such as a window probe's, while nothing was being repaired.
        return None;
    }
    let classes: Vec<String> = Class::ALL
        .into_iter()
        .filter(|c| *c != Class::Syn && h.rare.by_class[*c as usize] > 0)
        .map(|c| format!("{} {}", h.rare.by_class[c as usize], c.words()))
        .collect();
    let slowest = recoveries.and_then(|e| e.costliest());
    let timeouts = h.rare.by_class[Class::Timeout as usize];
    let rate = needed as f64 / count.payload_packets.max(1) as f64;
    Some(Drawn {
        packets: recoveries.map(|e| e.packets()).unwrap_or_default(),
        at: recoveries.map_or(case.c.first_at, |e| e.first_at()),
        count: needed,
        cost,
        text: format!(
            "{needed} of {} data packets to the {} were retransmitted ({:.2} %: {}){}{}",
            count.payload_packets,
            case.receiver_name(dir),
            rate * 100.0,
            classes.join(", "),
            if h.rare.spurious > 0 { format!(", {} more needlessly", h.rare.spurious) } else { String::new() },
            slowest.map_or(String::new(), |e| format!(
                "; the slowest recovery took {} (packet {}, by {}; {})",
                record::Nanos(e.cost),
                e.packets[1],
                Class::ALL.get(e.detail as usize).map_or("", |c| c.words()),
                recoveries.map_or(String::new(), |r| if r.count == 1 {
                    "1 recovery".into()
                } else {
                    format!("{} recoveries", r.count)
                })
            )),
        ),
        worth: format!(
            "{cost} of recovery ({} of the time){}",
            percent(cost.0 as f64 / case.duration.0.max(1) as f64),
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
