//! What each factor does, and two of them together.

use crate::analysis;
use crate::response::{is_known, percent_of, quantity};
use quantity::p_value;
use stats::{Effect, Estimate};

use super::{Changes, EFFECTS, View, not_drawn};
use paper::document::{Table, columns};
use paper::plot::{Axis, Cell, Hue, Interval, Layer, Plot, tidy};

impl View<'_> {
    /// Main effects and interactions of several factors.
    pub(super) fn main_effects(&self) -> Option<Plot> {
        if self.plan.factors.len() < 2 {
            return None;
        }
        let found = analysis::effects(self.part, self.plan, self.trials);
        let short = self.plan.short_names();
        let name = |of: &[(usize, usize)]| {
            let one = |&(factor, level): &(usize, usize)| {
                let f = &self.plan.factors[factor];
                format!("{} {} against {}", short[factor], f.levels[level], f.levels[0])
            };
            of.iter().map(one).collect::<Vec<_>>().join(" × ")
        };
        // An interval that says nothing would make all others too small to see.
        let effects: Vec<_> = found.effects.iter().map(|e| (e, e.size.map(f64::exp_m1))).collect();
        let known: Vec<_> = effects.iter().filter(|(_, size)| is_known(size)).collect();
        let shown = &known[..known.len().min(EFFECTS)];
        let changes = Changes::over(shown.iter().flat_map(|(_, size)| [size.low, size.value, size.high]));
        let (mut main, mut both) = (Vec::new(), Vec::new());
        for (i, (e, size)) in (0u32..).zip(shown) {
            let item = Interval {
                at: f64::from(i),
                low: changes.at(size.low),
                value: changes.at(size.value),
                high: changes.at(size.high),
                label: format!("{}: {}, p: {}, n = {} blocks", name(&e.of), percent_of(size), p_value(e.p), size.n),
            };
            if e.of.len() == 1 { main.push(item) } else { both.push(item) }
        }
        let mut table =
            Table::new("Effects", columns(["factors and levels"], ["change, 95 % interval", "p", "blocks"]));
        let row =
            |(e, size): &(&Effect, Estimate)| vec![name(&e.of), percent_of(size), p_value(e.p), size.n.to_string()];
        table.extend(effects.iter().map(row));
        let note = not_drawn(known.len() - shown.len(), effects.len() - known.len(), effects.len());
        Plot::new(
            &self.id("main-effects"),
            "Main effects and interactions",
            format!(
                "Change of {}, over all levels of the other factors, with 95 % intervals; n = {} complete blocks.{note}",
                self.plan.response,
                found.blocks
            ),
            (changes.axis(&self.plan.response.to_string()), Axis::names("", shown.iter().map(|(e, _)| name(&e.of)))),
            vec![
                changes.rule(),
                Layer::Intervals { name: "main effect".into(), hue: Hue(0), items: main },
                Layer::Intervals { name: "interaction".into(), hue: Hue(5), items: both },
            ],
        )
        .map(|plot| plot.with_table(table))
    }

    /// Means over the levels of two factors with three or more levels between them on one side.
    pub(super) fn heat(&self) -> Option<Plot> {
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
                let label = format!("{}\nmean {}, n = {n}", self.name(c), quantity(self.plan.response, *mean));
                Cell { x: [x - 0.48, x + 0.48], y: [y - 0.45, y + 0.45], shade: tidy(shade), label }
            })
            .collect();
        let words = |v: f64| quantity(self.plan.response, v);
        Plot::new(
            &self.id("heat"),
            format!("{} by {} and {}", self.plan.response, across.name, down.name),
            format!("Means, from {} (light) to {} (dark); {}.", words(least), words(most), self.blocks_note()),
            (
                Axis::names(across.name.to_string(), across.levels.clone()),
                Axis::names(down.name.to_string(), down.levels.clone()),
            ),
            vec![Layer::Heat { name: self.plan.response.to_string(), cells }],
        )
    }
}
