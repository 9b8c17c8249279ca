//! The plots of a study, and tables of its trials.

mod factors;
pub mod proof;
mod series;
mod trials;

use record::trial::{Measure, Response};

use crate::analysis;
use crate::chart::Chart;
use crate::conclusion::{Compared, Conclusion};
use crate::outcome::Trial;
use crate::plan::Plan;
use crate::response::{self, is_known, percent_of, quantity, visible};

pub use trials::trials;

use paper::document::{Cell, Table, columns};
use paper::plot::{Axis, Boxed, Hue, Interval, Layer, Plot, Unit, tidy};

/// Combinations that are drawn with a name each.
const NAMED: usize = 16;
/// Lines in one plot.
const LINES: usize = 6;
/// Trials that are drawn one by one along a curve.
const DRAWN: usize = 400;
/// Effects that are drawn.
const EFFECTS: usize = 40;

fn unit(response: Response) -> Unit {
    match response.measure() {
        Measure::BitRate => Unit::Rate,
        Measure::Time => Unit::Time,
        Measure::Bytes => Unit::Bytes,
        _ => Unit::Plain,
    }
}

fn label(response: Response) -> String {
    match response.measure() {
        // The ticks have these.
        Measure::BitRate | Measure::Time | Measure::Bytes => response.to_string(),
        Measure::PerSecond => format!("{response} (a second)"),
        other => format!("{response} ({})", other.unit()),
    }
}

/// The note on effects that are not drawn: those beyond the first, and those that are too vague, of
/// so many.
fn not_drawn(beyond: usize, vague: usize, of: usize) -> String {
    let mut note =
        if beyond > 0 { format!(" The first {EFFECTS}; {beyond} more are not drawn.") } else { String::new() };
    if vague > 0 {
        note += &format!(
            " {vague} of {of} effects are not known well enough to draw: their intervals are too wide, or reach beyond a hundredfold."
        );
    }
    note
}

/// How changes are drawn: as shares around zero, or, where they span decades (−98 % and −13 % are
/// 0.02 and 0.87 times as much), as ratios along a logarithmic axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    Shares,
    Ratios,
}

/// From how many times the smallest ratio to the largest a linear axis shows nothing of the
/// smaller.
const DECADE: f64 = 10.0;

impl Changes {
    /// For these changes, each a ratio less 1.
    fn over(changes: impl IntoIterator<Item = f64>) -> Self {
        let (least, most) = changes.into_iter().fold((1.0_f64, 1.0_f64), |(least, most), change| {
            let ratio = 1.0 + change;
            if ratio > 0.0 { (least.min(ratio), most.max(ratio)) } else { (least, most) }
        });
        if most / least >= DECADE { Self::Ratios } else { Self::Shares }
    }

    /// Where a change lies.
    fn at(self, change: f64) -> f64 {
        tidy(if self == Self::Ratios { 1.0 + change } else { change })
    }

    fn axis(self, of: &str) -> Axis {
        match self {
            Self::Shares => Axis::linear(format!("change of {of}"), Unit::Share),
            Self::Ratios => Axis::log("times as much (logarithmic)", Unit::Plain),
        }
    }

    /// The line of no difference.
    fn rule(self) -> Layer {
        Layer::Rule { name: "no difference".into(), upright: true, value: self.at(0.0) }
    }
}

/// What each comparison is worth, beside what was predicted.
pub fn comparisons(said: &Conclusion) -> Option<Plot> {
    let shown = &said.compared[..said.compared.len().min(EFFECTS)];
    let ends = |c: &Compared| [c.comparison.ratio.low, c.comparison.ratio.value, c.comparison.ratio.high];
    let known = shown.iter().filter(|c| is_known(&c.comparison.ratio));
    let changes = Changes::over(known.flat_map(ends).chain(shown.iter().filter_map(|c| c.predicted)));
    let (mut items, mut predicted) = (Vec::new(), Vec::new());
    let mut table = Table::new(
        "Comparisons",
        columns(["what", "response"], ["change, 95 % interval", "blocks", "p", "predicted", "smallest seen"]),
    );
    for (i, c) in (0u32..).zip(shown) {
        let (at, ratio) = (f64::from(i), &c.comparison.ratio);
        let seen = if c.comparison.seen() { "" } else { "; no difference seen" };
        // An interval that says nothing would make all others too small to see.
        if is_known(ratio) {
            items.push(Interval {
                at,
                low: changes.at(ratio.low),
                value: changes.at(ratio.value),
                high: changes.at(ratio.high),
                label: format!("{}\n{}: {}, n = {} blocks{seen}", c.what, c.response, percent_of(ratio), ratio.n),
            });
        }
        predicted.extend(c.predicted.map(|p| [changes.at(p), at]));
        table.push([
            Cell::from(&c.what),
            Cell::from(c.response.to_string()),
            Cell::figure(percent_of(ratio)),
            Cell::count(ratio.n as u64),
            Cell::figure(quantity::p_value(c.comparison.p)),
            Cell::or(c.predicted.and_then(visible), Cell::figure, "nothing was predicted"),
            Cell::or(visible(c.comparison.smallest_seen), Cell::figure, "there are too few blocks"),
        ]);
    }
    let names = shown.iter().map(|c| format!("{}: {}", c.what.trim_end_matches(','), c.response));
    let fewest = shown.iter().map(|c| c.comparison.ratio.n).min()?;
    let most = shown.iter().map(|c| c.comparison.ratio.n).max()?;
    let n = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    let note = not_drawn(said.compared.len() - shown.len(), shown.len() - items.len(), shown.len());
    Plot::new(
        "effects",
        "Effects with their 95 % intervals",
        format!(
            "Change within blocks; n = {n} blocks. Where an interval crosses the line, no difference was seen.{note}"
        ),
        (changes.axis("the response"), Axis::names("", names)),
        vec![
            changes.rule(),
            Layer::Intervals { name: "measured".into(), hue: Hue(0), items },
            Layer::dots("predicted", Hue(1), predicted),
        ],
    )
    .map(|p| p.with_table(table))
}

/// The name of a trial's row, by its number in the order of the run: the one that the run's tables
/// have.
fn row_of(number: usize) -> String {
    format!("trial-{number}")
}

/// One of the conclusion's charts over time: the `number`th of its plan.
fn chart(part: usize, number: usize, chart: &Chart) -> Option<Plot> {
    let lines = chart.lines.iter().enumerate().map(|(i, line)| {
        let points = line.at_ns.iter().zip(&line.values).map(|(at, value)| [at.0 as f64, tidy(*value)]).collect();
        let name = if line.name.is_empty() { "mean" } else { &line.name };
        Layer::line(format!("{name} (n = {})", line.n), Hue::nth(i), points)
    });
    let axes = (
        Axis::linear("time since the transfer began", Unit::Time).reaching(0.0),
        Axis::linear(label(chart.response), unit(chart.response)).reaching(0.0),
    );
    let id = format!("plan{}-chart{}", part + 1, number + 1);
    let caption = "means over the trials of a combination, in tenths of a second";
    Plot::new(&id, chart.title.clone(), caption, axes, lines.collect()).map(Plot::in_strips)
}

/// What a level is as a number, in the unit of its axis: `5ms`, `724`, `1%`, `10mbit`.
fn magnitude(level: &str) -> Option<(f64, Unit)> {
    let level = level.trim();
    // A number alone is of no unit, whatever it would be where a time or a rate is asked for.
    if let Ok(number) = level.parse::<f64>() {
        return number.is_finite().then_some((number, Unit::Plain));
    }
    if let Ok(time) = quantity::parse::duration(level) {
        return Some((time.0 as f64, Unit::Time));
    }
    if let Ok(share) = quantity::parse::share(level) {
        return Some((share, Unit::Share));
    }
    // `64K` is bytes to one setting and a rate to another: only what says that it is bits is a
    // rate.
    let rate = level.ends_with("bit").then(|| quantity::parse::bit_rate(level))?;
    rate.ok().map(|bits| (bits as f64, Unit::Rate))
}

/// The plots of one plan of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Plots {
    /// What the plan asks: its response over its combinations.
    pub response: Option<Plot>,
    /// How the trials spread, what each factor does, and what was measured over time.
    pub others: Vec<Plot>,
}

/// The plots of the study's plan number `part`, from 0, with those that its conclusion brings.
pub fn of_plan(part: usize, plan: &Plan, trials: &[Trial], seed: u64, said: &Conclusion) -> Plots {
    let combinations = analysis::combinations(plan);
    let view = View { part, plan, trials, seed, combinations: &combinations };
    let mut others: Vec<Plot> = [view.boxes(), view.main_effects(), view.heat()].into_iter().flatten().collect();
    let mut charts = said.charts.iter().filter(|chart| chart.plan == part).peekable();
    // The conclusion's charts show goodput by combination, or by direction.
    if charts.peek().is_none() {
        others.extend(view.series(Response::Goodput));
    }
    others.extend(charts.enumerate().filter_map(|(i, of)| chart(part, i, of)));
    others.extend([Response::RoundTrip, Response::ReceiveWindow].into_iter().filter_map(|what| view.series(what)));
    Plots { response: view.curve().or_else(|| view.blocks()), others }
}

/// One plan of a study, to be drawn.
struct View<'a> {
    part: usize,
    plan: &'a Plan,
    trials: &'a [Trial],
    seed: u64,
    combinations: &'a [Vec<usize>],
}

impl View<'_> {
    fn id(&self, what: &str) -> String {
        format!("plan{}-{what}", self.part + 1)
    }

    fn name(&self, levels: &[usize]) -> String {
        let all = self.plan.short_names().into_iter().zip(self.plan.label(levels));
        all.map(|(name, level)| format!("{name} {level}")).collect::<Vec<_>>().join(", ")
    }

    /// A name for an axis that is labelled by [`View::axis_label`]: the levels of the factors that
    /// vary, which differ where names of factors in front of them leave no room for the difference.
    fn tick(&self, levels: &[usize]) -> String {
        let varied = self.plan.factors.iter().zip(self.plan.label(levels)).filter(|(f, _)| f.levels.len() > 1);
        let words: Vec<String> = varied.map(|(_, level)| level).collect();
        if words.is_empty() { "all".into() } else { words.join(", ") }
    }

    fn axis_label(&self) -> String {
        let varied = self.plan.factors.iter().zip(self.plan.short_names()).filter(|(f, _)| f.levels.len() > 1);
        varied.map(|(_, name)| name).collect::<Vec<_>>().join(", ")
    }

    fn values(&self, levels: &[usize]) -> Vec<f64> {
        analysis::by_block(self.trials, self.part, levels, self.plan.response).into_values().collect()
    }

    /// The trials of a combination that count: value, and the name of its row.
    fn each_trial(&self, levels: &[usize]) -> Vec<(f64, String)> {
        let response = self.plan.response;
        (0..)
            .zip(self.trials)
            .filter(|(_, t)| t.part == self.part && t.counts() && t.levels == levels)
            .filter_map(|(number, t)| Some((t.response(response)?, row_of(number))))
            .collect()
    }

    fn estimate(&self, levels: &[usize]) -> Option<stats::Estimate> {
        analysis::mean(self.part, self.plan, self.trials, levels, self.plan.response, self.seed)
    }

    fn predicted(&self, levels: &[usize]) -> Option<f64> {
        crate::conclusion::prediction(self.plan, levels).map(|p| p.value)
    }

    fn blocks_note(&self) -> String {
        let counts: Vec<usize> = self.combinations.iter().map(|c| self.values(c).len()).collect();
        let (low, high) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        if low == high { format!("n = {low} trials each") } else { format!("n = {low} to {high} trials each") }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            "",
            columns(["levels"], ["mean", "95 % interval", "n", "predicted"])
                .into_iter()
                .chain(["block by block".into()]),
        );
        for levels in self.combinations {
            let figure = |value| Cell::figure(quantity(self.plan.response, value));
            let mut row = vec![Cell::from(self.name(levels))];
            let measured = response::quantity_of(self.plan.response, self.estimate(levels).as_ref());
            row.extend(measured.map(Cell::figure));
            row.push(Cell::or(self.predicted(levels), figure, "nothing was predicted"));
            let each: Vec<String> = self.values(levels).iter().map(|v| quantity(self.plan.response, *v)).collect();
            row.push(each.join(", ").into());
            table.push(row);
        }
        table
    }

    fn interval(&self, at: f64, levels: &[usize]) -> Option<Interval> {
        let e = self.estimate(levels)?;
        let [mean, between, n] = response::quantity_of(self.plan.response, Some(&e));
        let label = format!("{}\nmean {mean} ({between}), n = {n}", self.name(levels));
        Some(Interval { at, low: tidy(e.low), value: tidy(e.value), high: tidy(e.high), label })
    }

    /// Every trial, with the means of the combinations: nothing of it for many combinations.
    /// Between names there is nothing that a line could show.
    fn blocks(&self) -> Option<Plot> {
        if self.combinations.len() > NAMED {
            return None;
        }
        let (mut points, mut links) = (Vec::new(), Vec::new());
        let (mut items, mut predicted) = (Vec::new(), Vec::new());
        for (i, levels) in (0u32..).zip(self.combinations) {
            let at = f64::from(i);
            for (value, link) in self.each_trial(levels) {
                points.push([at, tidy(value)]);
                links.push(link);
            }
            items.extend(self.interval(at, levels));
            predicted.extend(self.predicted(levels).map(|p| [at, tidy(p)]));
        }
        let layers = vec![
            Layer::Dots { name: "trial".into(), hue: Hue::NEUTRAL, points, links },
            Layer::Intervals { name: "mean, 95 % interval".into(), hue: Hue(0), items },
            Layer::dots("predicted", Hue(1), predicted),
        ];
        let names = self.combinations.iter().map(|l| self.tick(l));
        Plot::new(
            &self.id("blocks"),
            format!("{}, trial by trial", self.plan.response),
            format!("Each dot is a trial; {}.", self.blocks_note()),
            (Axis::names(self.axis_label(), names), Axis::linear(label(self.plan.response), unit(self.plan.response))),
            layers,
        )
        .map(|p| p.with_table(self.table()))
    }

    /// The combinations in the order in which the first of them show most side by side: what is
    /// chosen by name (a congestion control) changes before what is set to a figure (a delay), the
    /// first factor first.
    fn side_by_side(&self) -> Vec<&Vec<usize>> {
        let figures = |f: &usize| self.plan.factors[*f].levels.iter().all(|l| magnitude(l).is_some());
        let (by_figure, by_name): (Vec<usize>, Vec<usize>) = (0..self.plan.factors.len()).partition(figures);
        let order: Vec<usize> = by_figure.into_iter().chain(by_name.into_iter().rev()).collect();
        let mut all: Vec<_> = self.combinations.iter().collect();
        all.sort_by_key(|levels| order.iter().map(|f| levels[*f]).collect::<Vec<_>>());
        all
    }

    /// The response along the factor with the most levels, where its levels are numbers: a line for
    /// each of the others.
    fn curve(&self) -> Option<Plot> {
        let swept = (0..self.plan.factors.len()).max_by_key(|i| self.plan.factors[*i].levels.len())?;
        let factor = &self.plan.factors[swept];
        let levels: Vec<(f64, Unit)> = factor.levels.iter().map(|l| magnitude(l)).collect::<Option<_>>()?;
        let (first, axis_unit) = *levels.first()?;
        if levels.len() < 3 || levels.iter().any(|l| l.1 != axis_unit) {
            return None;
        }
        let reach = levels.iter().fold((first, first), |r, l| (r.0.min(l.0), r.1.max(l.0)));
        let wide = reach.0 > 0.0 && reach.1 / reach.0 > 20.0;
        let mut curves: Vec<(Vec<usize>, Vec<&Vec<usize>>)> = Vec::new();
        for combination in self.combinations {
            let mut others = combination.clone();
            others.remove(swept);
            match curves.iter_mut().find(|c| c.0 == others) {
                Some(curve) => curve.1.push(combination),
                None => curves.push((others, vec![combination])),
            }
        }
        let left = curves.len().saturating_sub(LINES);
        let mut layers = Vec::new();
        let (mut points, mut links) = (Vec::new(), Vec::new());
        for (i, (_, combinations)) in curves.iter().take(LINES).enumerate() {
            let others = (0..self.plan.factors.len()).filter(|f| *f != swept);
            let short = self.plan.short_names();
            let named: Vec<String> = others
                .filter_map(|f| Some(format!("{} {}", short[f], self.plan.factors[f].levels.get(combinations[0][f])?)))
                .collect();
            let name = if named.is_empty() { "mean".to_owned() } else { named.join(", ") };
            let mut sorted: Vec<(f64, &[usize])> =
                combinations.iter().map(|c| (levels[c[swept]].0, c.as_slice())).collect();
            sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
            let line = |of: &dyn Fn(&[usize]) -> Option<f64>| -> Vec<[f64; 2]> {
                sorted.iter().filter_map(|(x, c)| Some([tidy(*x), tidy(of(c)?)])).collect()
            };
            let hue = Hue::nth(i);
            let predicted = line(&|c| self.predicted(c));
            layers.push(Layer::Line {
                name: format!("{name}: predicted"),
                hue,
                points: predicted,
                step: false,
                dashed: true,
            });
            let means = line(&|c| stats::mean(&self.values(c)));
            layers.push(Layer::line(name.clone(), hue, means));
            let items = sorted.iter().filter_map(|(x, c)| self.interval(tidy(*x), c)).collect();
            layers.push(Layer::Intervals { name, hue, items });
            for (x, c) in &sorted {
                for (value, link) in self.each_trial(c) {
                    points.push([tidy(*x), tidy(value)]);
                    links.push(link);
                }
            }
        }
        if points.len() <= DRAWN {
            layers.insert(0, Layer::Dots { name: "trial".into(), hue: Hue::NEUTRAL, points, links });
        }
        let x = if wide {
            Axis::log(format!("{} (logarithmic)", factor.name), axis_unit)
        } else {
            Axis::linear(factor.name.to_string(), axis_unit)
        };
        let note = if left > 0 {
            format!(" {left} more combinations of the other factors are in the table alone.")
        } else {
            String::new()
        };
        Plot::new(
            &self.id("curve"),
            format!("{} along {}", self.plan.response, factor.name),
            format!("Means with their 95 % intervals; {}.{note}", self.blocks_note()),
            (x, Axis::linear(label(self.plan.response), unit(self.plan.response)).reaching(0.0)),
            layers,
        )
        .map(|p| p.with_table(self.table()))
    }

    /// A box for each combination that has five trials.
    fn boxes(&self) -> Option<Plot> {
        let with: Vec<&Vec<usize>> = self.combinations.iter().filter(|c| self.values(c).len() >= 5).collect();
        if with.is_empty() || with.len() > NAMED * 2 {
            return None;
        }
        let items: Vec<Boxed> = (0u32..)
            .zip(&with)
            .filter_map(|(i, levels)| {
                let values = self.values(levels);
                let q = |share| stats::quantile(&values, share);
                let figures = [q(0.0)?, q(0.25)?, q(0.5)?, q(0.75)?, q(1.0)?];
                let words = figures.map(|f| quantity(self.plan.response, f));
                let label = format!(
                    "{}\nmin {}, quartiles {}, {}, {}, max {}; n = {}",
                    self.name(levels),
                    words[0],
                    words[1],
                    words[2],
                    words[3],
                    words[4],
                    values.len()
                );
                Some(Boxed { at: f64::from(i), figures: figures.map(tidy), label })
            })
            .collect();
        let names = with.iter().map(|l| format!("{} (n = {})", self.name(l), self.values(l).len()));
        Plot::new(
            &self.id("boxes"),
            "Spread of the trials",
            format!(
                "Box: the middle half of the trials, its line their median; whiskers: smallest and largest. {}.",
                self.blocks_note()
            ),
            (Axis::linear(label(self.plan.response), unit(self.plan.response)), Axis::names("", names)),
            vec![Layer::Boxes { name: String::new(), hue: Hue(0), items }],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_an_axis_all_read_differently() {
        let text = "repetitions = 2\n[factors]\n\"a.net.ipv4.tcp_timestamps\" = [1, 0]\n\"b.net.ipv4.tcp_timestamps\" = [1, 0]\n\
                    congestion = [\"cubic\", \"bbr\"]\n";
        let plan = crate::plan_file::parse("p.toml", text).unwrap();
        let combinations = analysis::combinations(&plan);
        let view = View { part: 0, plan: &plan, trials: &[], seed: 1, combinations: &combinations };
        let ticks: std::collections::BTreeSet<String> = combinations.iter().map(|c| view.tick(c)).collect();
        assert_eq!(ticks.len(), 8);
        assert!(ticks.contains("1, 0, cubic") && ticks.iter().all(|t| t.len() < 14), "{ticks:?}");
        assert_eq!(view.axis_label(), "a tcp_timestamps, b tcp_timestamps, congestion");
    }

    #[test]
    fn changes_that_span_decades_are_drawn_as_ratios() {
        assert_eq!(Changes::over([-0.13, -0.19, 0.02]), Changes::Shares);
        // 20 of 912 Mbit/s, and what was predicted.
        assert_eq!(Changes::over([-0.978, -0.98, -0.13]), Changes::Ratios);
        assert_eq!((Changes::Ratios.at(-0.978), Changes::Shares.at(-0.13)), (0.022, -0.13));
        // An interval that ends at nothing at all has no logarithm.
        assert_eq!(Changes::over([-1.0, 0.1]), Changes::Shares);
    }

    #[test]
    fn nothing_joins_levels_that_are_names() {
        let plan = "repetitions = 2\n[factors]\ncongestion = [\"reno\", \"cubic\", \"bbr\"]\n";
        let plan = crate::plan_file::parse("p.toml", plan).unwrap();
        let trials: Vec<Trial> =
            (0..2u32).flat_map(|block| (0..3).map(move |level| Trial::of_goodput((0, block), level, 1e8))).collect();
        let plots = of_plan(0, &plan, &trials, 1, &Conclusion::default());
        let response = plots.response.unwrap();
        assert!(response.layers.iter().any(|layer| matches!(layer, Layer::Dots { points, .. } if points.len() == 6)));
        assert!(!response.layers.iter().any(|layer| matches!(layer, Layer::Line { .. })), "{:?}", response.layers);
    }

    #[test]
    fn levels_that_are_numbers_are_distinguished_from_names() {
        assert_eq!(magnitude("12.7ms"), Some((12.7e6, Unit::Time)));
        assert_eq!(magnitude("724"), Some((724.0, Unit::Plain)));
        assert_eq!(magnitude("1 gbit"), Some((1e9, Unit::Rate)));
        assert_eq!(magnitude("5m"), Some((300e9, Unit::Time)));
        assert_eq!(magnitude("0.5%"), Some((0.005, Unit::Share)));
        assert_eq!(magnitude("64K"), None);
        assert_eq!(magnitude("4096 131072 67108864"), None);
        assert_eq!(magnitude("cubic"), None);
    }
}
