//! What a study says at its end: verdict first, then the figures, what was checked and what was
//! lost.

use paper::document::{Table, columns};
use quantity::{change, p_value};
use record::Nanos;
use record::trial::Response;
use serde::{Deserialize, Serialize, Serializer};
use stats::{Comparison, Estimate, Judgement};
use traffic::load::Carried;

use crate::analysis;
use crate::chart::{Chart, Line};
use crate::engine::Study;
use crate::measure::TENTH;
use crate::not_predicted::{NotPredicted, none_because};
use crate::outcome::{Point, Trial};
use crate::plan::Plan;
use crate::predict::Predicted;
use crate::response::{WHAT_HELPS, is_known, percent_of, quantity, quantity_of, too_wide, visible};
use crate::sentence::Sentence;

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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Conclusion {
    /// The study.
    pub study: String,
    /// The most important sentence first.
    pub verdict: Vec<Sentence>,
    /// The comparisons.
    pub compared: Vec<Compared>,
    /// The tables.
    #[serde(serialize_with = "plain")]
    pub tables: Vec<Table>,
    /// Series over time.
    pub(crate) charts: Vec<Chart>,
    /// Steps found along a swept factor, with the name of the curve.
    pub steps: Vec<(String, stats::Step)>,
    /// What was checked and held.
    pub checked: Vec<String>,
    /// What was lost, or did not hold.
    pub lost: Vec<String>,
    /// What to know when reading the figures.
    pub notes: Vec<String>,
}

/// Tables as files and `--json` have them: `title`, `head` and `rows` of text.
fn plain<S: Serializer>(tables: &[Table], out: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Plain<'a> {
        title: String,
        head: Vec<&'a str>,
        rows: Vec<Vec<String>>,
    }
    out.collect_seq(tables.iter().map(|table| Plain {
        title: table.heading(),
        head: table.columns.iter().map(|column| column.name.as_str()).collect(),
        rows: (0..table.rows.len()).map(|row| table.written(row)).collect(),
    }))
}

impl Compared {
    /// The sentence that says it: what it is worth, or that no difference was seen and how small a
    /// one could have been.
    pub fn sentence(&self) -> Sentence {
        let c = &self.comparison;
        // What hosts take for themselves is in what is measured, and in no formula.
        let path_alone =
            |p: f64| if c.ratio.covers(p) { "" } else { " of the path alone, without the hosts' own time" };
        let predicted = self.predicted.and_then(|p| Some(format!("predicted {}{}", visible(p)?, path_alone(p))));
        if !is_known(&c.ratio) {
            let why = too_wide(&c.ratio);
            let judged = format!("{}: {} cannot be judged by {} blocks: {why}", self.what, self.response, c.ratio.n);
            Sentence::from(judged).and(WHAT_HELPS)
        } else if c.seen() {
            let [value, low, high] = changed(&c.ratio);
            Sentence::from(format!(
                "{}: {} {value} (95 % interval {low} to {high}, {} blocks)",
                self.what, self.response, c.ratio.n
            ))
            .and_any(predicted)
        } else {
            let visible = smallest(c.smallest_seen)
                .map(|least| format!("these runs would have shown a change of {least} or more"));
            Sentence::from(format!(
                "{}: no difference in {} seen ({}, n = {} blocks)",
                self.what,
                self.response,
                percent_of(&c.ratio),
                c.ratio.n
            ))
            .and_any(visible)
            .and_any(predicted)
        }
    }
}

/// A change that excludes zero, and the ends of its interval, the smaller first: `76.0 % lower`,
/// `75.9` and `76.0 %`. What is twice as much or more is a factor.
fn changed(ratio: &Estimate) -> [String; 3] {
    let ends = [ratio.low, ratio.high];
    if ends.iter().any(|end| *end >= 1.0) {
        let times = |change: f64| format!("{:.2}", 1.0 + change);
        return [format!("{} times as high", times(ratio.value)), times(ratio.low), times(ratio.high)];
    }
    let percent = |share: f64| quantity::points(share.abs());
    let [low, high] = if ratio.value < 0.0 { [ratio.high, ratio.low] } else { ends };
    let way = if ratio.value < 0.0 { "lower" } else { "higher" };
    [format!("{} % {way}", percent(ratio.value)), percent(low), format!("{} %", percent(high))]
}

/// The smallest difference that could be seen, in words: to both sides where as many times more and
/// less are not the same share.
fn smallest(ratio: f64) -> Option<String> {
    let more = visible(ratio)?;
    Some(if ratio < 0.1 { more } else { format!("{more} or {}", change(-ratio / (1.0 + ratio))) })
}

/// Judges the comparisons of a study together: their intervals, p and smallest differences are of
/// one kind and one level, and hold all at the same time.
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
    let factors = plan.factor_names();
    let columns = columns(factors.iter().map(String::as_str), [response.words(), "95 % interval", "n", "predicted"]);
    let mut table = Table::new(plan.name.clone(), columns);
    for levels in analysis::combinations(plan) {
        let mut row = plan.label(&levels);
        row.extend(quantity_of(response, analysis::mean(part, plan, trials, &levels, response, seed).as_ref()));
        row.push(predict(&levels).map_or_else(|| "-".into(), |p| predicted_text(response, p)));
        table.push(row);
    }
    table
}

/// Main effects and interactions, those seen first in the verdict.
pub fn effects_table(part: usize, plan: &Plan, trials: &[Trial], verdict: &mut Vec<Sentence>) -> Table {
    let found = analysis::effects(part, plan, trials);
    let title = format!("{}: effects on {}", plan.name, plan.response);
    let mut table = Table::new(title, columns(["effect"], ["size", "p"]))
        .with_basis(format!("n = {} complete blocks, {} incomplete", found.blocks, found.incomplete_blocks));
    let (mut seen, mut known, mut unknown, before) = (Vec::new(), Vec::new(), Vec::new(), verdict.len());
    for effect in &found.effects {
        let name = |&(factor, level): &(usize, usize)| {
            let f = &plan.factors[factor];
            format!("{} {} against {}", f.name, f.levels[level], f.levels[0])
        };
        let what = effect.of.iter().map(name).collect::<Vec<_>>().join(" × ");
        let ratio = effect.size.map(f64::exp_m1);
        let size = percent_of(&ratio);
        table.push(vec![what.clone(), size.clone(), p_value(effect.p)]);
        if !is_known(&ratio) {
            unknown.push(what);
            continue;
        }
        known.push(ratio);
        if !effect.size.covers(0.0) {
            seen.push((
                effect.size.value.abs(),
                Sentence::from(format!(
                    "{}: {what}: {size} {} (n = {} blocks)",
                    plan.name, plan.response, effect.size.n
                )),
            ));
        }
    }
    seen.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Sizes are logarithms, and their intervals are not as far to either side as ratios.
    let widest = known.iter().max_by(|a, b| a.high.total_cmp(&b.high));
    if let (true, Some(e)) = (seen.is_empty(), widest) {
        let other = if unknown.is_empty() { "" } else { "other " };
        let none = format!("{}: no {other}effect on {} seen (n = {} blocks)", plan.name, plan.response, found.blocks);
        let reach = format!("the widest interval is {} to {}", change(e.low), change(e.high));
        verdict.push(Sentence::from(none).and(reach));
    }
    verdict.extend(seen.into_iter().map(|s| s.1));
    if !unknown.is_empty() {
        let (n, of, blocks) = (unknown.len(), found.effects.len(), found.blocks);
        let judged = if n == of {
            format!("{}: no effect on {} can be judged by {blocks} blocks", plan.name, plan.response)
        } else {
            // The table has all of them.
            const NAMED: usize = 2;
            let mut which = unknown[..n.min(NAMED)].join(", ");
            if n > NAMED {
                which += &format!(" and {} more", quantity::counted((n - NAMED) as u64, "effect"));
            }
            format!("{}: {which}: {} cannot be judged by {blocks} blocks", plan.name, plan.response)
        };
        verdict.insert(before, Sentence::from(judged).and(WHAT_HELPS));
    }
    table
}

/// What first principles say of a combination, where they do.
pub fn prediction(plan: &Plan, levels: &[usize]) -> Option<Predicted> {
    crate::predict::of(plan.response, &plan.setup(levels).ok()?)
}

/// What first principles say of one combination against another, as a ratio less 1; `None` where
/// they leave one out, or the other has none of it.
pub(crate) fn predicted_change(study: &Study, part: usize, trials: &[Trial], pair: [&[usize]; 2]) -> Option<f64> {
    let [first, second] = pair.map(|levels| predicted_in(study, part, trials, levels));
    first.filter(|p| p.value > 0.0).zip(second).map(|(first, second)| second.value / first.value - 1.0)
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
    let mut reasons: Vec<(NotPredicted, usize)> = Vec::new();
    let combinations = analysis::combinations(plan);
    for levels in combinations.iter().filter(|levels| predicted_in(study, part, trials, levels).is_none()) {
        let Ok(mut setup) = plan.setup(levels) else { continue };
        if study.host.is_some() {
            setup.keep_to_this_host();
        }
        let why = none_because(plan.response, &setup);
        match reasons.iter_mut().find(|r| r.0 == why) {
            Some(reason) => reason.1 += 1,
            None => reasons.push((why, 1)),
        }
    }
    let of = combinations.len();
    let said = |(why, n): (NotPredicted, usize)| {
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

/// The same between real hosts: the shortest round trip of the combination's trials stands for the
/// path's.
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

/// Goodput over time, a line for each combination; `None` where the plan has no such series, or too
/// many of them.
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

/// Download, upload and ping over time, a line for each combination; empty where the plan has no
/// probes.
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

/// The round trips that one kind of probe saw in a trial while its streams were settled,
/// nanoseconds.
fn pings_under_load(trial: &Trial, plan: &Plan, probe: &str) -> Vec<f64> {
    let Some(began) = trial.series.first().map(|p| p.at_ns) else { return Vec::new() };
    let begun = began.saturating_sub(TENTH);
    let settled = begun + traffic::load::settling(plan.duration);
    let stretch = |p: &Point, rate: f64| Carried {
        start: p.at_ns.saturating_sub(TENTH),
        end: p.at_ns,
        bits: rate * TENTH.as_secs_f64(),
    };
    let ways: [Vec<Carried>; 2] = [
        trial.series.iter().map(|p| stretch(p, p.bits_per_second)).collect(),
        trial.series.iter().map(|p| stretch(p, p.down_bits_per_second)).collect(),
    ];
    let filled = ways.iter().filter(|way| way.iter().any(|s| s.bits > 0.0)).map(|way| traffic::load::filled(way));
    let from = filled.max().flatten().unwrap_or_default().max(settled);
    let until = begun + plan.duration;
    let loaded = trial.pings.iter().filter(|p| p.probe == probe && (from..until).contains(&p.at_ns));
    loaded.filter_map(|p| p.round_trip_ns.map(|rtt| rtt.0 as f64)).collect()
}

/// The distributions of pings under load set side by side: quantiles of each combination and how
/// far apart the distribution functions lie. `None` where the plan has no probes.
pub fn ping_distributions(part: usize, plan: &Plan, trials: &[Trial]) -> Option<Table> {
    const SHOWN: [(&str, f64); 5] = [("10 %", 0.1), ("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("longest", 1.0)];
    let mut columns = columns(["probe", "setting"], SHOWN.map(|s| s.0).into_iter().chain(["probes"]));
    columns.push("furthest apart from the first (Kolmogorov-Smirnov)".into());
    let mut table = Table::new(format!("{}: distribution of pings under load", plan.name), columns);
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
            table.push(row);
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
    use crate::{Factor, Known, plan_file};

    #[test]
    fn the_smallest_difference_is_said_to_both_sides_where_these_differ() {
        assert_eq!(smallest(0.0166).as_deref(), Some("+1.66 %"));
        // Half as much again, and a third less.
        assert_eq!(smallest(0.5).as_deref(), Some("+50.0 % or −33.3 %"));
        assert_eq!(smallest(30.0), None);
    }

    #[test]
    fn a_change_is_said_as_a_share_or_as_a_factor_with_the_smaller_end_first() {
        let of = |low: f64, value: f64, high: f64| {
            let ratio = Comparison::of(&[1.0, 1.1, 0.9], &[1.2, 1.0, 1.1], 1).unwrap().ratio;
            let [said, low, high] = changed(&Estimate { low, value, high, ..ratio });
            format!("{said} ({low} to {high})")
        };
        assert_eq!(of(-0.76, -0.7596, -0.759), "76.0 % lower (75.9 to 76.0 %)");
        assert_eq!(of(0.02, 0.05, 0.4), "5.00 % higher (2.00 to 40.0 %)");
        assert_eq!(of(0.8, 1.4, 2.0), "2.40 times as high (1.80 to 3.00)");
    }

    #[test]
    fn how_small_an_effect_could_be_is_a_change_and_not_a_logarithm() {
        let plan = Plan {
            factors: vec![Factor::new(Known::Delay, ["1ms", "2ms"]), Factor::new(Known::Queue, ["10ms", "20ms"])],
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
        assert!(
            verdict[0].to_string().contains("no effect on goodput seen (n = 3 blocks); the widest interval is −"),
            "{verdict:?}"
        );
        // No ratio falls by more than all of it.
        let said = verdict[0].to_string();
        let low: f64 = said.split("is −").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(low < 100.0, "{verdict:?}");
    }
}
