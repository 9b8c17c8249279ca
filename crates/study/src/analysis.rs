//! From trials to figures: what every study's conclusion is made of.

use record::trial::{Measure, Response};
use std::collections::BTreeMap;

use record::Nanos;
use stats::{Comparison, Effects, Estimate, Judgement};

use crate::outcome::Trial;
use crate::plan::Plan;
use crate::setting::Workload;

/// The confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// The trials of a plan that count.
fn counting(trials: &[Trial], part: usize) -> impl Iterator<Item = &Trial> {
    trials.iter().filter(move |t| t.part == part && t.counts())
}

/// The trials of one combination that count.
pub fn of<'t>(trials: &'t [Trial], part: usize, levels: &[usize]) -> impl Iterator<Item = &'t Trial> {
    counting(trials, part).filter(move |t| t.levels == levels)
}

/// A response of one combination, block by block.
pub fn by_block(trials: &[Trial], part: usize, levels: &[usize], response: Response) -> BTreeMap<u32, f64> {
    of(trials, part, levels).filter_map(|t| Some((t.block, t.response(response)?))).collect()
}

/// The mean of a response with its interval.
pub fn estimate(trials: &[Trial], part: usize, levels: &[usize], response: Response, seed: u64) -> Option<Estimate> {
    let values: Vec<f64> = by_block(trials, part, levels, response).into_values().collect();
    // No response is below zero, and no share above one: what an interval says beyond that says
    // nothing.
    let most = if response.measure() == Measure::Share { 1.0 } else { f64::INFINITY };
    stats::mean_interval(&values, CONFIDENCE, seed).map(|e| Estimate {
        low: e.low.max(0.0),
        high: e.high.min(most),
        ..e
    })
}

/// The same of a combination of a plan, no finer than one unit of what its trials count: eight
/// transactions in each trial may be nearly nine.
pub fn mean(
    part: usize,
    plan: &Plan,
    trials: &[Trial],
    levels: &[usize],
    response: Response,
    seed: u64,
) -> Option<Estimate> {
    let mean = estimate(trials, part, levels, response, seed)?;
    let unit = unit_share(plan, levels, response, mean.value).unwrap_or(0.0);
    let widened = mean.widened(unit * mean.value);
    Some(Estimate { low: widened.low.max(0.0), ..widened })
}

/// What one combination is worth against another, within the blocks that have both. What trials
/// count in whole units is no finer than these.
pub fn compare(
    part: usize,
    plan: &Plan,
    trials: &[Trial],
    [base, other]: [&[usize]; 2],
    response: Response,
    seed: u64,
) -> Option<Comparison> {
    let (a, b) = (by_block(trials, part, base, response), by_block(trials, part, other, response));
    let (a, b): (Vec<f64>, Vec<f64>) = a.iter().filter_map(|(block, a)| Some((*a, *b.get(block)?))).unzip();
    let comparison = Comparison::of(&a, &b, seed)?;
    let units = |levels: &[usize], values: &[f64]| unit_share(plan, levels, response, stats::mean(values)?);
    let finest = units(base, &a).unwrap_or(0.0) + units(other, &b).unwrap_or(0.0) + starts_differ(plan, [base, other]);
    Some(comparison.no_finer_than(finest))
}

/// What share of a rate one unit of what a trial counts is: a segment, a datagram or a transaction
/// begun before the trial and finished in it, or the other way round, is counted or not in every
/// trial alike. `None` for responses that are not counted in units, and where a trial has less than
/// one.
pub(crate) fn unit_share(plan: &Plan, levels: &[usize], response: Response, rate: f64) -> Option<f64> {
    let setup = plan.setup(levels).ok()?;
    let unit = match (response, setup.workload) {
        (Response::Goodput | Response::GoodputDown, Workload::Udp) => f64::from(setup.datagram_bytes) * 8.0,
        (Response::Goodput | Response::GoodputDown, _) => f64::from(setup.path.mtu) * 8.0 * f64::from(setup.flows),
        (Response::Transactions, _) => 1.0,
        _ => return None,
    };
    Some(unit / (rate * plan.duration.as_secs_f64())).filter(|share| *share < 1.0)
}

/// By what share of a trial the starts of a stream differ: without a warm-up, a trial holds the
/// round trip before its first byte.
fn starts_differ(plan: &Plan, pair: [&[usize]; 2]) -> f64 {
    let [Some(a), Some(b)] = pair.map(|levels| start_share(plan, levels)) else { return 0.0 };
    (a - b).abs()
}

/// The share of a stream's trial that is over before its first byte; `None` where that is not of
/// the trial.
pub(crate) fn start_share(plan: &Plan, levels: &[usize]) -> Option<f64> {
    let setup = plan.setup(levels).ok().filter(|s| s.workload == Workload::Stream && plan.warm_up == Nanos::ZERO)?;
    Some(setup.round_trip_s()? / plan.duration.as_secs_f64().max(f64::MIN_POSITIVE))
}

/// Every combination of a plan, in the order of its levels.
pub fn combinations(plan: &Plan) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = plan.block(0, 0).into_iter().map(|p| p.levels).collect();
    all.sort();
    all
}

/// Main effects and interactions on the logarithm of the plan's response: an effect of 0.01 is 1 %.
/// What trials count in whole units is no finer than these.
pub fn effects(part: usize, plan: &Plan, trials: &[Trial]) -> Effects {
    let levels: Vec<usize> = plan.factors.iter().map(|f| f.levels.len()).collect();
    let cells: Vec<stats::Cell> = trials
        .iter()
        .filter(|t| t.part == part && t.counts())
        .filter_map(|t| {
            let value = t.response(plan.response).filter(|v| *v > 0.0)?;
            Some(stats::Cell {
                block: t.block,
                levels: t.levels.clone(),
                value: value.ln(),
                unit: unit_share(plan, &t.levels, plan.response, value).unwrap_or(0.0),
                late: start_share(plan, &t.levels).unwrap_or(0.0),
            })
        })
        .collect();
    stats::effects(&levels, &cells, plan.until.is_some())
}

/// How far the widest interval of a ratio reaches to either side: of each level against the first,
/// or, with one combination alone, of its mean. `None` where there are too few trials.
pub fn widest(part: usize, plan: &Plan, trials: &[Trial]) -> Option<f64> {
    if plan.combinations() == 1 {
        let levels = vec![0; plan.factors.len()];
        let values: Vec<f64> = by_block(trials, part, &levels, plan.response).into_values().collect();
        let judgement = Judgement { sequential: plan.until.is_some(), ..Judgement::ALONE };
        let (e, _) = judgement.of(&values)?;
        return Some(e.half_width() / e.value.abs());
    }
    let found = effects(part, plan, trials);
    let main = found.effects.iter().filter(|e| e.of.len() == 1);
    let wanted: usize = plan.factors.iter().map(|f| f.levels.len() - 1).sum();
    let widths: Vec<f64> = main.map(|e| e.size.half_width()).collect();
    (widths.len() == wanted).then(|| widths.into_iter().fold(0.0, f64::max))
}

/// Trials of a combination from which on one of them can be recognised as an outlier.
const ENOUGH_TO_STAND_APART: usize = 5;

/// What the order of the trials did: the trend of each trial against the mean of its combination,
/// and how many stand apart from the others of it.
pub fn order_notes(part: usize, plan: &Plan, trials: &[Trial]) -> Vec<String> {
    let values: Vec<(&[usize], f64)> =
        counting(trials, part).filter_map(|t| Some((t.levels.as_slice(), t.response(plan.response)?))).collect();
    let mut of_combination: BTreeMap<&[usize], Vec<f64>> = BTreeMap::new();
    for &(levels, value) in &values {
        of_combination.entry(levels).or_default().push(value);
    }
    let relative: Vec<f64> = values
        .iter()
        .filter_map(|(levels, value)| {
            let all = of_combination.get(levels)?;
            let sum: f64 = all.iter().sum();
            (all.len() > 1 && sum > 0.0).then(|| value / (sum / all.len() as f64))
        })
        .collect();
    let mut notes = Vec::new();
    if let Some(trend) = stats::trend(&relative).filter(|t| t.p < 0.05) {
        let drift = trend.slope * trend.n as f64;
        notes.push(format!(
            "{}: the values drift by {} over the run (Kendall's tau {:.2}, p = {:.3}, n = {}); comparisons are within blocks",
            plan.name,
            if (-1.0..=1.0).contains(&drift) { quantity::change(drift) } else { "more than their mean".into() },
            trend.tau,
            trend.p,
            trend.n
        ));
    }
    let judged: Vec<&Vec<f64>> = of_combination.values().filter(|v| v.len() >= ENOUGH_TO_STAND_APART).collect();
    let apart: usize = judged.iter().map(|v| stats::outliers(v).len()).sum();
    if apart > 0 {
        notes.push(format!(
            "{}: {apart} of {} trials are outliers within their combination; none was excluded for that",
            plan.name,
            judged.iter().map(|v| v.len()).sum::<usize>()
        ));
    }
    notes
}

/// From which share of CPU time in use a machine is saturated: the scheduler cannot give the rest
/// to waiting threads.
const FULL: f64 = 0.9;

/// Whether a plan was measured on a full machine.
pub fn full_machine(part: usize, plan: &Plan, trials: &[Trial]) -> Option<String> {
    let busy: Vec<f64> = counting(trials, part).filter_map(|t| t.cpu_busy).collect();
    let median = stats::median(&busy).filter(|median| *median >= FULL)?;
    Some(format!(
        "{}: this machine's CPUs were {} in use (median of n = {} trials), so its figures are those of a saturated machine: \
         another one, or a path that runs elsewhere, may well give others",
        plan.name,
        quantity::percent(median),
        busy.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Factor, Known};

    #[test]
    fn figures_are_no_finer_than_what_trials_count() {
        let plan = crate::plan_file::parse(
            "p.toml",
            "repetitions = 3\nworkload = \"rr\"\nresponse = \"transactions\"\nduration = \"500ms\"\n[factors]\ndelay = [\"1ms\", \"2ms\"]\n",
        )
        .unwrap();
        // Eight and nine transactions in each trial of half a second.
        let trial = |i: usize| Trial {
            responses: [(Response::Transactions, [16.0, 18.0][i % 2]), (Response::LatencyP50, 1e6)].into(),
            ..Trial::of_goodput((0, (i / 2) as u32), i % 2, 1.0)
        };
        let trials: Vec<Trial> = (0..6).map(trial).collect();
        let compared = compare(0, &plan, &trials, [&[0], &[1]], Response::Transactions, 1).unwrap();
        assert!(!compared.seen() && compared.p > stats::LEVEL, "{compared:?}");
        assert!((compared.ratio.value - 0.125).abs() < 1e-9 && compared.resolution > 0.2, "{compared:?}");
        let eight = mean(0, &plan, &trials, &[0], Response::Transactions, 1).unwrap();
        assert!((eight.low - 14.0).abs() < 1e-9 && (eight.high - 18.0).abs() < 1e-9, "{eight:?}");
        let found = effects(0, &plan, &trials).effects.remove(0);
        assert!(found.size.covers(0.0) && found.resolution > 0.2 && found.p > stats::LEVEL, "{found:?}");
        // What is not counted has no such bound.
        assert_eq!(compare(0, &plan, &trials, [&[0], &[1]], Response::LatencyP50, 1).map(|c| c.resolution), Some(0.0));
    }

    #[test]
    fn a_full_machine_is_reported() {
        let plan = Plan {
            name: "p".into(),
            factors: vec![Factor::new(Known::Loss, ["0%"])],
            fixed: Vec::new(),
            response: Response::Goodput,
            repetitions: 3,
            duration: Nanos(1),
            warm_up: Nanos::ZERO,
            frames: 0,
            until: None,
        };
        let of =
            |shares: [Option<f64>; 3]| shares.map(|cpu_busy| Trial { cpu_busy, ..Trial::of_goodput((0, 0), 0, 1.0) });
        let told = full_machine(0, &plan, &of([Some(0.97), Some(0.95), Some(0.2)]));
        assert!(told.is_some_and(|t| t.starts_with("p: this machine's CPUs were 95 % in use (median of n = 3")));
        assert_eq!(full_machine(0, &plan, &of([Some(0.97), Some(0.6), Some(0.2)])), None);
        assert_eq!(full_machine(0, &plan, &of([None; 3])), None);
    }

    #[test]
    fn trials_stand_apart_from_their_own_combination_only_and_where_there_are_enough() {
        let plan = Plan {
            name: "p".into(),
            factors: vec![Factor::new(Known::Loss, ["0%", "1%"])],
            fixed: Vec::new(),
            response: Response::Goodput,
            repetitions: 6,
            duration: Nanos(1),
            warm_up: Nanos::ZERO,
            frames: 0,
            until: None,
        };
        // One combination varies a hundred times as much as the other.
        let quiet = [100.0, 100.1, 99.9, 100.2, 99.8, 100.0];
        let wild = [40.0, 60.0, 50.0, 55.0, 45.0, 52.0];
        let of = |quiet: [f64; 6], blocks: usize| -> Vec<Trial> {
            let pairs = quiet.into_iter().zip(wild).take(blocks);
            (0..)
                .zip(pairs)
                .flat_map(|(b, (q, w))| [Trial::of_goodput((0, b), 0, q), Trial::of_goodput((0, b), 1, w)])
                .collect()
        };
        assert_eq!(order_notes(0, &plan, &of(quiet, 6)), Vec::<String>::new());
        let odd = [100.0, 100.1, 99.9, 100.2, 99.8, 97.0];
        let notes = order_notes(0, &plan, &of(odd, 6));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("p: 1 of 12 trials are outliers"), "{notes:?}");
        let odd = [100.0, 100.1, 99.9, 97.0, 100.0, 100.0];
        assert_eq!(order_notes(0, &plan, &of(odd, 4)), Vec::<String>::new());
    }
}
