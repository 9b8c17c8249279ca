//! A scenario: path, hosts and programs, all from one seed.

mod host;
mod path;
mod program;

use lab::Side;
use serde::{Deserialize, Serialize};

pub use host::Host;
pub use path::{PathPlan, Step};
pub use program::{Act, Program, Talk};

use crate::draw::Draw;

/// An end of every connection of a plan: the client is in host a of the lab, the server in host b.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Who opens the connections.
    Client,
    /// Who is called.
    Server,
}

impl End {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Client, Self::Server];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Its IPv4 address in every lab.
    pub(crate) fn address(self) -> [u8; 4] {
        Side::ALL[self as usize].ipv4().octets()
    }
}

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What it was drawn from; also where the path's own draws begin.
    pub seed: u64,
    /// The path.
    pub path: PathPlan,
    /// Client and server.
    pub hosts: [Host; 2],
    /// The connections. The first is the one that the path was drawn for; the others compete with
    /// it.
    pub talks: Vec<Talk>,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let draw = &mut Draw::new(seed, 0);
        let sender = if draw.chance(0.5) { End::Client } else { End::Server };
        let path = PathPlan::draw(draw, sender);
        let hosts = [Host::draw(draw), Host::draw(draw)];
        let first = Talk::draw(draw, &path, &hosts, sender);
        let mut talks = vec![first];
        match draw.weighted(&[0.75, 0.12, 0.13]) {
            0 => {}
            // The same program several times.
            1 => talks = vec![talks[0].clone(); draw.whole(2, 4) as usize],
            _ => talks.push(Talk::draw(draw, &path, &hosts, sender)),
        }
        for talk in talks.iter_mut().skip(1) {
            talk.after_us = draw.log(1e3, 1e6) as u64;
        }
        Self { seed, path, hosts, talks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_plan_again_and_every_plan_can_be_made() {
        for seed in 0..3_000 {
            let plan = Plan::draw(seed);
            assert_eq!(plan, Plan::draw(seed));
            let text = serde_json::to_string(&plan).unwrap();
            let again: Plan = serde_json::from_str(&text).unwrap();
            // JSON keeps shares to the last digit but one.
            assert_eq!((again.seed, &again.hosts, &again.talks), (seed, &plan.hosts, &plan.talks));
            let mut now = plan.path.config(seed);
            now.check().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{plan:#?}"));
            for step in &plan.path.steps {
                [now.a_to_b, now.b_to_a] = step.ways.clone();
                now.check().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{plan:#?}"));
            }
        }
    }

    #[test]
    fn plans_differ_in_every_part() {
        let plans: Vec<Plan> = (0..500).map(Plan::draw).collect();
        let share = |has: &dyn Fn(&Plan) -> bool| plans.iter().filter(|p| has(p)).count() as f64 / plans.len() as f64;
        let some = |has: &dyn Fn(&Plan) -> bool| (0.01..0.99).contains(&share(has));
        assert!(some(&|p| p.path.ways[0].rate.is_some()));
        assert!(some(&|p| p.path.ways.iter().any(|w| w.loss.share() > 0.0)));
        assert!(some(&|p| !p.path.steps.is_empty()));
        assert!(some(&|p| p.hosts.iter().any(|h| h.receive_buffer.is_some())));
        assert!(some(&|p| p.talks.len() > 1));
        for kind in Program::NAMES {
            assert!(some(&|p| p.talks[0].program.name == kind), "{kind}");
        }
    }
}
