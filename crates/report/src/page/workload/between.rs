//! Two runs of the same workload side by side; [`traffic::between`] compares them.

use quantity::{bit_rate, per_second, percent};
use record::Nanos;
use stats::Estimate;
use traffic::between::{Between, Measure, Row, Withheld};

use crate::view::capital;
use paper::document::{Cell, Column, Document, Section, Table, Text, clauses, texts};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// A figure's value.
fn text(row: &Row, value: f64) -> String {
    match row.measure {
        Measure::Time => Nanos(value.max(0.0).round() as u64).to_string(),
        Measure::BitRate => bit_rate(value),
        Measure::Rate => per_second(value),
        Measure::Share => percent(value),
    }
}

/// A difference of its values, with its sign.
fn signed(row: &Row, value: f64) -> String {
    format!("{}{}", if value < 0.0 { "−" } else { "+" }, text(row, value.abs()))
}

/// A difference with its interval.
fn interval(row: &Row, e: &Estimate) -> String {
    format!("{} [{}, {}]", signed(row, e.value), signed(row, e.low), signed(row, e.high))
}

/// `12 × as much` or `1/12 of it` where one value is ten times the other or more; nothing else, as
/// the difference says it.
fn times(row: &Row) -> Option<String> {
    let ratio = row.change.ratio().filter(|ratio| *ratio > 0.0)?;
    match ratio {
        ratio if ratio >= 10.0 => Some(format!("{} as much", quantity::times(ratio))),
        ratio if ratio <= 0.1 => Some(format!("1/{} of it", quantity::factor(1.0 / ratio))),
        _ => None,
    }
}

/// What changed from the first run to the second, by their names.
pub fn document(names: [&str; 2], between: &Between) -> Document {
    let [first_name, second_name] = names;
    let mut seen: Vec<&Row> = between.rows.iter().filter(|row| row.change.is_seen()).collect();
    seen.sort_by(|a, b| b.change.size().total_cmp(&a.change.size()));
    let judged: Vec<(&Row, Estimate)> = between.rows.iter().filter_map(|row| Some((row, row.change.by?))).collect();
    let sentence = |row: &&Row| {
        let [first, second] = row.change.values.map(|value| text(row, value));
        let change = [times(row), row.change.by.as_ref().map(|e| interval(row, e))];
        let change: Vec<String> = change.into_iter().flatten().collect();
        format!(
            "{}: {first} in {first_name} → {second} in {second_name}, {}.",
            capital(&row.figure),
            change.join(" or ")
        )
    };
    let mut verdict: Vec<String> = seen.iter().map(sentence).collect();
    if judged.is_empty() {
        verdict.push("The runs are too short for intervals, so no difference can be claimed or excluded.".into());
    } else if seen.is_empty() {
        let reach: Vec<String> = judged.iter().map(|(row, e)| format!("{} {}", row.figure, interval(row, e))).collect();
        verdict.push(format!("No difference between {first_name} and {second_name} is seen: {}.", reach.join("; ")));
    }
    let mut warnings = texts(between.differences.iter().map(|differing| format!("The runs differ in {differing}.")));
    warnings.push(
        Text::from("There is one run of each: the intervals hold what varied within the runs, not what varies from run to run. ")
            .and(Text::code("wirelapse study"))
            .and(" repeats runs."),
    );
    let mut section = Section::new("What changed");
    section.plot(plot(between));
    let figures = [names[0], names[1], "difference"].map(Column::figures);
    let mut table = Table::new("", [Column::text("figure")].into_iter().chain(figures));
    for row in &between.rows {
        let difference = match (&row.change.by, row.withheld) {
            (Some(by), _) => interval(row, by),
            (None, why) => format!("— ({})", why.map_or_else(String::new, Withheld::words)),
        };
        let [first, second] = row.change.values.map(|value| Cell::figure(text(row, value)));
        table.push([Cell::from(&row.figure), first, second, Cell::figure(difference)]);
    }
    section.table(table);
    section.say(
        "Second less first. All intervals hold at the same time in 95 % of comparisons (Bonferroni); stretches of a run are drawn whole, because \
         neighbouring values are alike.",
    );
    Document {
        title: format!("{} against {}", names[1], names[0]).into(),
        about: format!("Two runs of {} side by side.", between.workload),
        verdict: clauses(verdict),
        warnings,
        sections: vec![section],
        ..Document::default()
    }
}

/// Differences as shares of the first run's figure: figures of different units stand on one axis.
fn plot(between: &Between) -> Option<Plot> {
    let shown: Vec<(&Row, Estimate)> = between
        .rows
        .iter()
        .filter(|row| row.change.values[0] > 0.0)
        .filter_map(|row| Some((row, row.change.by?)))
        .collect();
    let items = (0u32..).zip(&shown).map(|(i, (row, e))| Interval {
        at: f64::from(i),
        low: tidy(e.low / row.change.values[0]),
        value: tidy(e.value / row.change.values[0]),
        high: tidy(e.high / row.change.values[0]),
        label: format!("{}\n{}", row.figure, interval(row, e)),
    });
    let layers = vec![
        Layer::Rule { name: "no difference".into(), upright: true, value: 0.0 },
        Layer::Intervals { name: "measured".into(), hue: Hue(0), items: items.collect() },
    ];
    let names: Vec<String> = shown.iter().map(|(row, _)| row.figure.clone()).collect();
    let caption = "The second run less the first, as a share of the first, with intervals.";
    let axes = (Axis::linear("difference", Unit::Share), Axis::names("", names));
    Plot::new("between", "Differences with their intervals", caption, axes, layers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::{Change, Scale};
    use stats::Judgement;
    use traffic::Workload;

    fn row(figure: &str, values: [f64; 2], error: f64) -> Row {
        let by = Judgement::ALONE.around(values[1] - values[0], error, 20);
        let change = Change { by: Some(by), ..Change::without_interval(values, Scale::Difference) };
        Row { figure: figure.into(), measure: Measure::Time, change, withheld: None }
    }

    fn said(rows: Vec<Row>) -> Vec<String> {
        document(["A", "B"], &Between { workload: Workload::Rr, rows, differences: Vec::new() })
            .verdict
            .into_iter()
            .map(|clause| clause.text.to_string())
            .collect()
    }

    #[test]
    fn the_largest_change_comes_first_in_times_where_it_spans_decades() {
        let rows = vec![row("mean latency", [1e6, 1.2e6], 1e4), row("median latency", [43.7e6, 38_600.0], 1e4)];
        let verdict = said(rows);
        assert!(
            verdict[0].starts_with("Median latency: 43.7 ms in A → 38.6 µs in B, 1/1,100 of it or −"),
            "{verdict:?}"
        );
        assert!(verdict[1].starts_with("Mean latency: 1.00 ms in A → 1.20 ms in B, +200 µs ["), "{verdict:?}");
    }

    #[test]
    fn no_difference_is_said_with_what_the_intervals_leave_open() {
        let verdict = said(vec![row("mean latency", [1e6, 1.001e6], 1e4)]);
        assert!(
            verdict[0].starts_with("No difference between A and B is seen: mean latency +1.00 µs [−"),
            "{verdict:?}"
        );
        let bare = Row { change: Change::without_interval([1e6; 2], Scale::Difference), ..row("x", [1e6; 2], 1.0) };
        assert!(said(vec![bare])[0].starts_with("The runs are too short for intervals"));
    }
}
