//! What has to be known of the table of legs.

use record::{Leg, Nanos};
use stats::Quantile;

use super::Facts;
use super::others::were;
use summary::SendFigures;

const DASH: &str = "—";

/// What has to be known to read the table of legs.
pub(crate) fn notes(total: &SendFigures, facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(facts.calls.iter().cloned());
    let nic = total.leg(Leg::Nic);
    if nic.times.n() == 0 {
        let why = facts.no_nic.as_deref().unwrap_or("no packet came back with a hardware timestamp");
        notes.push(format!("{DASH} nic: {why}, so network begins at the driver."));
    } else {
        notes.push(format!("nic stamps are converted from the NIC's clock, to within ±{} at worst.", total.nic_error));
    }
    for leg in [Leg::Tcp, Leg::Qdisc, Leg::Network] {
        let stats = total.leg(leg);
        if stats.times.n() == 0 && stats.missing > 0 {
            notes.push(format!("{DASH} {leg}: no send has the stamps at both of its ends."));
        }
    }
    let inferred: Vec<String> = [Leg::Tcp, Leg::Qdisc, Leg::Network]
        .into_iter()
        .filter(|&leg| total.leg(leg).inferred > 0)
        .map(|leg| {
            let stats = total.leg(leg);
            format!("{} of {leg} (to within {} at worst)", quantity::count(stats.inferred), stats.error)
        })
        .collect();
    if !inferred.is_empty() {
        notes.push(format!("Inferred from neighbouring packets, as their own gave no stamp: {}.", inferred.join(", ")));
    }
    let vague: Vec<String> = [Leg::Tcp, Leg::Qdisc, Leg::Network]
        .into_iter()
        .filter(|&leg| total.leg(leg).vague > 0)
        .map(|leg| format!("{} of {leg}", quantity::count(total.leg(leg).vague)))
        .collect();
    if !vague.is_empty() {
        notes.push(format!(
            "Omitted for the same reason, as they are shorter than the bound on their error: {}.",
            vague.join(", ")
        ));
    }
    if total.below_tcp.n() > 0 {
        notes.push(format!(
            "qdisc or network: of {} it is not known when they went to the driver, as their packets had no stamp.",
            quantity::counted(total.below_tcp.n(), "send")
        ));
    }
    if total.delayed_acks > 0 {
        notes.push(format!(
            "{} acknowledged by the peer's timer for delayed ACKs, while nothing waited for that: what is beyond the minimum RTT is in no leg.",
            were(total.delayed_acks, "send")
        ));
    }
    if total.divided() < total.time() {
        notes.push("not known: of sends with a stage that gave no stamp, the time that is in no leg.".to_owned());
    }
    let so_far = &total.leg(Leg::Total).so_far;
    if so_far.n() > 0 {
        notes.push(format!(
            "{} no ACK: what it has taken so far, {}, is in the time, the shares and the maximum, and percentiles are estimates for data \
             of which a part is not over (Kaplan–Meier).",
            match so_far.n() {
                1 => "1 send has".to_owned(),
                n => format!("{} have", quantity::counted(n, "send")),
            },
            match so_far.n() {
                1 => Nanos(so_far.max().unwrap_or(0)).to_string(),
                _ => format!("up to {}", Nanos(so_far.max().unwrap_or(0))),
            },
        ));
    }
    let n = total.leg(Leg::Total).n();
    let held: Vec<String> = Quantile::SHOWN
        .into_iter()
        .filter(|q| n > 0 && n < q.needs())
        .map(|q| format!("{q} needs {} sends", quantity::count(q.needs())))
        .collect();
    if !held.is_empty() {
        notes.push(format!("{DASH} percentiles: {}, and there are {}.", held.join(", "), quantity::count(n)));
    }
    notes
}
