//! The connections of a capture as a run directory.

use std::path::Path;

use anyhow::Context as _;
use diagnose::{Direction, Follower, Limit, Report};
use store::capture::{Conversation, Finding, LIMITS, Provenance, Run, Way};

use super::Reading;
use crate::exit::BadInput;

fn way(of: &Direction) -> Way {
    Way {
        packets: of.packets,
        bytes: of.unique_bytes,
        resent_packets: of.resent_packets,
        rtt_p50_ns: of.rtt.median_ns.map(|n| n.0),
    }
}

fn conversation(r: &Report) -> Conversation {
    let mut limits_ns = [0; LIMITS.len()];
    for (into, limit) in limits_ns.iter_mut().zip(Limit::ALL) {
        *into = r.limits.of(limit).0;
    }
    Conversation {
        number: r.number as u64,
        client: r.client,
        server: r.server,
        start_ns: r.start_ns,
        duration_ns: r.duration_ns.0,
        verdict: r.verdict.clone(),
        ending: r.ending.to_owned(),
        to_server: way(&r.to_server),
        to_client: way(&r.to_client),
        limits_ns,
    }
}

fn findings(r: &Report) -> impl Iterator<Item = Finding> + '_ {
    r.findings.iter().map(|f| Finding {
        number: r.number as u64,
        kind: f.kind.to_owned(),
        direction: f.direction.map(str::to_owned),
        at_ns: f.at_ns,
        count: f.count,
        cost_ns: f.cost_ns.0,
        text: f.text.clone(),
        worth: f.worth.clone(),
        packets: f.packets.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    })
}

/// Writes the run of the capture `name` into the new directory `path`.
pub fn write(path: &Path, name: &str, follower: &Follower, reading: &Reading) -> anyhow::Result<()> {
    let (mut conversations, mut found) = (Vec::new(), Vec::new());
    for report in follower.reports() {
        conversations.push(conversation(&report));
        found.extend(findings(&report));
    }
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command_line: std::env::args().collect(),
        source: name.to_owned(),
        packets: reading.packets,
        unread: reading.unread(),
    };
    match (Run { provenance, conversations, findings: found }).write(path) {
        Err(error @ (store::Error::Exists(_) | store::Error::Create { .. })) => Err(BadInput(error.to_string()).into()),
        other => other.context("the run of the capture is not whole"),
    }
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
