//! What a study says at its end: verdict first, then the figures, what was checked and what was lost.

use std::fmt::Write as _;

use record::Nanos;
use serde::{Deserialize, Serialize};
use stats::{Comparison, Judgement};

use crate::analysis;
use crate::chart::{Chart, Line};
use crate::engine::Study;
use crate::outcome::Trial;
use crate::plan::Plan;
use crate::response::{percent, percent_of, quantity, quantity_of};
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
    pub response: String,
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
        let predicted = self.predicted.map(|p| format!("; predicted {}", percent(p))).unwrap_or_default();
        if !c.ratio.high.is_finite() {
            format!(
                "{}: too few blocks to judge {} ({}, n = {} blocks)",
                self.what,
                self.response,
                percent(c.ratio.value),
                c.ratio.n
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
            format!(
                "{}: no difference in {} seen ({}, n = {} blocks); the smallest one this run could have seen is {}{predicted}",
                self.what,
                self.response,
                percent_of(&c.ratio),
                c.ratio.n,
                percent(c.smallest_seen)
            )
        }
    }
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

/// How large and how sure each comparison is, by several measures; `None` where nothing is compared.
pub fn measures_table(compared: &[Compared]) -> Option<Table> {
    let mut table = Table::new(
        "the comparisons by several measures (differences and tests are of pairs within blocks)",
        &[
            "what",
            "response",
            "ratio less 1",
            "difference",
            "Hedges' g",
            "Cliff's delta",
            "p",
            "p permutation",
            "p Wilcoxon",
            "smallest seen",
            "n",
        ],
    );
    for c in compared {
        let x = &c.comparison;
        table.rows.push(vec![
            c.what.clone(),
            c.response.clone(),
            percent_of(&x.ratio),
            quantity(&c.response, x.difference.value),
            format!("{:.2}", x.hedges_g),
            format!("{:.2}", x.cliffs_delta),
            format!("{:.4}", x.p),
            format!("{:.4}", x.permutation_p),
            x.wilcoxon_p.map_or_else(|| "-".into(), |p| format!("{p:.4}")),
            percent(x.smallest_seen),
            x.ratio.n.to_string(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What every study checks and loses, from its trials.
pub fn account(study: &Study, trials: &[Trial], conclusion: &mut Conclusion) {
    let mut held: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    for (part, plan) in study.plans.iter().enumerate() {
        for trial in trials.iter().filter(|t| t.part == part) {
            for text in &trial.held {
                // Figures differ from trial to trial: what was checked is what stands before them.
                let kind = text.split(", ").next().unwrap_or(text).split(" on ").next().unwrap_or(text);
                *held.entry(kind.to_owned()).or_default() += 1;
            }
            for text in &trial.broken {
                let place = trial.labels.join(", ");
                conclusion
                    .lost
                    .push(format!("{}, block {}, {place}: {text}; that trial counts nowhere", plan.name, trial.block));
            }
            if let Some(why) = &trial.evidence.refused {
                let text = format!("no packet was looked at, so nothing is proved by packets ({why})");
                if !conclusion.lost.contains(&text) {
                    conclusion.lost.push(text);
                }
            }
            if trial.evidence.dropped > 0 {
                let (n, frames) = (trial.evidence.dropped, trial.evidence.frames);
                let place = format!("{}, block {}, {}", plan.name, trial.block, trial.labels.join(", "));
                conclusion.lost.push(format!("{place}: {n} frames not seen beside {frames} seen"));
            }
        }
        conclusion.notes.extend(analysis::full_machine(part, plan, trials));
        conclusion.notes.extend(analysis::order_notes(part, plan, trials));
    }
    conclusion.tables.extend(measures_table(&conclusion.compared));
    if trials.iter().any(|t| !t.pings.is_empty()) {
        conclusion.notes.push(
            "probes of one trial follow each other through the same queue, so they are not independent: the distance of their \
             distributions is told without a p, and what is sure stands in the comparisons of trials"
                .into(),
        );
    }
    conclusion.checked.extend(held.into_iter().map(|(text, n)| format!("{text} (in {n} checks)")));
    let counted = trials.iter().filter(|t| t.counts()).count();
    conclusion.checked.push(format!("{counted} of {} trials count", trials.len()));
}

/// A table of every combination of a plan: mean, interval, n, and what was predicted.
pub fn table_of(
    part: usize,
    plan: &Plan,
    trials: &[Trial],
    response: &str,
    seed: u64,
    predict: impl Fn(&[usize]) -> Option<f64>,
) -> Table {
    let mut head: Vec<&str> = plan.factors.iter().map(|f| f.name.as_str()).collect();
    head.extend([response, "95 % interval", "n", "predicted"]);
    let mut table = Table::new(&plan.name, &head);
    for levels in analysis::combinations(plan) {
        let mut row = plan.label(&levels);
        row.extend(quantity_of(response, analysis::estimate(trials, part, &levels, response, seed).as_ref()));
        row.push(predict(&levels).map_or_else(|| "-".into(), |p| quantity(response, p)));
        table.rows.push(row);
    }
    table
}

/// The conclusion of a plan from a file: each level against the first, main effects and interactions where there are
/// several factors.
pub fn of_plan(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut conclusion = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    for (part, plan) in study.plans.iter().enumerate() {
        if let [factor] = plan.factors.as_slice() {
            for level in 1..factor.levels.len() {
                let what = format!("{} {} against {}", factor.name, factor.levels[level], factor.levels[0]);
                if let Some(comparison) = analysis::compare(trials, part, [&[0], &[level]], &plan.response, seed) {
                    let response = plan.response.clone();
                    conclusion.compared.push(Compared { what, response, comparison, predicted: None });
                }
            }
        } else if !plan.factors.is_empty() {
            conclusion.tables.push(effects_table(part, plan, trials, &mut conclusion.verdict));
        }
        let predict = |levels: &[usize]| match study.host {
            None => prediction(plan, levels),
            Some(_) => prediction_over_measured(part, plan, trials, levels),
        };
        conclusion.tables.push(table_of(part, plan, trials, &plan.response, seed, predict));
        conclusion.charts.extend(goodput_chart(part, plan, trials));
        conclusion.tables.extend(ping_distributions(part, plan, trials));
        conclusion.charts.extend(ping_charts(part, plan, trials));
    }
    if study.host.is_some() {
        conclusion.notes.push(
            "between real hosts the path is not known: a prediction takes the shortest round trip that was measured, and \
             queueing is the round trip above that"
                .into(),
        );
    }
    judge(study, &mut conclusion);
    let sentences: Vec<String> = conclusion.compared.iter().map(Compared::sentence).collect();
    conclusion.verdict.splice(0..0, sentences);
    account(study, trials, &mut conclusion);
    conclusion
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
        table.rows.push(vec![what.clone(), size.clone(), format!("{:.4}", effect.p)]);
        if !effect.size.covers(0.0) {
            seen.push((
                effect.size.value.abs(),
                format!("{}: {what}: {size} {} (n = {} blocks)", plan.name, plan.response, effect.size.n),
            ));
        }
    }
    seen.sort_by(|a, b| b.0.total_cmp(&a.0));
    if seen.is_empty() && !found.effects.is_empty() {
        let widest = found.effects.iter().map(|e| e.size.half_width()).fold(0.0, f64::max);
        verdict.push(format!(
            "{}: no effect on {} seen; intervals reach up to {} to either side (n = {} blocks)",
            plan.name,
            plan.response,
            percent(widest),
            found.blocks
        ));
    }
    verdict.extend(seen.into_iter().map(|s| s.1));
    table
}

/// What first principles say of a combination, where they do: goodput under a rate, a window or loss; exchanges over a path.
pub fn prediction(plan: &Plan, levels: &[usize]) -> Option<f64> {
    let setup = plan.setup(levels).ok()?;
    match (plan.response.as_str(), setup.workload) {
        ("goodput", Workload::Stream) => crate::predict::goodput(&setup),
        ("transactions", Workload::Rr | Workload::Crr) => crate::predict::exchanges(&setup),
        _ => None,
    }
}

/// The same between real hosts: the shortest round trip of the combination's trials stands for the path's.
fn prediction_over_measured(part: usize, plan: &Plan, trials: &[Trial], levels: &[usize]) -> Option<f64> {
    let mut setup = plan.setup(levels).ok().filter(|_| plan.response == "goodput")?;
    setup.keep_to_this_host();
    let least = analysis::of(trials, part, levels).filter_map(|t| t.response("min_round_trip")).reduce(f64::min)?;
    crate::predict::goodput_over(&setup, least / 1e9)
}

/// Width of the slots that trials are averaged in.
const SLOT_NS: u64 = 100_000_000;

/// More combinations than this make no chart that a person could read.
const LINES: usize = 12;

/// Goodput over time, a line for each combination; `None` where the plan has no such series, or too many of them.
pub fn goodput_chart(part: usize, plan: &Plan, trials: &[Trial]) -> Option<Chart> {
    let combinations = analysis::combinations(plan);
    let lines: Vec<Line> = combinations
        .iter()
        .map(|levels| {
            let points = |t: &Trial| t.series.iter().map(|p| (p.at_ns, p.bits_per_second)).collect();
            Line::mean(&named(plan, levels), SLOT_NS, analysis::of(trials, part, levels).map(points))
        })
        .filter(|l| l.n > 0)
        .collect();
    // Under probes each way has a chart of its own.
    let plain = trials.iter().filter(|t| t.part == part).all(|t| t.pings.is_empty());
    let title = format!("{}: goodput over time", plan.name);
    ((1..=LINES).contains(&lines.len()) && plain).then(|| Chart { title, response: "goodput".into(), lines })
}

/// Download, upload and ping over time, a line for each combination; empty where the plan has no probes.
pub fn ping_charts(part: usize, plan: &Plan, trials: &[Trial]) -> Vec<Chart> {
    let counted = || trials.iter().filter(|t| t.part == part && t.counts());
    if counted().all(|t| t.pings.is_empty()) || plan.combinations() > LINES {
        return Vec::new();
    }
    let chart = |name: &str, response: &str, of: &dyn Fn(&Trial) -> Vec<(u64, f64)>| Chart {
        title: format!("{}: {name} over time", plan.name),
        response: response.into(),
        lines: analysis::combinations(plan)
            .iter()
            .map(|levels| Line::mean(&named(plan, levels), SLOT_NS, analysis::of(trials, part, levels).map(of)))
            .collect(),
    };
    let ping = |probe: &'static str| {
        move |t: &Trial| -> Vec<(u64, f64)> {
            let pings = t.pings.iter().filter(|p| p.probe == probe);
            pings.filter_map(|p| Some((p.at_ns, p.round_trip_ns? as f64))).collect()
        }
    };
    let mut charts = vec![
        chart("download", "goodput", &|t| t.series.iter().map(|p| (p.at_ns, p.down_bits_per_second)).collect()),
        chart("upload", "goodput", &|t| t.series.iter().map(|p| (p.at_ns, p.bits_per_second)).collect()),
    ];
    for probe in ["icmp", "udp", "tcp"] {
        charts.push(chart(&format!("ping ({probe})"), "latency_p50", &ping(probe)));
    }
    charts.retain(|c| c.lines.iter().any(|l| !l.values.is_empty()));
    charts
}

/// The round trips that one kind of probe saw in a trial while its streams were settled, nanoseconds.
fn pings_under_load(trial: &Trial, plan: &Plan, probe: &str) -> Vec<f64> {
    let Some(began_ns) = trial.series.first().map(|p| p.at_ns) else { return Vec::new() };
    let from_ns = began_ns.saturating_add(traffic::load::settling(Nanos(plan.duration_ns)).0);
    let until_ns = began_ns.saturating_add(plan.duration_ns);
    let loaded = trial.pings.iter().filter(|p| p.probe == probe && (from_ns..until_ns).contains(&p.at_ns));
    loaded.filter_map(|p| p.round_trip_ns.map(|ns| ns as f64)).collect()
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
                stats::quantile(&all, share).map_or_else(|| "-".into(), |ns| quantity("latency_p50", ns))
            }));
            row.push(all.len().to_string());
            let apart = stats::kolmogorov_smirnov(&first, &all);
            row.push(apart.map_or_else(
                || "-".into(),
                |k| format!("{:.1} % of probes, at {}", k.distance * 100.0, quantity("latency_p50", k.at)),
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
    let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let varied = plan.factors.iter().zip(plan.label(levels)).filter(|(f, _)| f.levels.len() > 1);
    let words: Vec<String> = varied.map(|(f, level)| format!("{} {level}", short(&f.name))).collect();
    words.join(", ")
}

impl Conclusion {
    /// As text for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for sentence in &self.verdict {
            _ = writeln!(out, "{sentence}.");
        }
        for table in &self.tables {
            _ = writeln!(out, "\n{}", table.title);
            let width = |i: usize| {
                table
                    .rows
                    .iter()
                    .map(|r| r[i].chars().count())
                    .chain([table.head[i].chars().count()])
                    .max()
                    .unwrap_or(0)
            };
            let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
            for row in std::iter::once(&table.head).chain(&table.rows) {
                let cells: Vec<String> = row.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
                _ = writeln!(out, "  {}", cells.join("  ").trim_end());
            }
        }
        for chart in &self.charts {
            _ = write!(out, "\n{}", chart.text());
        }
        for (title, lines) in [("Checked", &self.checked), ("Lost", &self.lost), ("Notes", &self.notes)] {
            if !lines.is_empty() {
                _ = writeln!(out, "\n{title}");
                lines.iter().for_each(|line| _ = writeln!(out, "  {line}"));
            }
        }
        if self.lost.is_empty() {
            _ = writeln!(out, "\nLost: nothing");
        }
        out
    }
}
