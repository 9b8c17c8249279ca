//! Which congestion control gives what, at which delay, loss and queue: goodput, retransmissions,
//! queueing delay, and fairness between two flows of one congestion control and against each other.

use super::Builtin;
use crate::account;
use crate::analysis;
use crate::conclusion::{self, Conclusion, table_of};
use crate::engine::Study;
use crate::named::Known;
use crate::outcome::Trial;
use crate::plan::{Factor, Plan};
use crate::response::{self, quantity_of};
use crate::sentence::Sentence;
use paper::document::{Table, columns};
use record::Nanos;
use record::trial::Response;

pub(super) const BUILTIN: Builtin = Builtin {
    name: "congestion",
    about: "every congestion control that the kernel has, over delay, loss and queue: goodput, queueing delay, fairness",
    plans,
    conclude,
    between_hosts,
    concludes_between_hosts: false,
};

/// The congestion controls that this kernel has loaded; the ones that are always built in where the
/// list cannot be read.
fn available() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let mut names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    names.sort_by_key(|n| n != "cubic");
    if names.is_empty() { vec!["cubic".into(), "reno".into()] } else { names }
}

/// What a plan of this study asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question(&'static str);

fn plans(quick: bool) -> Vec<Plan> {
    questions(quick).into_iter().map(|(_, plan)| plan).collect()
}

fn questions(quick: bool) -> Vec<(Question, Plan)> {
    let names = available();
    let plan = |question: Question,
                factors: &[(Known, &[&str])],
                fixed: &[(Known, &str)],
                response: Response,
                warm_up,
                seconds| {
        let plan = Plan {
            name: format!("{}, 100 Mbit/s", question.0),
            factors: std::iter::once(Factor::new(Known::Congestion, &names))
                .chain(factors.iter().map(|(known, levels)| match *known {
                    Known::Rival => Factor::new(Known::Rival, &names),
                    known => Factor::new(known, *levels),
                }))
                .collect(),
            fixed: fixed.iter().map(|(known, value)| ((*known).into(), (*value).to_owned())).collect(),
            response,
            repetitions: 3,
            duration: Nanos::from_secs(if quick { 1 } else { seconds }),
            warm_up: Nanos::from_secs(if quick { 1 } else { warm_up }),
            frames: 2_000,
            until: None,
        };
        (question, plan)
    };
    let rate = (Known::Rate, "100mbit");
    if quick {
        let path = [rate, (Known::Delay, "10ms"), (Known::Queue, "40ms")];
        let single: [(Known, &[&str]); 3] =
            [(Known::Delay, &["10ms"]), (Known::Loss, &["0%", "1%/0%"]), (Known::Queue, &["20ms"])];
        return vec![
            plan(SINGLE, &single, &[rate], Response::Goodput, 1, 1),
            plan(PAIR, &[], &[&path[..], &[(Known::Flows, "2")]].concat(), Response::Fairness, 1, 1),
            plan(RIVALS, &[(Known::Rival, &[])], &path, Response::RivalShare, 1, 1),
        ];
    }
    let queues: (Known, &[&str]) = (Known::Queue, &["10ms", "100ms"]);
    let losses: (Known, &[&str]) = (Known::Loss, &["0%", "0.1%/0%", "1%/0%"]);
    // A building and a country; then a continent and the other side of the world, where slow start
    // alone takes seconds.
    let near: (Known, &[&str]) = (Known::Delay, &["500us", "5ms"]);
    let far: (Known, &[&str]) = (Known::Delay, &["50ms", "150ms"]);
    let some: (Known, &[&str]) = (Known::Delay, &["500us", "10ms"]);
    vec![
        plan(SINGLE, &[near, losses, queues], &[rate], Response::Goodput, 1, 2),
        plan(LONG, &[far, (Known::Loss, &["0%", "0.1%/0%"]), queues], &[rate], Response::Goodput, 3, 3),
        plan(
            PAIR,
            &[some, (Known::Loss, &["0%", "1%/0%"]), queues],
            &[rate, (Known::Flows, "2")],
            Response::Fairness,
            1,
            3,
        ),
        plan(RIVALS, &[(Known::Rival, &[]), some, queues], &[rate], Response::RivalShare, 1, 2),
    ]
}

const SINGLE: Question = Question("one flow");
const LONG: Question = Question("one flow over a long path");
const PAIR: Question = Question("two flows of one congestion control");
const RIVALS: Question = Question("one flow against one of another type");

/// The same questions of a path that is as it is.
fn between_hosts(quick: bool) -> Vec<Plan> {
    let mut asked = questions(quick);
    // A long path can be only where the lab makes it.
    asked.retain(|(question, _)| *question != LONG);
    for (question, plan) in &mut asked {
        plan.factors.retain(|f| f.name == Known::Congestion || f.name == Known::Rival);
        plan.fixed.retain(|(setting, _)| *setting == Known::Flows);
        plan.name = question.0.into();
        plan.repetitions = if quick { 3 } else { 6 };
        plan.duration = Nanos::from_secs(if quick { 1 } else { 5 });
    }
    asked.into_iter().map(|(_, plan)| plan).collect()
}

/// What one combination of a plan gave.
#[derive(Clone, Copy)]
struct Given<'a> {
    part: usize,
    plan: &'a Plan,
    trials: &'a [Trial],
    seed: u64,
}

impl Given<'_> {
    fn estimate(&self, levels: &[usize], response: Response) -> Option<stats::Estimate> {
        analysis::estimate(self.trials, self.part, levels, response, self.seed)
    }

    /// The combinations, path by path: on each, one congestion control after the other.
    fn by_path(&self) -> Vec<Vec<usize>> {
        let mut all = analysis::combinations(self.plan);
        all.sort_by_key(|levels| (levels[1..].to_vec(), levels[0]));
        all
    }

    /// Of every path, the mean with this congestion control over the mean with the first.
    fn against_first(&self, name: usize, response: Response) -> Vec<f64> {
        let paths = analysis::combinations(self.plan).into_iter().filter(|l| l[0] == 0);
        let ratio = |path: Vec<usize>| {
            let other: Vec<usize> = std::iter::once(name).chain(path[1..].iter().copied()).collect();
            let (first, other) = (self.estimate(&path, response)?, self.estimate(&other, response)?);
            (first.value > 0.0).then(|| other.value / first.value)
        };
        paths.filter_map(ratio).collect()
    }
}

fn is_rivals(plan: &Plan) -> bool {
    plan.factors.iter().any(|f| f.name == Known::Rival)
}

fn is_pair(plan: &Plan) -> bool {
    plan.fixed.iter().any(|(setting, _)| *setting == Known::Flows)
}

fn conclude(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut c = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    for (part, plan) in study.plans.iter().enumerate() {
        let given = Given { part, plan, trials, seed };
        if is_rivals(plan) {
            c.verdict.extend(shares(given));
            c.tables.push(rivals(given));
        } else if is_pair(plan) {
            c.verdict.extend(fairness(given));
            c.tables.push(table_of(part, plan, trials, Response::Fairness, seed, |_| None));
        } else {
            c.verdict.extend(single(given));
            c.tables.push(flows(given));
            // Each effect is a row; the sentences above name those that say something.
            c.tables.push(conclusion::effects_table(part, plan, trials, &mut Vec::new()));
        }
    }
    c.notes.push(
        "predicted goodput is the lesser of framing and loss: Mathis' formula for reno, RFC 9438's for cubic, both for \
         independent loss up to 1 % without time-outs; bbr does not take such loss for congestion and has no bound here. Over \
         long round trips slow start takes a share of the measured time, which the prediction excludes"
            .into(),
    );
    c.notes.push("queueing is the smoothed round trip less the path's own, median over each trial".into());
    c.notes.push(
        "fairness and shares are of the first seconds of flows that start together: over minutes they may come closer, or \
         bbr, which looks for the empty path every ten seconds, may give way"
            .into(),
    );
    account::account(study, trials, seed, &mut c);
    c
}

/// The least, the middle and the most of some values, in words.
fn range(values: &[f64], words: impl Fn(f64) -> String) -> Option<String> {
    let middle = stats::median(values)?;
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let (middle, low, high) = (words(middle), words(low), words(high));
    Some(if low == high { middle } else { format!("{middle} ({low} … {high})") })
}

/// What is listed, and each of the list as a clause.
fn listed(what: &str, each: &[String]) -> Sentence {
    let [first, rest @ ..] = each else { return what.into() };
    rest.iter().fold(format!("{what}: {first}").into(), |sentence: Sentence, one| sentence.and(one))
}

/// How each congestion control's goodput, queueing and retransmissions compare over all paths of a
/// plan.
fn single(given: Given<'_>) -> Vec<Sentence> {
    let names = &given.plan.factors[0].levels;
    let levels_of = |factor: Known| given.plan.factors.iter().position(|f| f.name == factor);
    let mut sentences = Vec::new();
    let mut goodput = Vec::new();
    for (i, name) in names.iter().enumerate().skip(1) {
        let ratios = given.against_first(i, Response::Goodput);
        let times = |r: f64| format!("{r:.2}");
        if let Some(text) = range(&ratios, times) {
            goodput.push(format!("{name} {text} times over {} paths", ratios.len()));
        }
    }
    if !goodput.is_empty() {
        let what = format!("{}: goodput against {}'s, median and range", given.plan.name, names[0]);
        sentences.push(listed(&what, &goodput));
    }
    // Where loss is what a congestion control answers to, and where the queue is.
    for (factor, response) in [(Known::Loss, Response::Goodput), (Known::Queue, Response::Queueing)] {
        let Some(f) = levels_of(factor) else { continue };
        for (l, level) in given.plan.factors[f].levels.iter().enumerate() {
            let of_name = |i: usize| -> Option<String> {
                let combinations = analysis::combinations(given.plan).into_iter().filter(|c| {
                    // Queueing is reported without loss: with it, queues are empty for lack of
                    // data.
                    let lossless = levels_of(Known::Loss).is_none_or(|loss| c[loss] == 0);
                    c[0] == i && c[f] == l && (factor == Known::Loss || lossless)
                });
                let values: Vec<f64> = combinations.filter_map(|c| Some(given.estimate(&c, response)?.value)).collect();
                Some(format!("{} {}", names[i], range(&values, |v| response::quantity(response, v))?))
            };
            let words: Vec<String> = (0..names.len()).filter_map(of_name).collect();
            if !words.is_empty() {
                let among = if factor == Known::Queue { " without loss" } else { "" };
                let what = format!(
                    "{}, {} {level}{among}: {response}, median over the paths and range",
                    given.plan.name,
                    factor.name()
                );
                sentences.push(listed(&what, &words));
            }
        }
    }
    sentences
}

/// Goodput, queueing and retransmissions of every path and congestion control.
fn flows(given: Given<'_>) -> Table {
    let plan = given.plan;
    let mut factors = plan.factor_names();
    factors.rotate_left(1);
    let figures = ["goodput", "95 % interval", "predicted", "queueing", "retransmitted", "n"];
    let mut table = Table::new(plan.name.clone(), columns(factors.iter().map(String::as_str), figures));
    for levels in given.by_path() {
        let mut row = plan.label(&levels);
        row.rotate_left(1);
        let [goodput, interval, n] =
            quantity_of(Response::Goodput, given.estimate(&levels, Response::Goodput).as_ref());
        let predicted = conclusion::prediction(plan, &levels);
        row.extend([
            goodput,
            interval,
            predicted.map_or_else(|| "-".into(), |p| conclusion::predicted_text(Response::Goodput, p)),
        ]);
        for response in [Response::Queueing, Response::Retransmitted] {
            row.push(quantity_of(response, given.estimate(&levels, response).as_ref())[0].clone());
        }
        row.push(n);
        table.push(row);
    }
    table
}

/// How evenly two flows of each kind share, over all paths.
fn fairness(given: Given<'_>) -> Option<Sentence> {
    let of_name = |i: usize| {
        let combinations = analysis::combinations(given.plan).into_iter().filter(|c| c[0] == i);
        let values: Vec<f64> =
            combinations.filter_map(|c| Some(given.estimate(&c, Response::Fairness)?.value)).collect();
        Some(format!("{} {}", given.plan.factors[0].levels[i], range(&values, |v| format!("{v:.3}"))?))
    };
    let words: Vec<String> = (0..given.plan.factors[0].levels.len()).filter_map(of_name).collect();
    (!words.is_empty()).then(|| {
        let what = "Jain's index (1 is even, 0.5 is one has all), median over the paths and range";
        listed(&format!("{}: {what}", given.plan.name), &words)
    })
}

/// What each takes from each other one, over all paths.
fn shares(given: Given<'_>) -> Vec<Sentence> {
    let names = &given.plan.factors[0].levels;
    let mut sentences = Vec::new();
    for (i, name) in names.iter().enumerate() {
        for (j, rival) in names.iter().enumerate().skip(i + 1) {
            // Who was started as the rival makes no difference but chance: both orders describe the
            // pair.
            let of_rival = |c: Vec<usize>| {
                let share = given.estimate(&c, Response::RivalShare)?.value;
                match (c[0], c[1]) {
                    (a, b) if (a, b) == (i, j) => Some(share),
                    (a, b) if (a, b) == (j, i) => Some(1.0 - share),
                    _ => None,
                }
            };
            let values: Vec<f64> = analysis::combinations(given.plan).into_iter().filter_map(of_rival).collect();
            if let Some(text) = range(&values, quantity::percent) {
                let takes = format!("{}: {rival} takes {text} of what {name} and it carry together", given.plan.name);
                sentences.push(takes.into());
            }
        }
    }
    sentences
}

fn rivals(given: Given<'_>) -> Table {
    let plan = given.plan;
    let factors = plan.factor_names();
    let figures = ["the rival's share of goodput", "95 % interval", "n"];
    let mut table = Table::new(plan.name.clone(), columns(factors.iter().map(String::as_str), figures));
    for levels in analysis::combinations(plan) {
        let mut row = plan.label(&levels);
        row.extend(quantity_of(Response::RivalShare, given.estimate(&levels, Response::RivalShare).as_ref()));
        table.push(row);
    }
    table
}
