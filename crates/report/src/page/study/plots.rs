//! The plots of a study.

use std::collections::BTreeMap;

use record::Nanos;
use study::analysis;
use study::response::{self, percent, percent_of, quantity};
use study::{Conclusion, Plan, Point, Trial};

use crate::document::Table;
use crate::plot::{Axis, Boxed, Cell, Hue, Interval, Layer, Plot, Unit, tidy};

/// Combinations that are drawn with names of their own.
const NAMED: usize = 16;
/// Lines in a plot over time.
const LINES: usize = 6;
/// Effects that are drawn.
const EFFECTS: usize = 40;

fn unit(response: &str) -> Unit {
    match response::unit(response) {
        "bit/s" => Unit::Rate,
        "ns" => Unit::Time,
        "bytes" => Unit::Bytes,
        _ => Unit::Plain,
    }
}

fn label(response: &str) -> String {
    let unit = response::unit(response);
    match unit {
        // The ticks bear these.
        "bit/s" | "ns" | "bytes" => response.replace('_', " "),
        _ => format!("{} ({})", response.replace('_', " "), if unit == "1/s" { "a second" } else { unit }),
    }
}

/// What each comparison is worth, beside what was predicted.
pub(super) fn compared(said: &Conclusion) -> Option<Plot> {
    let shown = &said.compared[..said.compared.len().min(EFFECTS)];
    let (mut items, mut predicted) = (Vec::new(), Vec::new());
    let mut table = Table::new(
        "Comparisons",
        &["what", "response", "ratio less 1, 95 % interval", "blocks", "p", "predicted", "smallest that could be seen"],
    );
    for (i, c) in (0u32..).zip(shown) {
        let (at, ratio) = (f64::from(i), &c.comparison.ratio);
        let seen = if c.comparison.seen() { "" } else { "; no difference seen" };
        items.push(Interval {
            at,
            low: tidy(ratio.low),
            value: tidy(ratio.value),
            high: tidy(ratio.high),
            label: format!("{}\n{}: {}, n = {} blocks{seen}", c.what, c.response, percent_of(ratio), ratio.n),
        });
        predicted.extend(c.predicted.map(|p| [tidy(p), at]));
        table.rows.push(vec![
            c.what.clone(),
            c.response.clone(),
            percent_of(ratio),
            ratio.n.to_string(),
            format!("{:.4}", c.comparison.p),
            c.predicted.map_or_else(|| "—".into(), percent),
            percent(c.comparison.smallest_seen),
        ]);
    }
    let names = shown.iter().map(|c| format!("{}: {}", c.what.trim_end_matches(','), c.response)).collect();
    let fewest = shown.iter().map(|c| c.comparison.ratio.n).min()?;
    let most = shown.iter().map(|c| c.comparison.ratio.n).max()?;
    let n = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    let left = said.compared.len() - shown.len();
    let note = if left > 0 { format!(" The first {EFFECTS}; {left} more are not drawn.") } else { String::new() };
    Plot::new(
        "effects",
        "Effects with their 95 % intervals",
        format!("Ratio within blocks, less 1; n = {n} blocks. Where an interval crosses the line at zero, no difference was seen.{note}"),
        (Axis::linear("change of the response", Unit::Share), Axis::names("", names)),
        vec![
            Layer::Rule { name: "no difference".into(), upright: true, value: 0.0 },
            Layer::Intervals { name: "measured".into(), hue: Hue(0), items },
            Layer::Dots { name: "predicted".into(), hue: Hue(1), points: predicted },
        ],
    )
    .map(|p| p.with_table(table))
}

/// A number at the beginning of a level, with its unit: `5ms`, `724`, `1%`.
fn magnitude(level: &str) -> Option<(f64, Unit)> {
    let text = level.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let (scale, unit) = match text[end..].trim() {
        "" => (1.0, Unit::Plain),
        "%" => (0.01, Unit::Share),
        "ns" => (1.0, Unit::Time),
        "us" | "µs" => (1e3, Unit::Time),
        "ms" => (1e6, Unit::Time),
        "s" => (1e9, Unit::Time),
        "kbit" => (1e3, Unit::Rate),
        "mbit" => (1e6, Unit::Rate),
        "gbit" => (1e9, Unit::Rate),
        _ => return None,
    };
    Some((number * scale, unit))
}

/// One plan of a study, to be drawn.
pub(super) struct View<'a> {
    pub part: usize,
    pub plan: &'a Plan,
    pub trials: &'a [Trial],
    pub seed: u64,
    pub combinations: &'a [Vec<usize>],
}

impl View<'_> {
    fn id(&self, what: &str) -> String {
        format!("plan{}-{what}", self.part + 1)
    }

    fn name(&self, levels: &[usize]) -> String {
        let parts = self.plan.factors.iter().zip(self.plan.label(levels));
        let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
        parts.map(|(f, level)| format!("{} {level}", short(&f.name))).collect::<Vec<_>>().join(", ")
    }

    fn values(&self, levels: &[usize]) -> Vec<f64> {
        analysis::by_block(self.trials, self.part, levels, &self.plan.response).into_values().collect()
    }

    fn estimate(&self, levels: &[usize]) -> Option<stats::Estimate> {
        analysis::estimate(self.trials, self.part, levels, &self.plan.response, self.seed)
    }

    fn predicted(&self, levels: &[usize]) -> Option<f64> {
        study::prediction(self.plan, levels)
    }

    fn blocks_note(&self) -> String {
        let counts: Vec<usize> = self.combinations.iter().map(|c| self.values(c).len()).collect();
        let (low, high) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        if low == high { format!("n = {low} trials each") } else { format!("n = {low} to {high} trials each") }
    }

    fn table(&self) -> Table {
        let mut table = Table::new("", &["levels", "mean", "95 % interval", "n", "predicted", "block by block"]);
        for levels in self.combinations {
            let mut row = vec![self.name(levels)];
            row.extend(response::quantity_of(&self.plan.response, self.estimate(levels).as_ref()));
            row.push(self.predicted(levels).map_or_else(|| "—".into(), |p| quantity(&self.plan.response, p)));
            let each: Vec<String> = self.values(levels).iter().map(|v| quantity(&self.plan.response, *v)).collect();
            row.push(each.join(", "));
            table.rows.push(row);
        }
        table
    }

    fn interval(&self, at: f64, levels: &[usize]) -> Option<Interval> {
        let e = self.estimate(levels)?;
        let [mean, between, n] = response::quantity_of(&self.plan.response, Some(&e));
        let label = format!("{}\nmean {mean} ({between}), n = {n}", self.name(levels));
        Some(Interval { at, low: tidy(e.low), value: tidy(e.value), high: tidy(e.high), label })
    }

    /// Every trial, joined within its block, with the means of the combinations: nothing of it for many combinations.
    pub fn blocks(&self) -> Option<Plot> {
        if self.combinations.len() > NAMED {
            return None;
        }
        let mut lines: BTreeMap<u32, Vec<[f64; 2]>> = BTreeMap::new();
        let (mut items, mut predicted) = (Vec::new(), Vec::new());
        for (i, levels) in (0u32..).zip(self.combinations) {
            let at = f64::from(i);
            for (block, value) in analysis::by_block(self.trials, self.part, levels, &self.plan.response) {
                lines.entry(block).or_default().push([at, tidy(value)]);
            }
            items.extend(self.interval(at, levels));
            predicted.extend(self.predicted(levels).map(|p| [at, tidy(p)]));
        }
        let points: Vec<[f64; 2]> = lines.values().flatten().copied().collect();
        let mut layers: Vec<Layer> = lines.into_values().map(|points| Layer::line("", Hue::NEUTRAL, points)).collect();
        layers.push(Layer::Dots { name: "trial".into(), hue: Hue::NEUTRAL, points });
        layers.push(Layer::Intervals { name: "mean, 95 % interval".into(), hue: Hue(0), items });
        layers.push(Layer::Dots { name: "predicted".into(), hue: Hue(1), points: predicted });
        let names = self.combinations.iter().map(|l| self.name(l)).collect();
        Plot::new(
            &self.id("blocks"),
            format!("{}, block by block", self.plan.response.replace('_', " ")),
            format!("Each thin line joins the trials of one block; {}.", self.blocks_note()),
            (Axis::names("", names), Axis::linear(label(&self.plan.response), unit(&self.plan.response))),
            layers,
        )
        .map(|p| p.with_table(self.table()))
    }

    /// The combinations in the order in which the first of them show most side by side: what is chosen by name (a congestion
    /// control) changes before what is set to a figure (a delay), the first factor first.
    fn side_by_side(&self) -> Vec<&Vec<usize>> {
        let figures = |f: &usize| self.plan.factors[*f].levels.iter().all(|l| magnitude(l).is_some());
        let (by_figure, by_name): (Vec<usize>, Vec<usize>) = (0..self.plan.factors.len()).partition(figures);
        let order: Vec<usize> = by_figure.into_iter().chain(by_name.into_iter().rev()).collect();
        let mut all: Vec<_> = self.combinations.iter().collect();
        all.sort_by_key(|levels| order.iter().map(|f| levels[*f]).collect::<Vec<_>>());
        all
    }

    /// The response along the factor with the most levels, where its levels are numbers: a line for each of the others.
    pub fn curve(&self) -> Option<Plot> {
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
        for (i, (_, combinations)) in curves.iter().take(LINES).enumerate() {
            let others = (0..self.plan.factors.len()).filter(|f| *f != swept);
            let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
            let named: Vec<String> = others
                .map(|f| (&self.plan.factors[f], combinations[0][f]))
                .filter_map(|(f, level)| Some(format!("{} {}", short(&f.name), f.levels.get(level)?)))
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
        }
        let x = if wide {
            Axis::log(format!("{} (logarithmic)", factor.name), axis_unit)
        } else {
            Axis::linear(factor.name.clone(), axis_unit)
        };
        let note = if left > 0 {
            format!(" {left} more combinations of the other factors are in the table alone.")
        } else {
            String::new()
        };
        Plot::new(
            &self.id("curve"),
            format!("{} along {}", self.plan.response.replace('_', " "), factor.name),
            format!("Means with their 95 % intervals; {}.{note}", self.blocks_note()),
            (x, Axis::linear(label(&self.plan.response), unit(&self.plan.response)).reaching(0.0)),
            layers,
        )
        .map(|p| p.with_table(self.table()))
    }

    /// A box for each combination that has five trials.
    pub fn boxes(&self) -> Option<Plot> {
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
                let words = figures.map(|f| quantity(&self.plan.response, f));
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
        let names = with.iter().map(|l| format!("{} (n = {})", self.name(l), self.values(l).len())).collect();
        Plot::new(
            &self.id("boxes"),
            "Spread of the trials",
            format!(
                "Box: the middle half of the trials, its line their median; whiskers: smallest and largest. {}.",
                self.blocks_note()
            ),
            (Axis::linear(label(&self.plan.response), unit(&self.plan.response)), Axis::names("", names)),
            vec![Layer::Boxes { name: String::new(), hue: Hue(0), items }],
        )
    }

    /// Main effects and interactions of several factors.
    pub fn main_effects(&self) -> Option<Plot> {
        if self.plan.factors.len() < 2 {
            return None;
        }
        let found = analysis::effects(self.part, self.plan, self.trials);
        let name = |of: &[(usize, usize)]| {
            let one = |&(factor, level): &(usize, usize)| {
                let f = &self.plan.factors[factor];
                format!("{} {} against {}", f.name.rsplit('.').next().unwrap_or(&f.name), f.levels[level], f.levels[0])
            };
            of.iter().map(one).collect::<Vec<_>>().join(" × ")
        };
        let shown = &found.effects[..found.effects.len().min(EFFECTS)];
        let (mut main, mut both) = (Vec::new(), Vec::new());
        for (i, e) in (0u32..).zip(shown) {
            let size = e.size.map(f64::exp_m1);
            let label = format!("{}: {}, p = {:.4}, n = {} blocks", name(&e.of), percent_of(&size), e.p, size.n);
            let item = Interval {
                at: f64::from(i),
                low: tidy(size.low),
                value: tidy(size.value),
                high: tidy(size.high),
                label,
            };
            if e.of.len() == 1 { main.push(item) } else { both.push(item) }
        }
        let left = found.effects.len() - shown.len();
        let note = if left > 0 { format!(" The first {EFFECTS}; {left} more are not drawn.") } else { String::new() };
        Plot::new(
            &self.id("main-effects"),
            "Main effects and interactions",
            format!(
                "Change of {} as a share, over all levels of the other factors, with 95 % intervals; n = {} complete blocks.{note}",
                self.plan.response.replace('_', " "),
                found.blocks
            ),
            (Axis::linear("change", Unit::Share), Axis::names("", shown.iter().map(|e| name(&e.of)).collect())),
            vec![
                Layer::Rule { name: "no effect".into(), upright: true, value: 0.0 },
                Layer::Intervals { name: "main effect".into(), hue: Hue(0), items: main },
                Layer::Intervals { name: "interaction".into(), hue: Hue(5), items: both },
            ],
        )
    }

    /// Means over the levels of two factors with three or more levels between them on one side.
    pub fn heat(&self) -> Option<Plot> {
        let [across, down] = self.plan.factors.as_slice() else { return None };
        if across.levels.len().max(down.levels.len()) < 3 {
            return None;
        }
        let means: Vec<(&Vec<usize>, f64, usize)> = self
            .combinations
            .iter()
            .filter_map(|c| Some((c, stats::mean(&self.values(c))?, self.values(c).len())))
            .collect();
        let least = means.iter().map(|m| m.1).fold(f64::INFINITY, f64::min);
        let most = means.iter().map(|m| m.1).fold(f64::NEG_INFINITY, f64::max);
        let cells = means
            .iter()
            .map(|(c, mean, n)| {
                let [x, y] = [c[0] as f64, c[1] as f64];
                let shade = if most > least { (mean - least) / (most - least) } else { 0.5 };
                let label = format!("{}\nmean {}, n = {n}", self.name(c), quantity(&self.plan.response, *mean));
                Cell { x: [x - 0.48, x + 0.48], y: [y - 0.45, y + 0.45], shade: tidy(shade), label }
            })
            .collect();
        let words = |v: f64| quantity(&self.plan.response, v);
        Plot::new(
            &self.id("heat"),
            format!("{} by {} and {}", self.plan.response.replace('_', " "), across.name, down.name),
            format!("Means, from {} (light) to {} (dark); {}.", words(least), words(most), self.blocks_note()),
            (
                Axis::names(across.name.clone(), across.levels.clone()),
                Axis::names(down.name.clone(), down.levels.clone()),
            ),
            vec![Layer::Heat { name: self.plan.response.clone(), cells }],
        )
    }

    /// What was measured over time, averaged over the trials of each combination.
    pub fn series(&self, what: &str) -> Option<Plot> {
        let (title, axis, of): (_, _, fn(&Point) -> f64) = match what {
            "goodput" => {
                ("Goodput over time", Axis::linear("goodput", Unit::Rate).reaching(0.0), |p| p.bits_per_second)
            }
            "round-trip" => {
                ("Round trip over time", Axis::linear("TCP's smoothed round trip", Unit::Time).reaching(0.0), |p| {
                    p.srtt_ns as f64
                })
            }
            _ => ("Receive window over time", Axis::linear("window offered", Unit::Bytes).reaching(0.0), |p| {
                p.receive_window_bytes as f64
            }),
        };
        let mut layers = Vec::new();
        let (mut drawn, mut left, mut counts, mut warm_up) = (0, 0, (usize::MAX, 0), 0u64);
        for levels in self.side_by_side() {
            // Slots of a tenth of a second, as they are measured; the mean is over the trials that have the slot.
            let mut slots: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
            let trials: Vec<&Trial> =
                analysis::of(self.trials, self.part, levels).filter(|t| !t.series.is_empty()).collect();
            for point in trials.iter().flat_map(|t| &t.series) {
                let value = of(point);
                // Zero says that the kernel did not tell.
                if value > 0.0 || what == "goodput" {
                    let slot = slots.entry(point.at_ns / 100_000_000).or_default();
                    *slot = (slot.0 + value, slot.1 + 1.0);
                }
                if point.warm_up {
                    warm_up = warm_up.max(point.at_ns);
                }
            }
            if slots.is_empty() {
                continue;
            }
            if drawn == LINES {
                left += 1;
                continue;
            }
            counts = (counts.0.min(trials.len()), counts.1.max(trials.len()));
            // A slot that only some trials reached would make a jump that is none.
            let full = slots.values().map(|s| s.1).fold(0.0, f64::max);
            let points: Vec<[f64; 2]> = slots
                .into_iter()
                .filter(|(_, s)| s.1 >= full / 2.0)
                .map(|(slot, s)| [slot as f64 * 1e8, tidy(s.0 / s.1)])
                .collect();
            let stride = points.len().div_ceil(400).max(1);
            let points = points.chunks(stride).map(|c| c[c.len() - 1]).collect();
            layers.push(Layer::line(self.name(levels), Hue::nth(drawn), points));
            drawn += 1;
        }
        if warm_up > 0 {
            layers.push(Layer::Rule { name: "end of the warm-up".into(), upright: true, value: warm_up as f64 });
        }
        let note = if left > 0 { format!(" {left} more combinations are not drawn.") } else { String::new() };
        let uncounted =
            if warm_up > 0 { format!("; the first {} do not count", Nanos(warm_up)) } else { String::new() };
        let n = if counts.0 == counts.1 { counts.0.to_string() } else { format!("{} to {}", counts.0, counts.1) };
        Plot::new(
            &self.id(what),
            title,
            format!(
                "Mean over the trials of a combination, n = {n} trials each, in tenths of a second{uncounted}.{note}",
            ),
            (Axis::linear("time since the transfer began", Unit::Time).reaching(0.0), axis),
            layers,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_numbers_are_told_from_names() {
        assert_eq!(magnitude("12.7ms"), Some((12.7e6, Unit::Time)));
        assert_eq!(magnitude("724"), Some((724.0, Unit::Plain)));
        assert_eq!(magnitude("1 gbit"), Some((1e9, Unit::Rate)));
        assert_eq!(magnitude("4096 131072 67108864"), None);
        assert_eq!(magnitude("cubic"), None);
    }
}
