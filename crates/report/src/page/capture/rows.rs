//! The rows of a capture's tables, made from reports: those of its run, and those that are shown.

use diagnose::{Direction, Limit, Report};
use record::Nanos;
use store::capture::{Conversation, Finding, LIMITS, Way};

fn way(of: &Direction) -> Way {
    Way {
        packets: of.packets,
        bytes: of.unique_bytes,
        retransmitted_packets: of.retransmitted_packets,
        rtt_p50_ns: of.rtt.median_ns,
    }
}

/// The row of a connection.
pub fn conversation(r: &Report) -> Conversation {
    let mut limits_ns = [Nanos::ZERO; LIMITS.len()];
    for (into, limit) in limits_ns.iter_mut().zip(Limit::ALL) {
        *into = r.limits.of(limit);
    }
    Conversation {
        number: r.number as u64,
        client: r.client,
        server: r.server,
        start_ns: Nanos(r.start_ns),
        duration_ns: r.duration_ns,
        verdict: r.verdict.clone(),
        ending: r.ending.to_owned(),
        to_server: way(&r.to_server),
        to_client: way(&r.to_client),
        limits_ns,
    }
}

/// The rows of what was found on a connection.
pub fn findings(r: &Report) -> impl Iterator<Item = Finding> + '_ {
    r.findings.iter().map(|f| Finding {
        number: r.number as u64,
        kind: f.kind.to_owned(),
        direction: f.direction.map(str::to_owned),
        at_ns: Nanos(f.at_ns),
        count: f.count,
        cost_ns: f.cost_ns,
        text: f.text.clone(),
        worth: f.worth.clone(),
        packets: f.packets.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_the_table_are_those_of_the_diagnosis_in_their_order() {
        let mut budget = diagnose::Budget::default();
        Limit::ALL.into_iter().zip(1..).for_each(|(limit, n)| budget.add(limit, n));
        let json = serde_json::to_value(budget).unwrap();
        let columns: Vec<u64> = LIMITS.iter().map(|l| json[*l].as_u64().unwrap()).collect();
        assert_eq!(columns, (1..=9).collect::<Vec<u64>>());
    }
}
