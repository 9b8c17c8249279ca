//! Several traces of each side as a document.

use stats::Quantile;
use summary::between::{Figure, Measure, Runs, Several};

use super::words::{self, interval, longer, time};
use paper::document::{Document, Section, Table};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// The comparison as a document.
pub fn document(several: &Several) -> Document {
    Document {
        title: format!("{} against {}", several.names[1], several.names[0]),
        about: "Several traces of each side.".into(),
        verdict: words::of_several(several),
        warnings: several.unlike.iter().map(words::warning).collect(),
        sections: several.kinds.iter().map(|runs| section(several, runs)).collect(),
    }
}

fn section(several: &Several, runs: &Runs) -> Section {
    let mut section = Section::new(runs.kind.title());
    section.plot(plot(several, runs));
    let [first, second] = &several.names;
    let spreads = several.names.each_ref().map(|name| format!("run to run in {name}"));
    let head = |of| [of, "figure", first, second, "change", "interval", &spreads[0], &spreads[1], "seen"];
    let mut table = Table::new("What changed, each run one value", &head("leg"));
    table.rows.extend(runs.figures.iter().map(|f| row(f.leg.into(), f)));
    section.table(table);
    section.say(
        "Values are geometric means over the runs of a side. The change is by Welch's test of their logarithms: the intervals of all figures of \
         the total hold together in 95 % of comparisons. Run to run is the deviation within a side.",
    );
    if !runs.labels.is_empty() {
        let mut table = Table::new("By method and path, each run one value", &head("request"));
        for label in &runs.labels {
            let n = label.n.each_ref().map(|side| quantity::count(side.iter().sum()));
            let name = format!("{}, n = {} / {}", label.label, n[0], n[1]);
            if label.figures.is_empty() {
                let mut few = vec![name.clone(), "too few".into()];
                few.resize(9, "—".into());
                table.rows.push(few);
            }
            table.rows.extend(label.figures.iter().map(|f| row(name.clone(), f)));
        }
        section.table(table);
        section.say(
            "Compared are the methods and paths with the most requests, at most 20, that every run has. The intervals of all of them hold together in \
             95 % of comparisons.",
        );
    }
    let total = runs.kind.legs()[runs.kind.total()].name;
    let figures: Vec<&Figure> = runs.figures.iter().filter(|f| f.leg == total).collect();
    let mut head = vec!["run".to_owned(), "n".into()];
    head.extend(figures.iter().map(|f| format!("{} {}", f.leg, f.measure)));
    let mut each = Table { title: "Each run".into(), head, ..Table::default() };
    for (side, names) in several.runs.iter().enumerate() {
        for (i, name) in names.iter().enumerate() {
            let mut row = vec![name.clone(), quantity::count(runs.n[side][i])];
            row.extend(figures.iter().map(|f| time(f.runs.values[side][i])));
            each.rows.push(row);
        }
    }
    section.table(each);
    section
}

fn row(name: String, f: &Figure) -> Vec<String> {
    let spread = f.runs.spread().map(|spread| spread.map_or_else(|| "—".into(), quantity::percent));
    let [first, second] = f.change.values.map(time);
    let [of_first, of_second] = spread;
    vec![
        name,
        f.measure.to_string(),
        first,
        second,
        f.change.by.map_or_else(|| "—".into(), |by| longer(Some(1.0 + by.value))),
        f.change.by.as_ref().map_or_else(|| "—".into(), interval),
        of_first,
        of_second,
        if f.change.is_seen() { "yes" } else { "no" }.into(),
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
        (Axis::linear(total, Unit::Time).reaching(0.0), Axis::names("", names)),
        layers,
    )
}
