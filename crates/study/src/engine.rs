//! Runs a study: block after block of all its plans in turn, until all is done, narrow enough, or
//! the budget is spent.

use lab::Side;
use record::Nanos;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::analysis;
use crate::ground::Ground;
use crate::named::Sysctl;
use crate::outcome::Trial;
use crate::plan::Plan;
use crate::trial;

/// A study: its name and its plans, which are run block by block in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The built-in's name, or the plan's.
    pub name: String,
    /// Whether it is a built-in one, which has its own conclusions.
    pub builtin: bool,
    /// The plans.
    pub plans: Vec<Plan>,
    /// The server's name where it is between real hosts, and whether this host's sysctls are
    /// changed for it.
    #[serde(default)]
    pub host: Option<(String, bool)>,
}

/// How long to go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Where all random draws begin.
    pub seed: u64,
    /// How long; the trial under way is finished.
    pub budget: Option<Nanos>,
}

/// With `until`, how many times its repetitions a plan goes on at most.
const MOST_REPETITIONS: u32 = 20;

/// Blocks before an interval is believed to be narrow: fewer can be narrow by chance.
const FEWEST_BLOCKS: u32 = 5;

/// A study of which so many trials, its first ones, are excluded for one reason does not go on.
const FIRST: usize = 3;

/// Whether every trial is excluded, and all of them for a reason that each has.
fn excluded_alike(trials: &[Trial]) -> bool {
    let kinds = |trial: &Trial| -> Vec<String> { trial.broken.iter().map(|text| kind(text)).collect() };
    let first = trials.first().map(kinds).unwrap_or_default();
    first.iter().any(|one| trials.iter().all(|trial| kinds(trial).contains(one)))
}

/// A reason without its figures and their units, which differ from trial to trial.
fn kind(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 3 && !word.ends_with("bit"));
    words.collect::<Vec<_>>().join(" ")
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Everything planned was run.
    Planned,
    /// Every interval is narrow enough.
    Narrow,
    /// The budget was spent.
    Budget,
    /// It was interrupted.
    Interrupted,
    /// Its first trials were all excluded for one reason, as the others would be.
    Excluded,
}

/// Where a study is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Trials done, those of earlier runs included.
    pub done: usize,
    /// Trials planned at present.
    pub planned: usize,
    /// What is being run.
    pub label: String,
    /// Time left, by the trials so far.
    pub left: Nanos,
}

impl Study {
    /// Whether all its plans can be.
    ///
    /// # Errors
    /// [`Error::Setting`] with the first setting that cannot.
    pub fn check(&self) -> Result<(), Error> {
        self.plans.iter().try_for_each(Plan::check)?;
        match &self.host {
            Some((_, sysctls)) => self.plans.iter().try_for_each(|p| p.check_for_real_hosts(*sysctls)),
            None => Ok(()),
        }
    }

    /// Makes every plan go on until its intervals reach no further than this to either side.
    pub fn go_on_until(&mut self, until: f64) {
        self.plans.iter_mut().for_each(|plan| plan.until = Some(until));
    }

    /// Whether the number of blocks is decided by what is seen in them.
    pub fn is_sequential(&self) -> bool {
        self.plans.iter().any(|plan| plan.until.is_some())
    }

    /// The sysctls of this host that it changes; none in a lab.
    pub fn sysctls_of_this_host(&self) -> Vec<Sysctl> {
        let mut sysctls: Vec<Sysctl> = Vec::new();
        for plan in self.plans.iter().filter(|_| self.host.is_some()) {
            for sysctl in plan.settings().filter_map(|setting| setting.sysctl_of(Side::A)) {
                if !sysctls.contains(sysctl) {
                    sysctls.push(sysctl.clone());
                }
            }
        }
        sysctls
    }

    /// How long all of it takes.
    pub fn forecast(&self) -> Nanos {
        self.plans.iter().map(Plan::forecast).sum()
    }
}

/// Runs what of `study` is not in `trials` yet, and adds it there. `record` keeps each trial as it
/// comes, `tell` hears before each, `go_on` is asked about ten times a second.
///
/// # Errors
/// The first of `trial::run` or `record`; the trials so far stay in `trials`.
pub fn run(
    study: &Study,
    ground: &Ground,
    limits: Limits,
    trials: &mut Vec<Trial>,
    record: &mut dyn FnMut(&Trial) -> Result<(), Error>,
    tell: &mut dyn FnMut(&Progress),
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Ended, Error> {
    study.check()?;
    let began = traffic::now();
    let mut narrow = vec![false; study.plans.len()];
    let most = |plan: &Plan| if plan.until.is_some() { plan.repetitions * MOST_REPETITIONS } else { plan.repetitions };
    let blocks = study.plans.iter().map(most).max().unwrap_or(0);
    for block in 0..blocks {
        for (part, plan) in study.plans.iter().enumerate() {
            if narrow[part] || block >= most(plan) {
                continue;
            }
            for place in plan.block(block, limits.seed.wrapping_add(part as u64)) {
                let same = |t: &&Trial| (t.part, t.block, &t.levels) == (part, block, &place.levels);
                if trials.iter().any(|t| same(&t)) {
                    continue;
                }
                let spent = traffic::now().saturating_since(began);
                if limits.budget.is_some_and(|budget| spent + plan.trial() > budget) {
                    return Ok(Ended::Budget);
                }
                if !go_on() {
                    return Ok(Ended::Interrupted);
                }
                tell(&progress(study, block, trials, spent, limits, plan.label(&place.levels).join(", ")));
                match trial::run(part, plan, &place, limits.seed, ground, go_on)? {
                    None => return Ok(Ended::Interrupted),
                    Some(trial) => {
                        record(&trial)?;
                        trials.push(trial);
                        if trials.len() == FIRST && excluded_alike(trials) {
                            return Ok(Ended::Excluded);
                        }
                    }
                }
            }
            narrow[part] = is_narrow(part, plan, trials, block + 1);
        }
        if !narrow.is_empty() && narrow.iter().all(|n| *n) {
            return Ok(Ended::Narrow);
        }
    }
    Ok(Ended::Planned)
}

/// Whether the `part`th plan of a study, which goes on until its intervals are narrow, may stop
/// after so many blocks.
pub fn is_narrow(part: usize, plan: &Plan, trials: &[Trial], blocks: u32) -> bool {
    let until = plan.until.filter(|_| blocks >= FEWEST_BLOCKS);
    until.is_some_and(|until| analysis::widest(part, plan, trials).is_some_and(|width| width <= until))
}

fn progress(study: &Study, block: u32, trials: &[Trial], spent: Nanos, limits: Limits, label: String) -> Progress {
    let blocks = |p: &Plan| if p.until.is_some() { p.repetitions.max(block + 1) } else { p.repetitions };
    let planned: usize = study.plans.iter().map(|p| p.combinations() * blocks(p) as usize).sum();
    let mut left = Nanos::ZERO;
    for (part, plan) in study.plans.iter().enumerate() {
        let of_plan = || trials.iter().filter(|t| t.part == part).map(|t| t.took);
        let (n, took): (_, Nanos) = (of_plan().count(), of_plan().sum());
        let each = took.0.checked_div(n as u64).unwrap_or_else(|| plan.trial().0);
        let planned = (plan.combinations() * blocks(plan) as usize).saturating_sub(n);
        left += Nanos(each.saturating_mul(planned as u64));
    }
    if let Some(budget) = limits.budget {
        left = left.min(budget.saturating_sub(spent));
    }
    Progress { done: trials.len(), planned: planned.max(trials.len()), label, left }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::{Factor, Known};
    use record::trial::Response;

    fn noise(rng: &mut Pcg64Mcg) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    /// A study of one factor with these levels, run until its intervals are narrow. Level by level,
    /// goodput is off by an effect and by 2 % of noise.
    fn run_until(effects: &[f64], until: f64, rng: &mut Pcg64Mcg) -> crate::Conclusion {
        let plan = Plan {
            name: "p".into(),
            factors: vec![Factor::new(Known::Flows, 1..=effects.len())],
            fixed: Vec::new(),
            response: Response::Goodput,
            repetitions: 10,
            duration: Nanos(1),
            warm_up: Nanos::ZERO,
            frames: 0,
            until: Some(until),
        };
        let mut trials = Vec::new();
        for block in 0..plan.repetitions * MOST_REPETITIONS {
            for (level, effect) in effects.iter().enumerate() {
                let goodput = 1e8 * (1.0 + effect) * (1.0 + 0.02 * noise(rng));
                trials.push(Trial::of_goodput((0, block), level, goodput));
            }
            if is_narrow(0, &plan, &trials, block + 1) {
                break;
            }
        }
        let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        crate::account::of_plan(&study, &trials, 1)
    }

    #[test]
    fn a_study_that_stops_by_looking_claims_no_more_than_the_level() {
        let mut rng = Pcg64Mcg::seed_from_u64(11);
        let runs = 200;
        for (levels, until) in [(2, 0.03), (4, 0.04)] {
            let mut claims = 0;
            for _ in 0..runs {
                let said = run_until(&vec![0.0; levels], until, &mut rng);
                assert_eq!(said.compared.len(), levels - 1);
                assert!(said.compared.iter().all(|c| c.comparison.ratio.half_width() <= until * 1.1), "{said:?}");
                claims += u32::from(said.compared.iter().any(|c| c.comparison.seen()));
            }
            assert!(claims * 20 <= runs, "{levels} levels: {claims} of {runs}");
        }
    }

    #[test]
    fn what_is_there_is_found_and_its_interval_holds() {
        let (mut rng, runs) = (Pcg64Mcg::seed_from_u64(12), 100);
        for effect in [-0.05, 0.5] {
            let (mut found, mut held) = (0, 0);
            for _ in 0..runs {
                let said = run_until(&[0.0, effect], 0.03, &mut rng);
                let comparison = &said.compared[0].comparison;
                found += u32::from(comparison.seen());
                held += u32::from(comparison.ratio.covers(effect));
            }
            assert!(found >= 95 && held >= 95, "{effect}: {found} found, {held} held of {runs}");
        }
    }

    #[test]
    fn trials_are_excluded_alike_whatever_their_figures_are() {
        let excluded = |reasons: &[&str]| Trial {
            broken: reasons.iter().map(|&text| text.into()).collect(),
            ..Trial::of_goodput((0, 0), 0, 1e6)
        };
        let late = ["the path a to b: delay asked 0 ns, median 1.42 ms of n = 14", "2 connections failed"];
        let also = ["the path a to b: delay asked 0 ns, median 912 µs of n = 1"];
        let other = ["the path b to a: 3 segments refused by the receiving host"];
        assert!(excluded_alike(&[excluded(&late), excluded(&also), excluded(&also)]));
        assert!(!excluded_alike(&[excluded(&late), excluded(&also), excluded(&other)]));
        assert!(!excluded_alike(&[excluded(&late), excluded(&[]), excluded(&late)]));
    }

    #[test]
    fn a_sentence_never_contradicts_its_interval() {
        let mut rng = Pcg64Mcg::seed_from_u64(13);
        for _ in 0..30 {
            let said = run_until(&[0.0, 0.0, 0.02, 0.05, -0.01], 0.08, &mut rng);
            for compared in &said.compared {
                let (c, sentence) = (&compared.comparison, compared.sentence());
                assert_eq!(c.ratio.covers(0.0), sentence.to_string().contains("no difference"), "{sentence}");
                assert_eq!(c.ratio.covers(0.0), c.p > stats::LEVEL, "{sentence}");
            }
        }
    }
}
