//! What is advised, and from what.

use diagnose::conditions::Conditions;
use record::Nanos;
use record::conversation::{Limit, Side};
use record::remedy::{Effect, RemedyRow};
use serde::{Deserialize, Serialize};

use crate::remedies::{At, Line, Remedy};
use crate::trial::run;
use crate::{Candidate, Combination, Compared, Error, Fit, Fitted, Goal, NotTried, Worth, fit, theory};

/// A remedy that makes less of a difference than this is not worth a change.
pub const WORTHWHILE: f64 = 0.05;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Under which conditions the connection ran.
    pub conditions: Conditions,
    /// Why this connection was chosen, where nobody named one.
    pub chosen: Option<String>,
    /// What was to become better.
    pub goal: Goal,
    /// How well the twin agreed; `None` without a twin.
    pub fit: Option<Fit>,
    /// Why nothing is advised, where that is so.
    pub withheld: Vec<String>,
    /// What was tried, the best first; without a twin, what would have been.
    pub remedies: Vec<Outcome>,
    /// What was not tried.
    pub not_tried: Vec<Refused>,
    /// Several remedies that are worth more together than the best of them alone.
    pub combination: Option<Together>,
    /// The twin with the best remedy, or with the combination.
    pub after: Option<After>,
    /// What became of it where it was set on this host.
    pub applied: Option<Applied>,
}

/// What a setting of this host did to the real program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// The remedy.
    pub remedy: String,
    /// What was set: names and values.
    pub set: Vec<(String, String)>,
    /// How long a byte took before and after, ns, the median of the connections.
    pub byte_ns: [f64; 2],
    /// Connections before and after.
    pub n: [usize; 2],
    /// The change that the twin promised, with its interval.
    pub promised: (f64, f64, f64),
    /// What became of the setting then.
    pub left: Left,
}

/// What becomes of a setting that was tried on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// The old value was put back.
    PutBack,
    /// It stays set as long as it is watched.
    Watched,
    /// It stays set until the next boot.
    Set,
}

impl Applied {
    /// The change of the time that a byte took.
    pub fn change(&self) -> f64 {
        self.byte_ns[1] / self.byte_ns[0] - 1.0
    }

    /// Whether it is as good as the twin promised.
    pub fn held(&self) -> bool {
        self.is_as_promised(self.change())
    }

    /// Whether such a change is: within a sixth of the time that was promised, or in its interval,
    /// or better.
    pub fn is_as_promised(&self, change: f64) -> bool {
        let (promised, _, high) = self.promised;
        change <= high.max((1.0 + promised) * 1.15 - 1.0)
    }
}

/// Remedies together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// Which.
    pub remedies: Vec<String>,
    /// The median with the best one alone, and with all of them.
    pub medians_ns: Option<[Nanos; 2]>,
    /// The change of the time from the first to the second.
    pub change: Option<f64>,
    /// Its interval of 95 %.
    pub within: Option<(f64, f64)>,
    /// Pairs of runs.
    pub n: usize,
}

/// A remedy and what it was worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What it is called.
    pub remedy: String,
    /// What it does.
    pub what: String,
    /// Where: at which side's host or program, or on the path.
    pub place: String,
    /// What it did.
    pub effect: Effect,
    /// Pairs of runs.
    pub n: usize,
    /// Of these, how many were not over by their bound without it, and with it.
    pub unfinished: [usize; 2],
    /// The median without it.
    pub before_ns: Option<Nanos>,
    /// The median with it.
    pub after_ns: Option<Nanos>,
    /// The change of the time: −0.5 is half.
    pub change: Option<f64>,
    /// Its interval of 95 %.
    pub within: Option<(f64, f64)>,
    /// Whether trials could not tell it from the fastest of those that help: what more of the time
    /// waited for comes first of these.
    #[serde(default)]
    pub level: bool,
    /// The smallest change that so many runs would have shown.
    pub smallest_seen: Option<f64>,
    /// What the capture alone promises at most: how much sooner the connection would be over.
    pub promised_ns: Option<Nanos>,
    /// How long the connection would take with it, from that and from what its bytes and round
    /// trips take at least.
    pub predicted_ns: Option<Nanos>,
    /// At whose side; `None` for the path's.
    pub side: Option<String>,
    /// The sysctls of that side's host that set it: name and value.
    pub sysctls: Vec<(String, String)>,
    /// How it is set for good.
    pub set: Vec<Written>,
    /// How it is taken back.
    pub undo: Vec<Written>,
    /// What it costs.
    pub costs: String,
    /// Where it is specified.
    pub source: String,
    /// Why it could not be tried.
    pub failed: Option<String>,
}

/// A line to write somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Where.
    pub place: String,
    /// What.
    pub text: String,
}

/// What was not tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// Which remedy.
    pub remedy: String,
    /// Why not.
    pub because: String,
}

/// The twin with the best remedy, analysed again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct After {
    /// How long it took.
    pub duration_ns: Nanos,
    /// Its time by limit, in shares of the twin's time without the remedy.
    pub shares: Vec<(String, f64)>,
}

impl Advice {
    /// The remedies as rows of its run, of advice that was given at this time (ns since 1970).
    pub fn rows(&self, at_ns: u64) -> Vec<RemedyRow> {
        let mut helped = 0;
        let row = |outcome: &Outcome| {
            let helps = outcome.effect == Effect::Helps;
            helped += u64::from(helps);
            RemedyRow {
                at_ns,
                client: self.conditions.client.to_string(),
                server: self.conditions.server.to_string(),
                remedy: outcome.remedy.clone(),
                place: outcome.place.clone(),
                effect: outcome.effect,
                rank: if helps { helped } else { 0 },
                change: outcome.change,
                change_low: outcome.within.map(|(low, _)| low),
                change_high: outcome.within.map(|(_, high)| high),
                before_ns: outcome.before_ns,
                after_ns: outcome.after_ns,
                n: outcome.n as u64,
            }
        };
        self.remedies.iter().map(row).collect()
    }

    /// The best remedy, where it is worth a change.
    pub fn best(&self) -> Option<&Outcome> {
        let first = self.remedies.first()?;
        let worth = first.change.is_some_and(|change| change <= -WORTHWHILE);
        (first.effect == Effect::Helps && worth).then_some(first)
    }

    /// Other remedies that did as much as the best, as far as trials could tell.
    pub fn level(&self) -> impl Iterator<Item = &Outcome> {
        self.remedies.iter().skip(1).filter(|outcome| outcome.level)
    }

    /// Whose program took most of the time, and which share, where that is most of it.
    pub fn program(&self) -> Option<(Side, f64)> {
        let c = &self.conditions;
        let [client, server] = c.programs_ns.map(|ns| quantity::share(ns.0.into(), c.duration_ns.0.into()));
        let (side, share) = if client > server { (Side::Client, client) } else { (Side::Server, server) };
        (share >= 0.5).then_some((side, share))
    }

    /// Remedies that did this.
    pub fn that(&self, effect: Effect) -> impl Iterator<Item = &Outcome> {
        self.remedies.iter().filter(move |outcome| outcome.effect == effect)
    }

    /// Without a twin: what stands against one, and what would be tried.
    pub fn without_twin(c: Conditions, goal: Goal, why: Vec<String>, only: Option<Side>) -> Self {
        let (candidates, not) = crate::candidates(&c, only);
        let remedies = candidates.iter().map(|candidate| outcome(&c, candidate, &Worth::default(), false)).collect();
        Self {
            goal,
            chosen: None,
            fit: None,
            withheld: why,
            remedies,
            not_tried: refused(&not, &[]),
            combination: None,
            after: None,
            applied: None,
            conditions: c,
        }
    }

    /// With a twin that is unlike the original.
    pub fn unlike(c: Conditions, goal: Goal, fitted: Fitted, only: Option<Side>) -> Self {
        let f = &fitted.fit;
        let why = format!(
            "the twin is unlike the original: it took {} in place of {}, its share of {} is off by {} points, and it \
             retransmitted {} packets in place of {}",
            f.twin_ns,
            f.original_ns,
            limit(&f.most_off),
            (f.points * 100.0).round(),
            quantity::count(f.retransmitted.1),
            quantity::count(f.retransmitted.0)
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
        fitted: &Fitted,
        compared: &Compared,
        combination: Option<&Combination>,
        not: &[NotTried],
    ) -> Result<Self, Error> {
        let mut advice = Self {
            goal,
            chosen: None,
            fit: Some(fitted.fit.clone()),
            withheld: Vec::new(),
            remedies: compared.tried.iter().map(|t| outcome(&c, &t.candidate, &t.worth, t.level)).collect(),
            not_tried: refused(not, &compared.no_time),
            combination: combination.map(together),
            after: None,
            applied: None,
            conditions: c,
        };
        if let (Some(_), Some(best)) = (advice.best(), compared.tried.first()) {
            let with = combination.map_or(std::slice::from_ref(&best.candidate), |all| &all.with);
            advice.after = after(&advice.conditions, fitted, with)?;
        }
        Ok(advice)
    }
}

fn together(of: &Combination) -> Together {
    let comparison = of.beyond.comparison.as_ref();
    Together {
        remedies: of.with.iter().map(|candidate| candidate.remedy.name.to_owned()).collect(),
        medians_ns: of.beyond.medians_ns,
        change: of.beyond.change(),
        within: comparison.map(|c| (c.ratio.low, c.ratio.high)),
        n: of.beyond.n,
    }
}

/// A limit's words.
fn limit(name: &str) -> &str {
    Limit::ALL.into_iter().find(|limit| limit.name() == name).map_or(name, |limit| limit.words())
}

fn refused(not: &[NotTried], no_time: &[Candidate]) -> Vec<Refused> {
    let not = not.iter().map(|n| Refused { remedy: n.remedy.name.into(), because: n.because.into() });
    let late = no_time.iter().map(|c| Refused {
        remedy: c.remedy.name.into(),
        because: "there was no time for it: give more with --budget".into(),
    });
    not.chain(late).collect()
}

fn written(lines: &'static [Line]) -> Vec<Written> {
    lines.iter().map(|line| Written { place: line.place.into(), text: line.text.into() }).collect()
}

fn place(remedy: &Remedy, candidate: &Candidate) -> String {
    match (remedy.at.side(candidate.way), remedy.at) {
        (Some(side), At::Program) => format!("the {side}'s program"),
        (Some(side), _) => format!("the {side}'s host"),
        (None, _) => "the path's bottleneck".into(),
    }
}

fn outcome(c: &Conditions, candidate: &Candidate, worth: &Worth, level: bool) -> Outcome {
    let remedy = candidate.remedy;
    let comparison = worth.comparison.as_ref();
    Outcome {
        remedy: remedy.name.into(),
        what: remedy.what.into(),
        place: place(remedy, candidate),
        effect: match comparison {
            None => Effect::NotTried,
            Some(_) if worth.helps() => Effect::Helps,
            Some(_) if worth.harms() => Effect::Harms,
            Some(_) => Effect::NoDifference,
        },
        n: worth.n,
        unfinished: worth.unfinished,
        before_ns: worth.medians_ns.map(|m| m[0]),
        after_ns: worth.medians_ns.map(|m| m[1]),
        change: worth.change(),
        within: comparison.map(|c| (c.ratio.low, c.ratio.high)),
        level,
        smallest_seen: comparison.map(|c| c.smallest_seen),
        promised_ns: theory::saved(c, remedy),
        predicted_ns: theory::duration(c, remedy),
        side: remedy.at.side(candidate.way).map(|side| side.name().to_owned()),
        sysctls: remedy.sysctls.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        set: written(remedy.set),
        undo: written(remedy.undo),
        costs: remedy.costs.into(),
        source: remedy.source.into(),
        failed: worth.failed.clone(),
    }
}

fn after(c: &Conditions, fitted: &Fitted, with: &[Candidate]) -> Result<Option<After>, Error> {
    let mut twin = fitted.twin.clone();
    with.iter().for_each(|candidate| candidate.remedy.apply(&mut twin, candidate.way));
    let seen = run(&twin, 1, Some(fit::side(c)), fit::at_most(c))?;
    Ok(seen.report.map(|report| After {
        duration_ns: Conditions::of(&report).span_ns,
        shares: Limit::ALL
            .into_iter()
            .map(|l| (l.name().to_owned(), report.limits.of(l).0 as f64 / fitted.fit.twin_ns.0.max(1) as f64))
            .collect(),
    }))
}
