//! What a study says at its end: verdict first, then the figures, what was checked and what was lost.

use quantity::{change, p_value};
use record::Nanos;
use record::trial::Response;
use serde::{Deserialize, Serialize};
use stats::{Comparison, Judgement};

use crate::analysis;
use crate::chart::{Chart, Line};
use crate::engine::Study;
use crate::outcome::Trial;
use crate::plan::Plan;
use crate::predict::Predicted;
use crate::response::{WHAT_HELPS, is_known, percent_of, quantity, quantity_of, too_wide, visible};
use crate::setting::Workload;

/// A table for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows; as many cells as there are names.
    pub rows: Vec<Vec<String>>,
}

/// One comparison that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// In words: what against what.
    pub what: String,
    /// Which response.
    pub response: Response,
    /// The figures.
    pub comparison: Comparison,
    /// What first principles say, as a ratio less 1.
    pub predicted: Option<f64>,
}

/// What a study says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// The study.
    pub study: String,
    /// One sentence each, the most important first.
    pub verdict: Vec<String>,
    /// The comparisons.
    pub compared: Vec<Compared>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Series over time.
    #[serde(default)]
    pub charts: Vec<Chart>,
    /// Steps found along a swept factor, with the name of the curve.
    pub steps: Vec<(String, stats::Step)>,
    /// What was checked and held.
    pub checked: Vec<String>,
    /// What was lost, or did not hold.
    pub lost: Vec<String>,
    /// What to know when reading the figures.
    pub notes: Vec<String>,
}

impl Table {
    /// An empty one.
    pub fn new(title: &str, head: &[&str]) -> Self {
        Self { title: title.into(), head: head.iter().map(|h| (*h).to_owned()).collect(), rows: Vec::new() }
    }
}

impl Compared {
    /// The sentence that says it: what it is worth, or that no difference was seen and how small a one could have been.
    pub fn sentence(&self) -> String {
        let c = &self.comparison;
        let predicted = self.predicted.and_then(visible).map(|p| format!("; predicted {p}")).unwrap_or_default();
        if !is_known(&c.ratio) {
            format!(
                "{}: {} cannot be judged by {} blocks: {}; {WHAT_HELPS}",
                self.what,
                self.response,
                c.ratio.n,
                too_wide(&c.ratio)
            )
        } else if c.seen() {
            format!(
                "{} is worth {} {}{predicted} (n = {} blocks)",
                self.what,
                percent_of(&c.ratio),
                self.response,
                c.ratio.n
            )
        } else {
            let visible = smallest(c.smallest_seen)
                .map(|least| format!("; the smallest one this run could have seen is {least}"));
            format!(
                "{}: no difference in {} seen ({}, n = {} blocks){}{predicted}",
                self.what,
                self.response,
                percent_of(&c.ratio),
                c.ratio.n,
                visible.unwrap_or_default()
            )
        }
    }
}

/// The smallest difference that could be seen, in words: to both sides where as many times more and less are not the same share.
fn smallest(ratio: f64) -> Option<String> {
    let more = visible(ratio)?;
    Some(if ratio < 0.1 { more } else { format!("{more} or {}", change(-ratio / (1.0 + ratio))) })
}

/// Judges the comparisons of a study together: their intervals, p and smallest differences are of one kind and one level, and
/// hold all at the same time.
pub fn judge(study: &Study, conclusion: &mut Conclusion) {
    let judgement = Judgement { comparisons: conclusion.compared.len(), sequential: study.is_sequential() };
    for compared in &mut conclusion.compared {
        compared.comparison = compared.comparison.judged(judgement);
    }
    if judgement.comparisons > 1 {
        let n = judgement.comparisons;
        conclusion.notes.push(format!(
            "the {n} comparisons are judged together: all their intervals hold at the same time in 95 % of studies (Bonferroni)"
        ));
    }
    if judgement.sequential {
        conclusion.notes.push(
            "the study went on until its intervals were narrow, so they are of the t test that holds at every moment, and wider \
             than those of as many blocks that were planned"
                .into(),
        );
    }
}

/// A table of every combination of a plan: mean, interval, n, and what was predicted.
pub fn table_of(
    part: usize,
    plan: &Plan,
    trials: &[Trial],
    response: Response,
    seed: u64,
    predict: impl Fn(&[usize]) -> Option<Predicted>,
) -> Table {
    let mut head: Vec<&str> = plan.factors.iter().map(|f| f.name.as_str()).collect();
    head.extend([response.words(), "95 % interval", "n", "predicted"]);
    let mut table = Table::new(&plan.name, &head);
    for levels in analysis::combinations(plan) {
        let mut row = plan.label(&levels);
        row.extend(quantity_of(response, analysis::mean(part, plan, trials, &levels, response, seed).as_ref()));
        row.push(predict(&levels).map_or_else(|| "-".into(), |p| predicted_text(response, p)));
        table.rows.push(row);
    }
    table
}

/// Main effects and interactions, those seen first in the verdict.
pub fn effects_table(part: usize, plan: &Plan, trials: &[Trial], verdict: &mut Vec<String>) -> Table {
    let found = analysis::effects(part, plan, trials);
    let title = format!(
        "{}: effects on {} (n = {} complete blocks, {} incomplete)",
        plan.name, plan.response, found.blocks, found.incomplete_blocks
    );
    let mut table = Table::new(&title, &["effect", "size", "p"]);
    let mut seen = Vec::new();
    for effect in &found.effects {
        let name = |&(factor, level): &(usize, usize)| {
            let f = &plan.factors[factor];
            format!("{} {} against {}", f.name, f.levels[level], f.levels[0])
        };
        let what = effect.of.iter().map(name).collect::<Vec<_>>().join(" × ");
        let size = percent_of(&effect.size.map(f64::exp_m1));
        table.rows.push(vec![what.clone(), size.clone(), p_value(effect.p)]);
        if !effect.size.covers(0.0) && is_known(&effect.size.map(f64::exp_m1)) {
            seen.push((
                effect.size.value.abs(),
                format!("{}: {what}: {size} {} (n = {} blocks)", plan.name, plan.response, effect.size.n),
            ));
        }
    }
    seen.sort_by(|a, b| b.0.total_cmp(&a.0));
    if seen.is_empty() && !found.effects.is_empty() {
        // Sizes are logarithms, and their intervals are not as far to either side as ratios.
        let widest = found.effects.iter().map(|e| e.size.map(f64::exp_m1)).max_by(|a, b| a.high.total_cmp(&b.high));
        let reach = match widest {
            Some(e) if is_known(&e) => format!("the widest interval is {} to {}", change(e.low), change(e.high)),
            _ => format!("the blocks do not say how small an effect could have been seen; {WHAT_HELPS}"),
        };
        verdict
            .push(format!("{}: no effect on {} seen; {reach} (n = {} blocks)", plan.name, plan.response, found.blocks));
    }
    verdict.extend(seen.into_iter().map(|s| s.1));
    table
}

/// What first principles say of a combination, where they do: goodput under a rate, a window or loss; exchanges over a path.
pub fn prediction(plan: &Plan, levels: &[usize]) -> Option<Predicted> {
    let setup = plan.setup(levels).ok()?;
    match (plan.response, setup.workload) {
        (Response::Goodput, Workload::Stream) => crate::predict::goodput(&setup),
        (Response::Goodput, Workload::Udp) => crate::predict::datagrams(&setup),
        (Response::Transactions, Workload::Rr | Workload::Crr) => crate::predict::exchanges(&setup),
        _ => None,
    }
}

/// The prediction of a combination of one plan of a study, in the lab or between real hosts.
pub(crate) fn predicted_in(study: &Study, part: usize, trials: &[Trial], levels: &[usize]) -> Option<Predicted> {
    let plan = study.plans.get(part)?;
    match study.host {
        None => prediction(plan, levels),
        Some(_) => prediction_over_measured(part, plan, trials, levels),
    }
}

/// Why combinations of a plan have no prediction, each reason with how many have it.
pub(crate) fn not_predicted(study: &Study, part: usize, trials: &[Trial]) -> Vec<String> {
    let Some(plan) = study.plans.get(part) else { return Vec::new() };
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    let combinations = analysis::combinations(plan);
    for levels in combinations.iter().filter(|levels| predicted_in(study, part, trials, levels).is_none()) {
        let Ok(mut setup) = plan.setup(levels) else { continue };
        if study.host.is_some() {
            setup.keep_to_this_host();
        }
        let why = crate::predict::none_because(plan.response, &setup);
        match reasons.iter_mut().find(|r| r.0 == why) {
            Some(reason) => reason.1 += 1,
            None => reasons.push((why, 1)),
        }
    }
    let of = combinations.len();
    let said = |(why, n): (&str, usize)| {
        let which = if n == of { String::new() } else { format!(" of {n} of {of} combinations") };
        format!("{}: no prediction{which}: {why}", plan.name)
    };
    reasons.into_iter().map(said).collect()
}

/// A prediction in words: with its reach where that is more than a tenth.
pub fn predicted_text(response: Response, p: Predicted) -> String {
    if p.high > p.low * 1.15 {
        format!("{} ({} … {})", quantity(response, p.value), quantity(response, p.low), quantity(response, p.high))
    } else {
        quantity(response, p.value)
    }
}

/// The same between real hosts: the shortest round trip of the combination's trials stands for the path's.
fn prediction_over_measured(part: usize, plan: &Plan, trials: &[Trial], levels: &[usize]) -> Option<Predicted> {
    let mut setup = plan.setup(levels).ok().filter(|_| plan.response == Response::Goodput)?;
    setup.keep_to_this_host();
    let least =
        analysis::of(trials, part, levels).filter_map(|t| t.response(Response::MinRoundTrip)).reduce(f64::min)?;
    crate::predict::goodput_over(&setup, least / 1e9)
}

/// Width of the slots that trials are averaged in.
const SLOT: Nanos = Nanos::from_millis(100);

/// More combinations than this make no chart that a person could read.
const LINES: usize = 12;

/// Goodput over time, a line for each combination; `None` where the plan has no such series, or too many of them.
pub fn goodput_chart(part: usize, plan: &Plan, trials: &[Trial]) -> Option<Chart> {
    let combinations = analysis::combinations(plan);
    let lines: Vec<Line> = combinations
        .iter()
        .map(|levels| {
            let points = |t: &Trial| t.series.iter().map(|p| (p.at_ns, p.bits_per_second)).collect();
            Line::mean(&named(plan, levels), SLOT, analysis::of(trials, part, levels).map(points))
        })
        .filter(|l| l.n > 0)
        .collect();
    // Under probes each direction has a separate chart.
    let plain = trials.iter().filter(|t| t.part == part).all(|t| t.pings.is_empty());
    let title = format!("{}: goodput over time", plan.name);
    ((1..=LINES).contains(&lines.len()) && plain).then_some(Chart {
        plan: part,
        title,
        response: Response::Goodput,
        lines,
    })
}

/// Download, upload and ping over time, a line for each combination; empty where the plan has no probes.
pub fn ping_charts(part: usize, plan: &Plan, trials: &[Trial]) -> Vec<Chart> {
    let counted = || trials.iter().filter(|t| t.part == part && t.counts());
    if counted().all(|t| t.pings.is_empty()) || plan.combinations() > LINES {
        return Vec::new();
    }
    let chart = |name: &str, response: Response, of: &dyn Fn(&Trial) -> Vec<(Nanos, f64)>| Chart {
        plan: part,
        title: format!("{}: {name} over time", plan.name),
        response,
        lines: analysis::combinations(plan)
            .iter()
            .map(|levels| Line::mean(&named(plan, levels), SLOT, analysis::of(trials, part, levels).map(of)))
            .collect(),
    };
    let ping = |probe: &'static str| {
        move |t: &Trial| -> Vec<(Nanos, f64)> {
            let pings = t.pings.iter().filter(|p| p.probe == probe);
            pings.filter_map(|p| Some((p.at_ns, p.round_trip_ns?.0 as f64))).collect()
        }
    };
    let mut charts = vec![
        chart("download", Response::Goodput, &|t| t.series.iter().map(|p| (p.at_ns, p.down_bits_per_second)).collect()),
        chart("upload", Response::Goodput, &|t| t.series.iter().map(|p| (p.at_ns, p.bits_per_second)).collect()),
    ];
    for probe in ["icmp", "udp", "tcp"] {
        charts.push(chart(&format!("ping ({probe})"), Response::LatencyP50, &ping(probe)));
    }
    charts.retain(|c| c.lines.iter().any(|l| !l.values.is_empty()));
    charts
}

/// The round trips that one kind of probe saw in a trial while its streams were settled, nanoseconds.
fn pings_under_load(trial: &Trial, plan: &Plan, probe: &str) -> Vec<f64> {
    let Some(began) = trial.series.first().map(|p| p.at_ns) else { return Vec::new() };
    let from = began + traffic::load::settling(plan.duration);
    let until = began + plan.duration;
    let loaded = trial.pings.iter().filter(|p| p.probe == probe && (from..until).contains(&p.at_ns));
    loaded.filter_map(|p| p.round_trip_ns.map(|rtt| rtt.0 as f64)).collect()
}

/// The distributions of pings under load set side by side: quantiles of each combination and how far apart the distribution
/// functions lie. `None` where the plan has no probes.
pub fn ping_distributions(part: usize, plan: &Plan, trials: &[Trial]) -> Option<Table> {
    const SHOWN: [(&str, f64); 5] = [("10 %", 0.1), ("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("longest", 1.0)];
    let mut head = vec!["probe", "setting"];
    head.extend(SHOWN.map(|s| s.0));
    head.extend(["probes", "furthest apart from the first (Kolmogorov-Smirnov)"]);
    let mut table = Table::new(&format!("{}: distribution of pings under load", plan.name), &head);
    for probe in ["icmp", "udp", "tcp"] {
        let mut first: Vec<f64> = Vec::new();
        for levels in analysis::combinations(plan) {
            let all: Vec<f64> =
                analysis::of(trials, part, &levels).flat_map(|t| pings_under_load(t, plan, probe)).collect();
            if all.is_empty() {
                continue;
            }
            let mut row = vec![probe.to_owned(), named(plan, &levels)];
            row.extend(SHOWN.map(|(_, share)| {
                stats::quantile(&all, share).map_or_else(|| "-".into(), |ns| quantity(Response::LatencyP50, ns))
            }));
            row.push(all.len().to_string());
            let apart = stats::kolmogorov_smirnov(&first, &all);
            row.push(apart.map_or_else(
                || "-".into(),
                |k| format!("{} of probes, at {}", quantity::percent(k.distance), quantity(Response::LatencyP50, k.at)),
            ));
            if first.is_empty() {
                first = all;
            }
            table.rows.push(row);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// A combination in words: each factor that varies with its level.
fn named(plan: &Plan, levels: &[usize]) -> String {
    let varied =
        plan.factors.iter().zip(plan.short_names()).zip(plan.label(levels)).filter(|((f, _), _)| f.levels.len() > 1);
    let words: Vec<String> = varied.map(|((_, name), level)| format!("{name} {level}")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Factor, plan_file};

    #[test]
    fn the_smallest_difference_is_said_to_both_sides_where_these_differ() {
        assert_eq!(smallest(0.0166).as_deref(), Some("+1.66 %"));
        // Half as much again, and a third less.
        assert_eq!(smallest(0.5).as_deref(), Some("+50.0 % or −33.3 %"));
        assert_eq!(smallest(30.0), None);
    }

    #[test]
    fn how_small_an_effect_could_be_is_a_change_and_not_a_logarithm() {
        let plan = Plan {
            factors: vec![Factor::new("delay", ["1ms", "2ms"]), Factor::new("queue", ["10ms", "20ms"])],
            ..plan_file::parse("p.toml", "repetitions = 3\n[factors]\ndelay = [\"1ms\", \"2ms\"]\n").unwrap()
        };
        let levels = [[0, 0], [0, 1], [1, 0], [1, 1]];
        let spread = [1.0, 1.15, 0.9, 1.1, 0.95, 1.05, 1.15, 0.9, 1.1, 0.9, 1.05, 0.95];
        let trials: Vec<Trial> = (0..12)
            .map(|i| Trial {
                levels: levels[i % 4].into(),
                ..Trial::of_goodput((0, (i / 4) as u32), 0, 1e6 * spread[i])
            })
            .collect();
        let mut verdict = Vec::new();
        effects_table(0, &plan, &trials, &mut verdict);
        assert!(verdict[0].contains("no effect on goodput seen; the widest interval is −"), "{verdict:?}");
        // No ratio falls by more than all of it.
        let low: f64 = verdict[0].split("is −").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(low < 100.0, "{verdict:?}");
    }
}
