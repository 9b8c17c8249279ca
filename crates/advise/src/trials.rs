//! Every remedy against the twin as it was seen, in randomised blocks.

use diagnose::conditions::Conditions;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use record::conversation::FindingKind;
use record::{Instant, Monotonic, Nanos};
use serde::{Deserialize, Serialize};
use stats::Comparison;

use crate::fit::at_most;
use crate::trial::{Trial, run};
use crate::twin::Twin;
use crate::{Candidate, Error, Fitted, WORTHWHILE};

/// What is to become better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The time until everything has been said and read.
    #[default]
    Completion,
    /// The rate: the same bytes in less time.
    Throughput,
    /// How long the client waits for an answer, the median; where nothing is answered, the round
    /// trip of the data that are sent.
    Latency,
}

impl Goal {
    /// Every goal.
    pub const ALL: [Self; 3] = [Self::Completion, Self::Throughput, Self::Latency];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completion => "completion",
            Self::Throughput => "throughput",
            Self::Latency => "latency",
        }
    }

    /// What is most likely wanted of this connection: a shorter queue where that is what was found
    /// to cost most; shorter waits for answers where the programs' own pauses are most of its time;
    /// and otherwise that it is over sooner.
    pub fn likely(c: &Conditions) -> Self {
        let costliest = c.causes.iter().max_by_key(|cause| cause.cost_ns);
        let is_queue = costliest.is_some_and(|cause| cause.kind == FindingKind::Bufferbloat.name());
        let [client, server] = c.programs_ns;
        let pauses = quantity::share((client + server).0.into(), c.duration_ns.0.into()) >= 0.5;
        let is_dialogue = c.script.client.windows(2).filter(|steps| steps[1].after > steps[0].after).count() >= 2;
        if is_queue || (pauses && is_dialogue) { Self::Latency } else { Self::Completion }
    }

    /// The time that is compared, ns; `None` where the connection has none.
    fn of(self, trial: &Trial) -> Option<f64> {
        let median = |times: &[Nanos]| stats::median(&times.iter().map(|ns| ns.0 as f64).collect::<Vec<_>>());
        match self {
            Self::Latency if trial.finished => median(&trial.answers).or_else(|| median(&trial.round_trips)),
            Self::Completion | Self::Throughput | Self::Latency => Some(trial.completion.0 as f64),
        }
    }
}

/// How much may be spent.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When trials end.
    pub until: Instant<Monotonic>,
    /// The seed of order and losses.
    pub seed: u64,
    /// What is to become better.
    pub goal: Goal,
}

/// How far the trials are.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Trials done.
    pub done: usize,
    /// Of so many that are planned at present.
    pub planned: usize,
    /// How long that takes at most.
    pub left: Nanos,
}

/// What trials of a remedy gave.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The remedy.
    pub candidate: Candidate,
    /// What it was worth.
    pub worth: Worth,
    /// Whether it helps, and trials could not tell it from the fastest one.
    pub level: bool,
}

/// What trials with something changed gave, beside those without it.
#[derive(Clone, Debug, Default)]
pub struct Worth {
    /// The medians without it and with it.
    pub medians_ns: Option<[Nanos; 2]>,
    /// The change; `None` with fewer than two pairs.
    pub comparison: Option<Comparison>,
    /// Pairs.
    pub n: usize,
    /// Of these, how many were not over by their bound without it, and with it. The bound is their
    /// time.
    pub unfinished: [usize; 2],
    /// Why it could not be tried, where it could not.
    pub failed: Option<String>,
}

impl Worth {
    /// Whether it is faster with it, beyond doubt.
    pub fn helps(&self) -> bool {
        self.comparison.as_ref().is_some_and(|c| c.seen() && c.ratio.value < 0.0)
    }

    /// Whether it is slower with it, beyond doubt.
    pub fn harms(&self) -> bool {
        self.comparison.as_ref().is_some_and(|c| c.seen() && c.ratio.value > 0.0)
    }

    /// The change of the time: −0.5 is half.
    pub fn change(&self) -> Option<f64> {
        self.comparison.as_ref().map(|c| c.ratio.value)
    }
}

/// A trial that was run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// What was changed; empty for the twin as it was seen.
    pub with: String,
    /// The block.
    pub block: u32,
    /// The time that is compared; `None` where the trial had none or failed.
    pub time_ns: Option<Nanos>,
    /// Whether it came to its end within its bound.
    pub finished: bool,
}

/// What all trials gave.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Every remedy that was tried, the best first.
    pub tried: Vec<Tried>,
    /// Those that there was no time for.
    pub no_time: Vec<Candidate>,
    /// The trials, in the order in which they were run.
    pub trials: Vec<Done>,
}

/// Blocks at least, where there is time for them, and at most.
const FEWEST: u32 = 4;
const MOST: u32 = 12;
/// An interval that reaches no further than this to either side is narrow enough.
const NARROW: f64 = 0.03;

/// Tries every candidate. `go_on` is asked before each trial.
///
/// # Errors
/// [`Error`] where the twin itself cannot be run.
pub fn compare(
    c: &Conditions,
    fitted: &Fitted,
    candidates: &[Candidate],
    limits: Limits,
    tell: &mut dyn FnMut(Progress),
    go_on: &dyn Fn() -> bool,
) -> Result<Compared, Error> {
    let (candidates, no_time) = affordable(fitted, candidates, limits);
    let mut twins = vec![(String::new(), fitted.twin.clone())];
    twins.extend(candidates.iter().map(|candidate| {
        let mut twin = fitted.twin.clone();
        candidate.remedy.apply(&mut twin, candidate.way);
        (candidate.remedy.name.to_owned(), twin)
    }));
    let blocks = Blocks::run(c, &twins, limits, tell, go_on)?;
    let each = (1..).zip(candidates);
    let tried = each.map(|(i, candidate)| (i, Tried { candidate, worth: blocks.worth(i), level: false }));
    let tried = ranked(tried.collect(), |fastest, other| blocks.apart(fastest, other));
    Ok(Compared { tried, no_time, trials: blocks.trials })
}

/// The best first: what helps, by how much. Of those that trials cannot distinguish from the
/// fastest (`apart`, by the numbers of their twins), and that take less than a worthwhile change
/// longer, the first is what the largest part of the time waited for.
fn ranked(mut tried: Vec<(usize, Tried)>, apart: impl Fn(usize, usize) -> bool) -> Vec<Tried> {
    let change = |t: &Tried| t.worth.change().unwrap_or(f64::INFINITY);
    let group = |t: &Tried| (!t.worth.helps(), !t.level);
    tried.sort_by(|(_, a), (_, b)| group(a).cmp(&group(b)).then(change(a).total_cmp(&change(b))));
    let Some((fastest, least)) = tried.first().filter(|(_, t)| t.worth.helps()).map(|(i, t)| (*i, change(t))) else {
        return tried.into_iter().map(|(_, t)| t).collect();
    };
    for (i, t) in &mut tried {
        t.level = t.worth.helps() && change(t) < least + WORTHWHILE && (*i == fastest || !apart(fastest, *i));
    }
    let share = |t: &Tried| if t.level { t.candidate.share } else { 0.0 };
    tried.sort_by(|(_, a), (_, b)| group(a).cmp(&group(b)).then(share(b).total_cmp(&share(a))));
    tried.into_iter().map(|(_, t)| t).collect()
}

/// Trials of several twins in randomised blocks.
pub(crate) struct Blocks {
    /// Of each twin, of each block.
    times: Vec<Vec<Option<Time>>>,
    failed: Vec<Option<String>>,
    pub(crate) trials: Vec<Done>,
}

#[derive(Clone, Copy)]
struct Time {
    ns: f64,
    finished: bool,
}

impl Blocks {
    /// Runs them, each with its name, against the first.
    pub(crate) fn run(
        c: &Conditions,
        twins: &[(String, Twin)],
        limits: Limits,
        tell: &mut dyn FnMut(Progress),
        go_on: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let mut all =
            Self { times: vec![Vec::new(); twins.len()], failed: vec![None; twins.len()], trials: Vec::new() };
        let mut random = Pcg64Mcg::seed_from_u64(limits.seed);
        let (began, mut done) = (traffic::now(), 0);
        'blocks: for block in 0..MOST {
            let mut order: Vec<usize> = (0..twins.len()).filter(|i| all.failed[*i].is_none()).collect();
            order.shuffle(&mut random);
            let each = traffic::now().saturating_since(began).0 / done.max(1) as u64;
            let takes = each * order.len() as u64;
            if block > 0 && traffic::now().after(Nanos(takes)) > limits.until {
                break;
            }
            if block >= FEWEST && all.is_decided() {
                break;
            }
            let planned = done + order.len() * (MOST - block) as usize;
            let mut in_block = vec![None; twins.len()];
            for i in order {
                if !go_on() {
                    break 'blocks;
                }
                let bound = limits.until.saturating_since(traffic::now());
                tell(Progress { done, planned, left: Nanos(each * (planned - done) as u64).min(bound) });
                let (name, twin) = &twins[i];
                // Every block has its own losses, the same for all of its trials.
                match run(twin, limits.seed.wrapping_add(u64::from(block)), None, at_most(c)) {
                    Ok(trial) => {
                        in_block[i] = limits.goal.of(&trial).map(|ns| Time { ns, finished: trial.finished });
                    }
                    Err(error) if i == 0 => return Err(error),
                    Err(error) => all.failed[i] = Some(error.to_string()),
                }
                let time = in_block[i];
                all.trials.push(Done {
                    with: name.clone(),
                    block,
                    time_ns: time.map(|t| Nanos(t.ns as u64)),
                    finished: time.is_some_and(|t| t.finished),
                });
                done += 1;
            }
            all.times.iter_mut().zip(in_block).for_each(|(of, time)| of.push(time));
        }
        if all.times[0].is_empty() { Err(Error::Interrupted) } else { Ok(all) }
    }

    fn pairs(&self, i: usize, j: usize) -> Vec<(Time, Time)> {
        self.times[i].iter().zip(&self.times[j]).filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect()
    }

    /// Whether one of two twins is faster than the other, beyond doubt.
    fn apart(&self, i: usize, j: usize) -> bool {
        let (a, b): (Vec<f64>, Vec<f64>) = self.pairs(i, j).iter().map(|(a, b)| (a.ns, b.ns)).unzip();
        Comparison::of(&a, &b, 1).is_some_and(|c| c.seen())
    }

    /// What the twin of this number was worth beside the first.
    pub(crate) fn worth(&self, i: usize) -> Worth {
        let pairs = self.pairs(0, i);
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(a, b)| (a.ns, b.ns)).unzip();
        let median = |values: &[f64]| stats::median(values).map(|ns| Nanos(ns as u64));
        Worth {
            medians_ns: median(&a).zip(median(&b)).map(|(a, b)| [a, b]),
            comparison: Comparison::of(&a, &b, 1),
            n: pairs.len(),
            unfinished: [
                pairs.iter().filter(|(a, _)| !a.finished).count(),
                pairs.iter().filter(|(_, b)| !b.finished).count(),
            ],
            failed: self.failed[i].clone(),
        }
    }

    /// Whether every comparison is as exact as it is wanted.
    fn is_decided(&self) -> bool {
        (1..self.times.len()).filter(|i| self.failed[*i].is_none()).all(|i| {
            let worth = self.worth(i);
            worth.comparison.is_some_and(|c| c.ratio.half_width() <= NARROW)
        })
    }
}

/// As many of the candidates, from the first on, as there is time to try in the fewest blocks.
fn affordable(fitted: &Fitted, candidates: &[Candidate], limits: Limits) -> (Vec<Candidate>, Vec<Candidate>) {
    let each = fitted.fit.twin_ns.0 + AROUND;
    let left = limits.until.saturating_since(traffic::now()).0;
    let most = (left / (each * u64::from(FEWEST))).saturating_sub(1).max(1);
    let (some, rest) = candidates.split_at(candidates.len().min(usize::try_from(most).unwrap_or(usize::MAX)));
    (some.to_vec(), rest.to_vec())
}

/// What making a lab and taking it down costs each trial, ns.
const AROUND: u64 = 300_000_000;

#[cfg(test)]
mod tests {
    use record::conversation::Way;

    use super::*;
    use crate::remedies;

    /// Remedies, each with the share of the time that it is for and the times with it beside 100.
    fn ranked_of(of: &[(f64, [f64; 4])]) -> Vec<(&'static str, bool)> {
        const BEFORE: [f64; 4] = [100.0, 101.0, 99.0, 100.0];
        let time = |ns: &f64| Some(Time { ns: *ns, finished: true });
        let times = std::iter::once(&BEFORE).chain(of.iter().map(|(_, times)| times));
        let blocks = Blocks {
            times: times.map(|times| times.iter().map(time).collect()).collect(),
            failed: vec![None; of.len() + 1],
            trials: Vec::new(),
        };
        let candidate = |(remedy, (share, _)): (&&'static remedies::Remedy, &(f64, _))| Candidate {
            remedy,
            way: Way::ToServer,
            share: *share,
        };
        let candidates = remedies::ALL.iter().zip(of).map(candidate);
        let tried =
            (1..).zip(candidates).map(|(i, candidate)| (i, Tried { candidate, worth: blocks.worth(i), level: false }));
        let ranked = ranked(tried.collect(), |a, b| blocks.apart(a, b));
        ranked.iter().map(|t| (t.candidate.remedy.name, t.level)).collect()
    }

    #[test]
    fn of_those_that_trials_cannot_distinguish_the_first_is_what_most_of_the_time_waited_for() {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|i: usize| remedies::ALL[i].name);
        let of = [
            (0.1, [50.0, 51.0, 49.0, 50.2]),
            (0.8, [50.4, 50.6, 49.9, 50.1]),
            // Much for little of the time, and less than the fastest beyond doubt.
            (0.9, [60.0, 61.0, 59.0, 60.0]),
            (0.9, [100.0, 100.5, 99.5, 101.0]),
        ];
        assert_eq!(ranked_of(&of), [(second, true), (first, true), (third, false), (fourth, false)]);
    }

    #[test]
    fn what_is_faster_beyond_doubt_or_by_much_is_first_whatever_it_is_for() {
        let [first, second] = [0, 1].map(|i: usize| remedies::ALL[i].name);
        // A hundredth, in every pair.
        let little = [(0.1, [50.0, 51.0, 49.0, 50.0]), (0.9, [51.0, 52.0, 50.0, 51.0])];
        assert_eq!(ranked_of(&little), [(first, true), (second, false)]);
        // It may be as fast, and it may be far from it.
        let wide = [(0.1, [50.0, 51.0, 49.0, 50.0]), (0.9, [50.0, 70.0, 49.0, 72.0])];
        assert_eq!(ranked_of(&wide), [(first, true), (second, false)]);
        // Where nothing helps, nothing is level.
        let nothing = [(0.1, [100.0, 101.5, 99.5, 99.8]), (0.9, [100.0, 100.0, 100.0, 100.0])];
        assert!(ranked_of(&nothing).iter().all(|(_, level)| !level));
    }
}
