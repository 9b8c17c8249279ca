//! Two studies side by side.

use quantity::{count, counted};
use study::between::{Between, Row};
use study::response::{is_known, percent_of, quantity, visible};

use crate::document::{Block, Document, Section, Table};
use crate::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// Differences in the verdict, and rows of the plot.
const FIRST: usize = 5;
const DRAWN: usize = 40;

fn place(row: &Row) -> String {
    format!("{}, {}", row.plan, row.labels.join(", "))
}

/// What changed from the first study to the second, by their names.
pub fn document(names: [&str; 2], between: &Between) -> Document {
    let mut seen: Vec<&Row> = between.rows.iter().filter(|row| row.seen() && is_known(&row.ratio)).collect();
    seen.sort_by(|a, b| b.ratio.value.ln_1p().abs().total_cmp(&a.ratio.value.ln_1p().abs()));
    let n = counted(between.rows.len() as u64, "combination");
    let mut verdict = Vec::new();
    if between.rows.is_empty() {
        verdict.push("The two studies have no combination with enough trials in common.".into());
    } else if seen.is_empty() {
        let widest = between.rows.iter().map(|row| row.ratio.high).fold(0.0, f64::max);
        let reach = visible(widest).map(|widest| format!("; intervals reach up to {widest}")).unwrap_or_default();
        verdict.push(format!("No difference seen in {n} of both studies{reach}."));
    } else {
        verdict.push(format!("{} of {n} differ between the studies.", count(seen.len() as u64)));
        verdict.extend(seen.iter().take(FIRST).map(|row| {
            let [a, b] = [row.first, row.second].map(|value| quantity(&row.response, value));
            format!(
                "{}: {} {} ({a} in {}, {b} in {}).",
                place(row),
                percent_of(&row.ratio),
                row.response,
                names[0],
                names[1]
            )
        }));
    }
    let mut warnings: Vec<String> =
        between.differences.iter().map(|text| format!("The studies differ in {text}.")).collect();
    if between.unmatched > 0 {
        warnings.push(format!(
            "{} in only one of the studies, or with too few trials in one, are not compared.",
            counted(between.unmatched as u64, "combination")
        ));
    }
    let mut section = Section::new("What changed");
    section.plot(plot(between));
    let mut table = Table::new("", &["where", "response", names[0], names[1], "change", "trials"]);
    for row in &between.rows {
        table.rows.push(vec![
            place(row),
            row.response.clone(),
            quantity(&row.response, row.first),
            quantity(&row.response, row.second),
            percent_of(&row.ratio),
            format!("{} and {}", row.trials[0], row.trials[1]),
        ]);
    }
    section.table(table);
    section.blocks.push(Block::List(vec![
        "Trials of two studies are no pairs: whatever changed between them is in the differences, not the setting alone.".into(),
        "All intervals hold at the same time in 95 % of comparisons (Bonferroni); means are geometric.".into(),
    ]));
    Document {
        title: format!("{} against {}", names[1], names[0]),
        about: format!("Two studies side by side: {n} of both."),
        verdict,
        warnings,
        sections: vec![section],
    }
}

fn plot(between: &Between) -> Option<Plot> {
    let known: Vec<&Row> = between.rows.iter().filter(|row| is_known(&row.ratio)).take(DRAWN).collect();
    let items = (0u32..).zip(&known).map(|(i, row)| Interval {
        at: f64::from(i),
        low: tidy(row.ratio.low),
        value: tidy(row.ratio.value),
        high: tidy(row.ratio.high),
        label: format!("{}\n{}", place(row), percent_of(&row.ratio)),
    });
    let layers = vec![
        Layer::Rule { name: "no difference".into(), upright: true, value: 0.0 },
        Layer::Intervals { name: "measured".into(), hue: Hue(0), items: items.collect() },
    ];
    let names = known.iter().map(|row| place(row)).collect();
    let left = between.rows.len() - known.len();
    let note = if left > 0 { format!(" {left} more are not drawn.") } else { String::new() };
    let caption = format!("The second study over the first, less 1, with intervals.{note}");
    let axes = (Axis::linear("change of the response", Unit::Share), Axis::names("", names));
    Plot::new("between", "Changes with their intervals", caption, axes, layers)
}
