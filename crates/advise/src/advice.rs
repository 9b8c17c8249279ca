//! What is advised, and from what.

use diagnose::conditions::Conditions;
use record::Nanos;
use record::conversation::{Limit, Side};
use serde::Serialize;

use crate::remedies::{At, Line, Remedy};
use crate::trial::run;
use crate::{Candidate, Error, Fit, Fitted, Goal, NotTried, Tried, fit};

/// A remedy that makes less of a difference than this is not worth a change.
pub const WORTHWHILE: f64 = 0.05;

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Under which conditions the connection ran.
    pub conditions: Conditions,
    /// Why this connection was chosen, where nobody named one.
    pub chosen: Option<String>,
    /// What was to become better.
    pub goal: &'static str,
    /// How well the twin agreed; `None` without a twin.
    pub fit: Option<Fit>,
    /// Why nothing is advised, where that is so.
    pub withheld: Vec<String>,
    /// What was tried, the best first; without a twin, what would have been.
    pub remedies: Vec<Outcome>,
    /// What was not tried.
    pub not_tried: Vec<Refused>,
    /// The twin with the best remedy.
    pub after: Option<After>,
}

/// What a remedy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Faster.
    Helps,
    /// Slower.
    Harms,
    /// No difference was seen.
    NoDifference,
    /// It could not be tried.
    NotTried,
}

/// A remedy and what it was worth.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// What it is called.
    pub remedy: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Where: at which side's host or program, or on the path.
    pub place: String,
    /// What it did.
    pub effect: Effect,
    /// Pairs of runs.
    pub n: usize,
    /// The median without it.
    pub before_ns: Option<Nanos>,
    /// The median with it.
    pub after_ns: Option<Nanos>,
    /// The change of the time: −0.5 is half.
    pub change: Option<f64>,
    /// Its interval of 95 %.
    pub within: Option<(f64, f64)>,
    /// The smallest change that so many runs would have shown.
    pub smallest_seen: Option<f64>,
    /// What the capture alone promises at most: how much sooner the connection would be over.
    pub promised_ns: Option<Nanos>,
    /// How it is set for good.
    pub set: Vec<Written>,
    /// How it is taken back.
    pub undo: Vec<Written>,
    /// What it costs.
    pub costs: &'static str,
    /// Where it is specified.
    pub source: &'static str,
    /// Why it could not be tried.
    pub failed: Option<String>,
}

/// A line to write somewhere.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Written {
    /// Where.
    pub place: &'static str,
    /// What.
    pub text: &'static str,
}

/// What was not tried.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// Which remedy.
    pub remedy: &'static str,
    /// Why not.
    pub because: String,
}

/// The twin with the best remedy, analysed again.
#[derive(Clone, Debug, Serialize)]
pub struct After {
    /// How long it took.
    pub duration_ns: Nanos,
    /// Its time by limit, in shares of the twin's time without the remedy.
    pub shares: Vec<(String, f64)>,
}

impl Advice {
    /// The best remedy, where it is worth a change.
    pub fn best(&self) -> Option<&Outcome> {
        let first = self.remedies.first()?;
        let worth = first.change.is_some_and(|change| change <= -WORTHWHILE);
        (first.effect == Effect::Helps && worth).then_some(first)
    }

    /// Whose program took most of the time, and which share, where that is most of it.
    pub fn program(&self) -> Option<(Side, f64)> {
        let c = &self.conditions;
        let [client, server] = c.programs_ns.map(|ns| quantity::share(ns.0.into(), c.duration_ns.0.into()));
        let (side, share) = if client > server { (Side::Client, client) } else { (Side::Server, server) };
        (share >= 0.5).then_some((side, share))
    }

    /// Without a twin: what stands against one, and what would be tried.
    pub fn without_twin(c: Conditions, goal: Goal, why: Vec<String>, only: Option<Side>) -> Self {
        let (candidates, not) = crate::candidates(&c, only);
        let untried = |candidate: &Candidate| Outcome { effect: Effect::NotTried, ..outcome(&c, candidate, None) };
        let remedies = candidates.iter().map(untried).collect();
        let not_tried = refused(&not, &[]);
        Self {
            goal: goal.name(),
            chosen: None,
            fit: None,
            withheld: why,
            remedies,
            not_tried,
            after: None,
            conditions: c,
        }
    }

    /// With a twin that is unlike the original.
    pub fn unlike(c: Conditions, goal: Goal, fitted: Fitted, only: Option<Side>) -> Self {
        let f = &fitted.fit;
        let why = format!(
            "the twin is unlike the original: it took {} in place of {}, and its share of {} is off by {} points",
            f.twin_ns,
            f.original_ns,
            limit(&f.most_off),
            (f.points * 100.0).round()
        );
        Self { fit: Some(fitted.fit), ..Self::without_twin(c, goal, vec![why], only) }
    }

    /// With what trials gave; the best is run once more and analysed.
    ///
    /// # Errors
    /// [`Error`] where that run fails.
    pub fn of_trials(
        c: Conditions,
        goal: Goal,
        fitted: Fitted,
        (tried, no_time): (Vec<Tried>, Vec<Candidate>),
        not: &[NotTried],
    ) -> Result<Self, Error> {
        let remedies: Vec<Outcome> = tried.iter().map(|t| outcome(&c, &t.candidate, Some(t))).collect();
        let not_tried = refused(not, &no_time);
        let mut advice = Self {
            goal: goal.name(),
            chosen: None,
            fit: Some(fitted.fit.clone()),
            withheld: Vec::new(),
            remedies,
            not_tried,
            after: None,
            conditions: c,
        };
        if let (Some(_), Some(best)) = (advice.best(), tried.first()) {
            advice.after = after(&advice.conditions, &fitted, &best.candidate)?;
        }
        Ok(advice)
    }
}

/// A limit's words.
fn limit(name: &str) -> &str {
    Limit::ALL.into_iter().find(|limit| limit.name() == name).map_or(name, |limit| limit.words())
}

fn refused(not: &[NotTried], no_time: &[Candidate]) -> Vec<Refused> {
    let not = not.iter().map(|n| Refused { remedy: n.remedy.name, because: n.because.into() });
    let late = no_time.iter().map(|c| Refused {
        remedy: c.remedy.name,
        because: "there was no time for it: give more with --budget".into(),
    });
    not.chain(late).collect()
}

fn written(lines: &'static [Line]) -> Vec<Written> {
    lines.iter().map(|line| Written { place: line.place, text: line.text }).collect()
}

fn place(remedy: &Remedy, candidate: &Candidate) -> String {
    match (remedy.at.side(candidate.way), remedy.at) {
        (Some(side), At::Program) => format!("the {side}'s program"),
        (Some(side), _) => format!("the {side}'s host"),
        (None, _) => "the path's bottleneck".into(),
    }
}

fn outcome(c: &Conditions, candidate: &Candidate, tried: Option<&Tried>) -> Outcome {
    let remedy = candidate.remedy;
    let comparison = tried.and_then(|t| t.comparison.as_ref());
    let medians = tried.and_then(|t| t.medians_ns);
    Outcome {
        remedy: remedy.name,
        what: remedy.what,
        place: place(remedy, candidate),
        effect: match tried {
            Some(t) if t.helps() => Effect::Helps,
            Some(t) if t.harms() => Effect::Harms,
            Some(Tried { comparison: Some(_), .. }) => Effect::NoDifference,
            _ => Effect::NotTried,
        },
        n: tried.map_or(0, |t| t.n),
        before_ns: medians.map(|m| m[0]),
        after_ns: medians.map(|m| m[1]),
        change: comparison.map(|c| c.ratio.value),
        within: comparison.map(|c| (c.ratio.low, c.ratio.high)),
        smallest_seen: comparison.map(|c| c.smallest_seen),
        promised_ns: remedy.findings.iter().filter_map(|kind| c.cause(*kind)).filter_map(|cause| cause.saves_ns).max(),
        set: written(remedy.set),
        undo: written(remedy.undo),
        costs: remedy.costs,
        source: remedy.source,
        failed: tried.and_then(|t| t.failed.clone()),
    }
}

fn after(c: &Conditions, fitted: &Fitted, best: &Candidate) -> Result<Option<After>, Error> {
    let mut twin = fitted.twin.clone();
    (best.remedy.change)(&mut twin, best.way);
    let seen = run(&twin, 1, Some(fit::side(c)), fit::at_most(c))?;
    Ok(seen.report.map(|report| After {
        duration_ns: Conditions::of(&report).span_ns,
        shares: Limit::ALL
            .into_iter()
            .map(|l| (l.name().to_owned(), report.limits.of(l).0 as f64 / fitted.fit.twin_ns.0.max(1) as f64))
            .collect(),
    }))
}
