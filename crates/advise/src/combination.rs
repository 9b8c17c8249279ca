//! Whether several remedies together are worth more than the best one alone.

use std::cmp::Ordering;

use diagnose::conditions::Conditions;

use crate::trials::{Blocks, Done, Worth};
use crate::{Candidate, Error, Fitted, Limits, Progress, Tried, WORTHWHILE};

/// Remedies that are tried beside the best one, at most.
const BESIDE: usize = 4;

/// The best remedies together.
#[derive(Clone, Debug)]
pub struct Combination {
    /// The best one, and what helps beside it.
    pub with: Vec<Candidate>,
    /// What they are worth together, beside the best one alone.
    pub beyond: Worth,
}

/// Tries the remedies that help beside the best of them, one by one and all together. Gives the
/// combination that is worth a change beyond the best one alone, where there is one, and the
/// trials.
///
/// # Errors
/// [`Error`] where the twin with the best remedy cannot be run.
pub fn combine(
    c: &Conditions,
    fitted: &Fitted,
    tried: &[Tried],
    limits: Limits,
    tell: &mut dyn FnMut(Progress),
    go_on: &dyn Fn() -> bool,
) -> Result<(Option<Combination>, Vec<Done>), Error> {
    let worthwhile = |t: &&Tried| t.worth.helps() && t.worth.change().is_some_and(|change| change <= -WORTHWHILE);
    let mut helpful = tried.iter().filter(worthwhile).map(|t| t.candidate);
    let Some(best) = helpful.next() else { return Ok((None, Vec::new())) };
    let beside: Vec<Candidate> = helpful.take(BESIDE).collect();
    let mut sets: Vec<Vec<Candidate>> = beside.iter().map(|other| vec![best, *other]).collect();
    if beside.len() > 1 {
        sets.push([vec![best], beside].concat());
    }
    if sets.is_empty() || !go_on() || traffic::now() >= limits.until {
        return Ok((None, Vec::new()));
    }
    let twins: Vec<_> = std::iter::once(&vec![best])
        .chain(&sets)
        .map(|set| {
            let mut twin = fitted.twin.clone();
            set.iter().for_each(|candidate| candidate.remedy.apply(&mut twin, candidate.way));
            (name(set), twin)
        })
        .collect();
    let blocks = match Blocks::run(c, &twins, limits, tell, go_on) {
        // What was found of each alone stands.
        Err(Error::Interrupted) => return Ok((None, Vec::new())),
        blocks => blocks?,
    };
    let judged = (1..).zip(sets).map(|(i, with)| Combination { with, beyond: blocks.worth(i) });
    let better = judged.filter(|one| one.beyond.helps() && one.beyond.change().is_some_and(|by| by <= -WORTHWHILE));
    let change = |one: &Combination| one.beyond.change().unwrap_or(0.0);
    let better: Vec<Combination> = better.collect();
    let most = better.iter().map(change).fold(0.0, f64::min);
    // What more remedies add to the simplest of the good ones is not worth them.
    let good = better.into_iter().filter(|one| change(one) <= most + WORTHWHILE);
    let simplest = |one: &Combination| (one.with.len(), change(one));
    let fewest = good.min_by(|a, b| simplest(a).partial_cmp(&simplest(b)).unwrap_or(Ordering::Equal));
    Ok((fewest, blocks.trials))
}

/// Their names, joined.
fn name(set: &[Candidate]) -> String {
    set.iter().map(|candidate| candidate.remedy.name).collect::<Vec<_>>().join(" + ")
}
