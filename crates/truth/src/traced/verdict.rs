//! What a trace says of a connection, judged.

use std::collections::BTreeMap;

use paper::document::{Clause, ClauseKind};
use record::ConnectionId;
use serde::{Deserialize, Serialize};

use super::judge::{self, Facts};
use super::requests::Requests;
use super::said::{self, Claim, Whole, plain};
use super::sends::Sends;
use super::{Reading, Traced};
use crate::account::{Cause, Truth};
use crate::plan::End;
use crate::run::Observation;
use crate::score::{FASTEST, Outcome, cause_name, head, row};

/// A part of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What it says first.
    Headline,
    /// What it says to do next.
    Next,
}

impl Part {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Headline, Self::Next];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Headline => "headline",
            Self::Next => "next step",
        }
    }
}

/// One statement of a trace, judged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The plan's seed.
    pub seed: u64,
    /// Its connection's place in the plan.
    pub talk: usize,
    /// What the programs do.
    pub program: String,
    /// The end that was traced.
    pub end: End,
    /// What the trace was asked for.
    pub reading: Reading,
    /// Which part of what it says.
    pub part: Part,
    /// What was claimed, in a word or two.
    pub claim: String,
    /// What was said.
    pub said: String,
    /// The largest true cause of the time by which it is judged.
    pub cause: Cause,
    /// That time by cause, ns.
    pub truth: BTreeMap<Cause, u64>,
    /// What it is worth.
    pub outcome: Outcome,
}

impl Traced {
    /// Every statement on the connections of a plan: at each end that sent anything what it says of
    /// the sends, and at the other what it says of what was received.
    ///
    /// # Panics
    /// Where it says something that is not known here.
    pub fn verdicts(&self, seen: &Observation) -> Vec<Verdict> {
        if seen.spoiled.is_some() || self.lost.missed_of_requests() > 0 {
            return Vec::new();
        }
        let capacity = seen.capacity();
        let mut all = Vec::new();
        for ((talk, observed), both) in seen.talks.iter().enumerate().zip(seen.truths()) {
            for end in End::ALL {
                let Some(id) = observed.cookies[end as usize].map(ConnectionId) else { continue };
                let truth = Truth::of_sends(&seen.plan, observed, &capacity, end);
                let sends = Sends::of(self.of(id), self.clock, &observed.ticks, &truth, end);
                let (first, last) =
                    truth.moments().first().zip(truth.moments().last()).map_or((0, 0), |(a, b)| (a.from, b.to));
                let bytes =
                    observed.ticks.iter().filter_map(|t| t.ends[end as usize]).map(|s| s.acked).max().unwrap_or(0);
                let is_fast = bytes as f64 * 8e9 / (last - first).max(1) as f64 > FASTEST;
                let round_trip = seen.plan.path.longest_round_trip().0;
                let facts = Facts {
                    seen: observed,
                    end,
                    sends,
                    requests: Requests::of(observed, &both[end as usize], end, round_trip),
                    all: truth.causes(first, last),
                    round_trip,
                };
                for reading in Reading::ALL {
                    let Some(document) = self.document(id, reading) else { continue };
                    for (part, said, claim) in statements(&document.verdict, reading) {
                        let outcome = if is_fast { Outcome::NotJudged } else { facts.judge(&claim) };
                        let time = facts.time(&claim);
                        all.push(Verdict {
                            seed: seen.plan.seed,
                            talk,
                            program: seen.plan.talks[talk].program.name.to_string(),
                            end,
                            reading,
                            part,
                            claim: name(&claim),
                            said,
                            cause: judge::largest(&time),
                            truth: time,
                            outcome,
                        });
                    }
                }
            }
        }
        all
    }
}

/// What a verdict claims, by part, with its words. The statements on received bytes and on requests
/// are those that are not on sends.
fn statements(verdict: &[Clause], reading: Reading) -> Vec<(Part, String, Claim)> {
    let Some(first) = verdict.iter().find(|clause| clause.kind == ClauseKind::Finding) else { return Vec::new() };
    let text = plain(&first.text);
    let mut all = Vec::new();
    let mut add = |part, text: String, claim: Option<Claim>| {
        let claim = claim.unwrap_or_else(|| panic!("what is claimed here is not known: {text}"));
        all.push((part, text, claim));
    };
    if reading != Reading::Sends {
        let is_of = |clause: &&Clause| {
            let text = plain(&clause.text);
            match reading {
                Reading::Receives => text.contains(" receives") || text.contains(" 1 receive"),
                _ => text.contains(" seen from the "),
            }
        };
        let next = verdict.iter().filter(is_of).find_map(|clause| clause.next.as_ref()).map(plain);
        if let Some(next) = next {
            let claim = match reading {
                Reading::Receives => said::step(&next, Whole::InTcp),
                _ => said::step_of_requests(&next),
            };
            add(Part::Next, next, claim);
        }
        return all;
    }
    // An end that writes nothing has nothing to be told.
    if text.contains("nothing was written on them") {
        return all;
    }
    let claim = said::headline(&text);
    // What it says next of a connection on which nothing happens is the same once more.
    let is_quiet = matches!(claim, Some(Claim::Quiet(_)));
    add(Part::Headline, text, claim);
    if let Some(next) = first.next.as_ref().filter(|_| !is_quiet) {
        // Where programs waited for room for most of the time, that is what a step is on.
        let position = |words: &str| verdict.iter().position(|clause| plain(&clause.text).starts_with(words));
        let leg = position("The ").or_else(|| position("No leg")).or_else(|| position("Where "));
        let is_blocked = position("Programs waited ").is_some_and(|waited| leg.is_none_or(|leg| waited < leg));
        let next = plain(next);
        let claim = said::step(&next, if is_blocked { Whole::Transfer } else { Whole::InTcp });
        add(Part::Next, next, claim);
    }
    all
}

/// A claim in a word or two.
fn name(claim: &Claim) -> String {
    match claim {
        Claim::Causes(of) => of.name.to_owned(),
        Claim::Legs(legs, _) => {
            let names: Vec<String> = legs.iter().map(ToString::to_string).collect();
            format!("the {} leg", names.join(" and "))
        }
        Claim::Quiet(_) => "nothing on its way".to_owned(),
        Claim::Distance => "the distance".to_owned(),
        Claim::RoundTrip => "a round trip each".to_owned(),
        Claim::LossesOnTheWay => "losses on the path".to_owned(),
        Claim::Requests(name, _) => (*name).to_owned(),
        Claim::ReadsLate => "the program reads late".to_owned(),
        Claim::Nothing(why) => (*why).to_owned(),
    }
}

/// Seeds that are shown of each kind of mistake.
const SHOWN: usize = 8;

/// Tables of the verdicts, as Markdown, the wrong ones with their seeds.
pub fn tables(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    let row =
        |name: &str, of: &dyn Fn(&Verdict) -> bool| row(name, verdicts.iter().filter(|v| of(v)).map(|v| &v.outcome));
    text += &head("statement");
    for reading in Reading::ALL {
        for part in Part::ALL {
            let name = format!("{}, {}", reading.name(), part.name());
            text += &row(&name, &|v| v.reading == reading && v.part == part);
        }
    }
    text += &row("all", &|_| true);
    text += &head("true cause");
    for cause in Cause::ALL {
        text += &row(&cause_name(cause), &|v| v.cause == cause);
    }
    let mut kinds: BTreeMap<(Reading, Part, &str, Cause), Vec<u64>> = BTreeMap::new();
    for v in verdicts.iter().filter(|v| v.outcome == Outcome::Wrong) {
        kinds.entry((v.reading, v.part, &v.claim, v.cause)).or_default().push(v.seed);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.1.len()));
    text += "\nWrong statements:\n\n| statement | claimed | true | times | seeds |\n|---|---|---|---|---|\n";
    for ((reading, part, claim, cause), mut seeds) in kinds {
        let n = seeds.len();
        seeds.dedup();
        let seeds: Vec<String> = seeds.into_iter().take(SHOWN).map(|seed| seed.to_string()).collect();
        text += &format!(
            "| {}, {} | {claim} | {} | {n} | {} |\n",
            reading.name(),
            part.name(),
            cause_name(cause),
            seeds.join(", ")
        );
    }
    text
}
