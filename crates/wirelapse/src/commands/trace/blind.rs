//! What `--until` waits for and this machine cannot see: it would be waited for in vain.

use record::ReceiveStage;
use trace::{Observation, Observed, Unseen};

use super::recorder::Plan;

/// What is waited for, what has to be seen for it, and whose probes can.
const SEEN_BY: [(&str, Unseen, &[Observed]); 6] = [
    ("drop", Unseen::Drops, &[Observed::Packets, Observed::Copies]),
    ("send.call", Unseen::Call, &[Observed::Calls]),
    ("receive.softirq", Unseen::Received(ReceiveStage::DriverRx), &[Observed::Receives]),
    ("receive.socket", Unseen::Received(ReceiveStage::Ready), &[Observed::Receives]),
    ("datagram.softirq", Unseen::DatagramsReceived, &[Observed::Packets]),
    ("datagram.socket", Unseen::DatagramsRead, &[Observed::Packets]),
];

/// What is seen of it only in part.
const IN_PART: [(&str, Unseen); 2] = [("drop", Unseen::ReceivedDrops), ("datagram.udp", Unseen::DatagramsSent)];

/// Whether every trigger of a recorder can happen; gives what is to be said of those that see only
/// a part.
///
/// # Errors
/// The first that cannot, and why.
pub fn check(plan: &Plan, observations: &[Observation]) -> Result<Vec<String>, String> {
    let why = |of: &Observation, unseen| {
        of.missing.iter().find(|missing| missing.what == unseen).map(|missing| missing.reason.clone())
    };
    for trigger in &plan.triggers {
        for (subject, unseen, by) in SEEN_BY {
            let mut observers = observations.iter().filter(|of| by.contains(&of.observed)).peekable();
            if subject != trigger.subject() || observers.peek().is_none() {
                continue;
            }
            // One that sees it is enough.
            let whys: Option<Vec<String>> = observers.map(|of| why(of, unseen)).collect();
            if let Some(why) = whys.and_then(|whys| whys.into_iter().next()) {
                return Err(format!("--until \"{trigger}\" cannot happen here, since it is not seen: {why}"));
            }
        }
    }
    let parts = plan.triggers.iter().flat_map(|trigger| IN_PART.map(|part| (trigger, part)));
    let parts = parts.filter(|(trigger, (subject, _))| *subject == trigger.subject());
    let said = parts.filter_map(|(trigger, (_, unseen))| {
        let reason = observations.iter().find_map(|of| why(of, unseen))?;
        Some(format!("--until \"{trigger}\" sees only a part of it ({}: {reason})", unseen.name()))
    });
    Ok(said.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Nanos;
    use summary::Trigger;
    use trace::Missing;

    fn plan(triggers: &[&str]) -> Plan {
        let triggers = triggers.iter().map(|text| Trigger::parse(text).unwrap()).collect();
        Plan { triggers, keep: Nanos::ZERO, memory: 0, drops_of_copies: true }
    }

    fn observes(observed: Observed, missing: &[Unseen]) -> Observation {
        let missing = missing.iter().map(|&what| Missing { what, reason: "too old".into() }).collect();
        Observation { observed, missing, host_wide: Vec::new() }
    }

    #[test]
    fn what_cannot_be_seen_is_not_waited_for() {
        let drop = plan(&["signal", "drop"]);
        let blind = observes(Observed::Copies, &[Unseen::AfterClose, Unseen::Drops]);
        let refused = check(&drop, std::slice::from_ref(&blind)).unwrap_err();
        assert_eq!(refused, "--until \"drop\" cannot happen here, since it is not seen: too old");
        assert_eq!(check(&plan(&["signal"]), std::slice::from_ref(&blind)), Ok(vec![]));
        // Another probe sees drops, or those of what was sent.
        assert_eq!(check(&drop, &[blind.clone(), observes(Observed::Packets, &[])]), Ok(vec![]));
        let sent = observes(Observed::Copies, &[Unseen::ReceivedDrops]);
        let said = check(&drop, &[sent]).unwrap();
        assert_eq!(said, ["--until \"drop\" sees only a part of it (received drops: too old)"]);
    }

    #[test]
    fn a_leg_without_its_stamps_is_not_waited_for() {
        let ready = observes(Observed::Receives, &[Unseen::Received(ReceiveStage::Ready)]);
        let said = |text| check(&plan(&[text]), std::slice::from_ref(&ready));
        assert!(said("receive.socket > 1ms").is_err());
        assert_eq!(said("receive.softirq > 1ms"), Ok(vec![]));
        assert_eq!(said("receive > 1ms"), Ok(vec![]));
    }
}
