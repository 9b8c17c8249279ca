//! Several traces of each side as a document.

use stats::Quantile;
use summary::between::{Figure, Measure, Runs, Several};

use super::show::{seen, time_cell};
use super::words::{self, interval, longer, time};
use crate::page::TOO_FEW;
use paper::document::{Cell, Column, Document, Row, Section, Table};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// The comparison as a document.
pub fn document(several: &Several) -> Document {
    let mut kinds: Vec<&Runs> = several.kinds.iter().collect();
    kinds.sort_by_key(|runs| words::comes_later(runs.kind));
    Document {
        title: format!("{} against {}", several.names[1], several.names[0]).into(),
        about: "Several traces of each side.".into(),
        verdict: words::of_several(several),
        warnings: words::warnings(&several.unlike),
        sections: kinds.into_iter().map(|runs| section(several, runs)).collect(),
        ..Document::default()
    }
}

fn section(several: &Several, runs: &Runs) -> Section {
    let mut section = Section::new(runs.kind.title());
    section.plot(plot(several, runs));
    let mut table = Table::new("What changed, each run one value", columns(several, "leg"));
    table.extend(runs.figures.iter().map(|f| row(f.leg.name(), f)));
    section.table(table);
    section.say(
        "Values are geometric means over the runs of a side. The change is by Welch's test of their logarithms: the intervals of all figures of \
         the total hold together in 95 % of comparisons. Run to run is the deviation within a side.",
    );
    if !runs.labels.is_empty() {
        let mut table = Table::new("By method and path, each run one value", columns(several, "request"));
        for label in &runs.labels {
            let n = label.n.each_ref().map(|side| quantity::count(side.iter().sum()));
            let name = format!("{}, n = {} / {}", label.label, n[0], n[1]);
            if label.figures.is_empty() {
                let mut few = vec![Cell::from(&name), "too few".into()];
                few.resize(table.columns.len(), Cell::absent(TOO_FEW));
                table.push(few);
            }
            table.extend(label.figures.iter().map(|f| row(&name, f)));
        }
        section.table(table);
        section.say(
            "Compared are the methods and paths with the most requests, at most 20, that every run has. The intervals of all of them hold together in \
             95 % of comparisons.",
        );
    }
    let total = runs.kind.legs()[runs.kind.total()].name;
    let figures: Vec<&Figure> = runs.figures.iter().filter(|f| f.leg == total).collect();
    let of_total = figures.iter().map(|f| Column::figures(format!("{} {}", f.leg, f.measure)));
    let columns = [Column::text("run"), Column::figures("n")].into_iter().chain(of_total);
    let mut each = Table::new("Each run", columns);
    for (side, names) in several.runs.iter().enumerate() {
        for (i, name) in names.iter().enumerate() {
            let cells = [Cell::from(name), Cell::count(runs.n[side][i])];
            each.push(Row::of(cells.into_iter().chain(figures.iter().map(|f| time_cell(f.runs.values[side][i])))));
        }
    }
    section.table(each);
    section
}

/// What [`row`] fills.
fn columns(several: &Several, of: &str) -> [Column; 9] {
    let [first, second] = several.names.each_ref().map(Column::figures);
    let [of_first, of_second] =
        several.names.each_ref().map(|name| Column::figures(format!("run to run in {name}")).spare(0));
    let [change, interval] = ["change", "interval"].map(Column::figures);
    [Column::text(of), "figure".into(), first, second, change, interval, of_first, of_second, "seen".into()]
}

fn row(name: &str, f: &Figure) -> [Cell; 9] {
    const ZERO: &str = "a value is 0";
    let [of_first, of_second] = f.runs.spread().map(|spread| Cell::or(spread, Cell::share, ZERO));
    let [first, second] = f.change.values.map(time_cell);
    [
        name.into(),
        f.measure.to_string().into(),
        first,
        second,
        Cell::or(f.change.by, |by| Cell::figure(longer(Some(1.0 + by.value))), ZERO),
        Cell::or(f.change.by, |by| Cell::figure(interval(&by)), ZERO),
        of_first,
        of_second,
        seen(f.change.is_seen()),
    ]
}

/// The total's quantiles of each run.
fn plot(several: &Several, runs: &Runs) -> Option<Plot> {
    let total = runs.kind.legs()[runs.kind.total()].name;
    let of = |quantile| runs.figures.iter().find(|f| f.leg == total && f.measure == Measure::Quantile(quantile));
    let middle = of(Quantile::P50)?;
    let high = of(Quantile::P90).unwrap_or(middle);
    let (mut names, mut layers) = (Vec::new(), Vec::new());
    for (side, of_side) in several.runs.iter().enumerate() {
        let mut items = Vec::new();
        for (i, name) in of_side.iter().enumerate() {
            let (p50, p90) = (middle.runs.values[side][i], high.runs.values[side][i]);
            let label = format!("{name}: p50 {}, p90 {}", time(p50), time(p90));
            items.push(Interval { at: names.len() as f64, low: tidy(p50), value: tidy(p50), high: tidy(p90), label });
            names.push(name.clone());
        }
        layers.push(Layer::Intervals { name: several.names[side].clone(), hue: Hue(side as u8), items });
    }
    Plot::new(
        &format!("{}-runs", runs.kind.key()),
        "Each run",
        format!("The point is p50 of {}s, the line reaches to p90.", runs.kind.thing()),
        (Axis::sizes(total.name(), Unit::Time), Axis::names("", names)),
        layers,
    )
}
