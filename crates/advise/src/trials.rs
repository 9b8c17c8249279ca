//! Every remedy against the twin as it was seen, in randomised blocks.

use diagnose::conditions::Conditions;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use record::{Instant, Monotonic, Nanos};
use stats::Comparison;

use crate::fit::at_most;
use crate::trial::{Trial, run};
use crate::{Candidate, Error, Fitted};

/// What is to become better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// The time until everything has been said and read.
    #[default]
    Completion,
    /// The rate: the same bytes in less time.
    Throughput,
    /// How long the client waits for an answer, the median.
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

    /// The time that is compared, ns; `None` where the connection has none.
    fn of(self, trial: &Trial) -> Option<f64> {
        match self {
            Self::Completion | Self::Throughput => Some(trial.completion.0 as f64),
            Self::Latency => stats::median(&trial.answers.iter().map(|ns| ns.0 as f64).collect::<Vec<_>>()),
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
    /// The medians without it and with it.
    pub medians_ns: Option<[Nanos; 2]>,
    /// What it was worth; `None` with fewer than two pairs.
    pub comparison: Option<Comparison>,
    /// Pairs.
    pub n: usize,
    /// Why it could not be tried, where it could not.
    pub failed: Option<String>,
}

impl Tried {
    /// Whether it is faster with it, beyond doubt.
    pub fn helps(&self) -> bool {
        self.comparison.as_ref().is_some_and(|c| c.seen() && c.ratio.value < 0.0)
    }

    /// Whether it is slower with it, beyond doubt.
    pub fn harms(&self) -> bool {
        self.comparison.as_ref().is_some_and(|c| c.seen() && c.ratio.value > 0.0)
    }
}

/// Blocks at least, where there is time for them, and at most.
const FEWEST: u32 = 4;
const MOST: u32 = 12;
/// An interval that reaches no further than this to either side is narrow enough.
const NARROW: f64 = 0.03;

/// Tries every candidate. Gives what came of each, the best first, and those that there was no time
/// for. `go_on` is asked before each trial.
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
) -> Result<(Vec<Tried>, Vec<Candidate>), Error> {
    let (candidates, no_time) = affordable(fitted, candidates, limits);
    let mut twins = vec![fitted.twin.clone()];
    twins.extend(candidates.iter().map(|candidate| {
        let mut twin = fitted.twin.clone();
        (candidate.remedy.change)(&mut twin, candidate.way);
        twin
    }));
    let mut values: Vec<Vec<Option<f64>>> = vec![Vec::new(); twins.len()];
    let mut failed: Vec<Option<String>> = vec![None; twins.len()];
    let mut random = Pcg64Mcg::seed_from_u64(limits.seed);
    let (began, mut done) = (traffic::now(), 0);
    'blocks: for block in 0..MOST {
        let mut order: Vec<usize> = (0..twins.len()).filter(|i| failed[*i].is_none()).collect();
        order.shuffle(&mut random);
        let each = traffic::now().saturating_since(began).0 / done.max(1) as u64;
        let takes = each * order.len() as u64;
        if block > 0 && traffic::now().after(Nanos(takes)) > limits.until {
            break;
        }
        if block >= FEWEST && decided(&values, &failed) {
            break;
        }
        let (planned, mut in_block) = (done + order.len() * (MOST - block) as usize, vec![None; twins.len()]);
        for i in order {
            if !go_on() {
                break 'blocks;
            }
            let bound = limits.until.saturating_since(traffic::now());
            tell(Progress { done, planned, left: Nanos(each * (planned - done) as u64).min(bound) });
            // Every block has its own losses, the same for all of its trials.
            match run(&twins[i], limits.seed.wrapping_add(u64::from(block)), None, at_most(c)) {
                Ok(trial) => in_block[i] = limits.goal.of(&trial),
                Err(error) if i == 0 => return Err(error),
                Err(error) => failed[i] = Some(error.to_string()),
            }
            done += 1;
        }
        values.iter_mut().zip(in_block).for_each(|(of, value)| of.push(value));
    }
    if values[0].is_empty() {
        return Err(Error::Interrupted);
    }
    let judge = |i: usize, candidate: &Candidate| tried(*candidate, &values[0], &values[i + 1], failed[i + 1].clone());
    let mut all: Vec<Tried> = candidates.iter().enumerate().map(|(i, candidate)| judge(i, candidate)).collect();
    let worth = |t: &Tried| t.comparison.as_ref().map_or(f64::INFINITY, |c| c.ratio.value);
    all.sort_by(|a, b| (!a.helps()).cmp(&!b.helps()).then(worth(a).total_cmp(&worth(b))));
    Ok((all, no_time))
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

/// Whether every comparison is as exact as it is wanted.
fn decided(values: &[Vec<Option<f64>>], failed: &[Option<String>]) -> bool {
    (1..values.len()).filter(|i| failed[*i].is_none()).all(|i| {
        let (a, b) = pairs(&values[0], &values[i]);
        Comparison::of(&a, &b, 1).is_some_and(|c| c.ratio.half_width() <= NARROW)
    })
}

fn pairs(base: &[Option<f64>], other: &[Option<f64>]) -> (Vec<f64>, Vec<f64>) {
    base.iter().zip(other).filter_map(|(a, b)| Some(((*a)?, (*b)?))).unzip()
}

fn tried(candidate: Candidate, base: &[Option<f64>], with: &[Option<f64>], failed: Option<String>) -> Tried {
    let (a, b) = pairs(base, with);
    let median = |values: &[f64]| stats::median(values).map(|ns| Nanos(ns as u64));
    Tried {
        candidate,
        medians_ns: median(&a).zip(median(&b)).map(|(a, b)| [a, b]),
        comparison: Comparison::of(&a, &b, 1),
        n: a.len(),
        failed,
    }
}
