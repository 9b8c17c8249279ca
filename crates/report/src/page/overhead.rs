//! The page of `study overhead`: what observing costs, method by method.

use quantity::{change, change_in_points, counted};
use record::Nanos;
use stats::Estimate;
use study::overhead::{LoadCosts as Load, Outcome, Plan, Row};

use super::study::plan::Steps;
use paper::document::{Column, Document, Section, Table};

/// What was measured, a section for each load.
pub fn document(outcome: &Outcome) -> Document {
    Document {
        title: "Study overhead".into(),
        about: format!(
            "What observing costs: the change against nothing in the slice beside it ({} each), with 95 % intervals, seed {}. \
             Medians over the slices; of sampling means, as its windows fall into few slices.",
            outcome.slice, outcome.seed
        ),
        sections: outcome.tables.iter().map(section).collect(),
        ..Document::default()
    }
}

fn section(load: &Load) -> Section {
    let mut section = Section::new(&*load.name);
    let exchange = load.p99_ns.map_or_else(String::new, |ns| format!(", p99 {}", quantity::time_to(ns, 3)));
    section.say(format!(
        "Without anything: {}, {} of the sender's CPU for each and {} of all CPUs{exchange} (medians over {}).",
        quantity::per_second(load.rate),
        quantity::time_to(load.cpu_ns, 3),
        quantity::time_to(load.machine_ns, 3),
        counted(load.blocks as u64, "block")
    ));
    section.table(costs(load));
    let mut said: Vec<String> = Vec::new();
    let points = |what: &str, e: Estimate| {
        let [value, low, high] = [e.value, e.low, e.high].map(bare);
        format!("{what}: {value} points ({low} to {high})")
    };
    said.extend(load.above_floor.map(|e| points("every send, less the floor", e)));
    said.extend(load.saved.map(|e| points("histograms of every send, less its records", e)));
    said.extend(load.saved_ns.map(|e| {
        format!("the same, of all CPUs: {} ns for each ({} to {})", added(e.value), added(e.low), added(e.high))
    }));
    said.extend(load.verdicts.iter().map(|verdict| format!("{}: {}", verdict.bar.name(), verdict.text)));
    said.extend(load.missing.iter().map(|missing| format!("not here: {}: {}", missing.name, missing.reason)));
    section.list(said);
    section
}

/// Nanoseconds added, in whole ones: what is compared stands below one another.
fn added(ns: f64) -> String {
    let sign = if ns < 0.0 { '−' } else { '+' };
    format!("{sign}{:.0}", ns.abs())
}

fn costs(load: &Load) -> Table {
    let exchange = load.p99_ns.is_some();
    let mut columns = vec![
        Column::text(""),
        Column::figures("rate"),
        Column::figures("CPU of each"),
        Column::figures("CPU of each, absolute").spare(0),
        Column::figures("all CPUs, of each"),
    ];
    columns.extend(exchange.then(|| Column::figures("p99")));
    columns.push(Column::text("reference").spare(1));
    let mut table = Table::new("", columns);
    let row = |row: &Row| {
        let absolute = row.cpu_ns.map_or_else(String::new, |e| format!("{} ns", added(e.value)));
        let machine = row.machine_ns.map_or_else(
            || "too few slices".into(),
            |e| format!("{} ns ({} to {})", added(e.value), added(e.low), added(e.high)),
        );
        let mut cells = vec![row.name.to_owned(), with_interval(row.rate), with_interval(row.cpu), absolute, machine];
        cells.extend(exchange.then(|| with_interval(row.p99)));
        cells.push(row.reference.unwrap_or_default().to_owned());
        cells
    };
    table.extend(load.rows.iter().map(row));
    table
}

/// A change in points of per cent, without the sign of these.
fn bare(points: f64) -> String {
    change_in_points(points / 100.0)
}

/// A change in per cent with its interval.
fn with_interval(e: Option<Estimate>) -> String {
    e.map_or_else(
        || "too few slices".into(),
        |e| format!("{} ({} to {})", change(e.value / 100.0), bare(e.low), bare(e.high)),
    )
}

/// What `--dry-run` says.
pub fn planned(plan: &Plan) -> Document {
    let mut steps = Steps::default();
    let loads: Vec<String> = plan.loads.iter().map(|load| load.name()).collect();
    steps.step("load", "", loads.join(", "));
    plan.ways.iter().for_each(|way| steps.step("method", "", way.name));
    let (warm_up, slice) = (Nanos::from(plan.warm_up), Nanos::from(plan.slice));
    steps.step("each", "", format!("{warm_up} of warm-up discarded, then {slice}"));
    Document {
        title: "Plan of study overhead".into(),
        about: format!("Seed {}, takes about {}.", plan.seed, Nanos::from(plan.forecast())),
        sections: vec![steps.section("")],
        ..Document::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paper::{Canvas, terminal};
    use study::overhead::{Bar, Key};

    fn estimate(value: f64) -> Option<Estimate> {
        stats::median_interval(&[value - 0.2, value - 0.1, value, value, value + 0.1, value + 0.2], 0.95)
    }

    fn outcome() -> Outcome {
        let row = |key, name, reference| Row {
            key,
            name,
            rate: estimate(-7.7),
            cpu: estimate(8.0),
            cpu_ns: estimate(120.4),
            machine_ns: estimate(345.0),
            p99: estimate(1.5),
            mean: false,
            reference,
        };
        let load = |name: &str, p99_ns| Load {
            load: "send_1024".into(),
            name: name.into(),
            blocks: 52,
            rate: 1_234_567.0,
            cpu_ns: 812.3,
            machine_ns: 1_534.0,
            p99_ns,
            rows: vec![row(Key::Every, "every send", None), row(Key::FentryEmpty, "an empty fentry", Some("-4.6 %"))],
            above_floor: estimate(-1.5),
            saved: estimate(2.5),
            saved_ns: estimate(-30.0),
            histograms_sampled: estimate(0.25),
            missing: vec![study::overhead::Missing {
                key: Key::Tcpdump,
                name: "a method",
                reason: "no fentry here".into(),
            }],
            verdicts: vec![study::overhead::Verdict {
                bar: Bar::EverySend,
                holds: Some(true),
                text: "holds: −1.50".into(),
            }],
        };
        Outcome {
            slice: Nanos::from_millis(30),
            seed: 7,
            tables: vec![load("1 KiB sends", None), load("requests", Some(41_234.0))],
        }
    }

    #[test]
    fn a_load_shows_every_method_with_its_interval_the_reference_and_what_is_missing() {
        let canvas = Canvas { width: 200, colour: false, unicode: true };
        let text = terminal::text(&canvas, &[document(&outcome())]);
        for words in [
            "1 KiB sends",
            "1.23 M/s, 812 ns of the sender's CPU for each and 1.53 µs of all CPUs (medians over 52 blocks)",
            "−7.70 % (",
            "+120 ns",
            "+345 ns (+345 to +345)",
            "of all CPUs: −30 ns for each (−30 to −30)",
            "-4.6 %",
            "less the floor: −1.50 points",
            "within 2 points of the floor: holds",
            "not here: a method: no fentry here",
            "p99 41.2 µs",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        // The 99th percentile has a column under the load that has one.
        assert_eq!(text.matches("+1.50 % (").count(), 2, "{text}");
    }
}
