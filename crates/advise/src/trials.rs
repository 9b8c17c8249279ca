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
use crate::{Candidate, Error, Fitted};

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
    let mut tried: Vec<Tried> =
        (1..).zip(candidates).map(|(i, candidate)| Tried { candidate, worth: blocks.worth(i) }).collect();
    let change = |t: &Tried| t.worth.change().unwrap_or(f64::INFINITY);
    tried.sort_by(|a, b| (!a.worth.helps()).cmp(&!b.worth.helps()).then(change(a).total_cmp(&change(b))));
    Ok(Compared { tried, no_time, trials: blocks.trials })
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

    fn pairs(&self, i: usize) -> Vec<(Time, Time)> {
        self.times[0].iter().zip(&self.times[i]).filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect()
    }

    /// What the twin of this number was worth beside the first.
    pub(crate) fn worth(&self, i: usize) -> Worth {
        let pairs = self.pairs(i);
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
