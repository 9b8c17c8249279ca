//! Two studies side by side.

use quantity::{change, count, counted};
use study::between::{Between, Differing, Row};
use study::response::{WHAT_HELPS, is_known, percent_of, quantity};

use super::headline;

use crate::document::{Block, Document, Section, Table};
use crate::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};
use crate::view::capital;

/// Differences in the verdict, and rows of the plot.
const FIRST: usize = 5;
const DRAWN: usize = 40;

fn place(row: &Row) -> String {
    format!("{}, {}", row.plan, row.labels.join(", "))
}

/// How the machines differ, as the beginning of the first sentence: `kernel 6.12 against 6.1`.
fn factors(between: &Between) -> String {
    let one = |d: &Differing| format!("{} {} against {}", d.what, d.second, d.first);
    between.factors.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Names with commas and an `and`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// In how many combinations each response differs.
fn verdict(names: [&str; 2], between: &Between) -> Vec<String> {
    if between.rows.is_empty() {
        return vec!["The two studies have no combination with enough trials in common.".into()];
    }
    let seen_of = |row: &&Row| row.seen() && is_known(&row.ratio);
    let mut responses: Vec<&str> = Vec::new();
    for row in &between.rows {
        if !responses.contains(&row.response.as_str()) {
            responses.push(&row.response);
        }
    }
    let counts = responses.iter().map(|response| {
        let rows = || between.rows.iter().filter(|row| row.response == *response);
        let (n, seen) = (counted(rows().count() as u64, "combination"), rows().filter(seen_of).count() as u64);
        let seen = if seen == 0 { "none".into() } else { count(seen) };
        format!("in {response} is seen in {seen} of {n}")
    });
    let counts = format!("a difference {}", counts.collect::<Vec<_>>().join("; "));
    let mut verdict = vec![match factors(between) {
        machines if machines.is_empty() => format!("Between the studies {counts}."),
        machines => format!("{}: {counts}.", capital(&machines)),
    }];
    let mut seen: Vec<&Row> = between.rows.iter().filter(seen_of).collect();
    seen.sort_by(|a, b| b.ratio.value.ln_1p().abs().total_cmp(&a.ratio.value.ln_1p().abs()));
    if seen.is_empty() {
        let known = between.rows.iter().filter(|row| is_known(&row.ratio));
        let width = |row: &&Row| row.ratio.high.ln_1p() - row.ratio.low.ln_1p();
        if let Some(widest) = known.max_by(|a, b| width(a).total_cmp(&width(b))) {
            let (low, high) = (change(widest.ratio.low), change(widest.ratio.high));
            verdict.push(format!("The widest interval is {low} to {high} ({}).", place(widest)));
        }
    }
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
    let unknown = between.rows.iter().filter(|row| !is_known(&row.ratio)).count() as u64;
    if unknown > 0 {
        verdict.push(format!(
            "{} cannot be judged by intervals that say nothing; {WHAT_HELPS}.",
            counted(unknown, "combination")
        ));
    }
    verdict
}

/// What a change can be put down to, and what not.
fn warnings(names: [&str; 2], between: &Between) -> Vec<String> {
    let mut warnings = Vec::new();
    let machine: Vec<&str> = between.factors.iter().map(|d| d.what.as_str()).collect();
    if !between.conditions.is_empty() {
        let one = |d: &Differing| format!("{}: {} in {}, {} in {}", d.what, d.first, names[0], d.second, names[1]);
        let all: Vec<String> = between.conditions.iter().map(one).collect();
        let all = all.join(". ");
        warnings.push(match (&machine[..], between.conditions.len()) {
            ([], 1) => format!("The studies differ in {all}."),
            ([], _) => format!("A change cannot be put down to one of the conditions that differ. {all}."),
            (machine, _) => {
                format!("A change cannot be put down to the {}: other conditions differ, too. {all}.", listed(machine))
            }
        });
    }
    match &machine[..] {
        [] if between.conditions.is_empty() => warnings.push(
            "Nothing that the runs record differs between the studies: what made a change is not known from them.".into(),
        ),
        [] => {}
        [one] => warnings.push(format!(
            "The {one} is what the runs record as different. Configuration, drivers and load of the machine are not recorded: \
             a change is the {one}'s only where these stayed as they were.",
        )),
        several => warnings.push(format!(
            "{} changed together: a change cannot be put down to one of them.",
            listed(several)
        )),
    }
    if between.same_host.is_none() {
        warnings.push(
            "A run of an earlier version does not name its host: whether it is the same machine is not known.".into(),
        );
    }
    warnings.push(
        "Intervals are of how trials vary within each run. What two runs of one machine differ by is in none of them: repeat each \
         study to see it."
            .into(),
    );
    for (name, notes) in names.iter().zip(&between.notes) {
        warnings.extend(notes.iter().map(|note| format!("In {name}: {note}.")));
    }
    if between.unmatched > 0 {
        warnings.push(format!(
            "{} in only one of the studies, or with too few trials in one, are not compared.",
            counted(between.unmatched as u64, "combination")
        ));
    }
    warnings
}

/// What changed from the first study to the second, by their names.
pub fn document(names: [&str; 2], between: &Between) -> Document {
    let n = counted(between.rows.len() as u64, "combination");
    let mut verdict = verdict(names, between);
    // A long sentence comes first with its beginning, and is whole below.
    let long: Vec<String> =
        verdict.iter_mut().filter_map(|sentence| Some(std::mem::replace(sentence, headline(sentence)?))).collect();
    let warnings = warnings(names, between);
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
    if !long.is_empty() {
        section.blocks.push(Block::List(long));
    }
    section.blocks.push(Block::List(vec![
        "Trials of two studies are no pairs: whatever changed between them is in the differences, not the setting alone.".into(),
        "Where the trials of a run are independent, all intervals hold at the same time in 95 % of comparisons (Bonferroni); means are geometric. A state of the machine that \
         lasts through one run and not the other is in no interval: repeat both runs, in turns.".into(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Judgement;

    fn row(label: &str, middle: f64, error: f64) -> Row {
        let ratio = Judgement { comparisons: 2, sequential: false }.around(middle, error, 5).map(f64::exp_m1);
        let (plan, response) = ("delay".to_owned(), "goodput".to_owned());
        Row {
            plan,
            labels: vec![label.into()],
            response,
            first: 1e8,
            second: 1e8 * middle.exp(),
            trials: [5, 5],
            ratio,
        }
    }

    fn differing(what: &str, first: &str, second: &str) -> Differing {
        Differing { what: what.into(), first: first.into(), second: second.into() }
    }

    fn said(between: &Between) -> (Vec<String>, String) {
        let document = document(["old", "new"], between);
        (document.verdict, document.warnings.join(" "))
    }

    #[test]
    fn the_kernel_is_named_first_and_blamed_only_where_nothing_else_differs() {
        let rows = vec![row("1ms", 0.0, 1e-3), row("5ms", -0.2, 1e-3)];
        let kernel = vec![differing("kernel", "6.1", "6.12")];
        let alone =
            Between { rows: rows.clone(), factors: kernel.clone(), same_host: Some(true), ..Between::default() };
        let (verdict, warnings) = said(&alone);
        assert_eq!(verdict[0], "Kernel 6.12 against 6.1: a difference in goodput is seen in 1 of 2 combinations.");
        assert!(
            verdict[1].starts_with("delay, 5ms: −18.1 % [") && verdict[1].contains("100.0 Mbit/s in old"),
            "{verdict:?}"
        );
        assert!(warnings.contains("a change is the kernel's only where these stayed as they were"), "{warnings}");
        assert!(warnings.contains("repeat each study") && !warnings.contains("cannot be put down"), "{warnings}");

        let path = Between { conditions: vec![differing("delay, rate", "1gbit", "100mbit")], ..alone.clone() };
        let (verdict, warnings) = said(&path);
        assert!(verdict[0].starts_with("Kernel 6.12 against 6.1: "), "{verdict:?}");
        assert!(
            warnings.contains("A change cannot be put down to the kernel: other conditions differ, too."),
            "{warnings}"
        );
        assert!(warnings.contains("delay, rate: 1gbit in old, 100mbit in new."), "{warnings}");

        let machine = vec![kernel[0].clone(), differing("CPUs", "2", "64")];
        let (verdict, warnings) = said(&Between { factors: machine, ..alone.clone() });
        assert!(verdict[0].starts_with("Kernel 6.12 against 6.1, CPUs 64 against 2: "), "{verdict:?}");
        assert!(warnings.contains("kernel and CPUs changed together"), "{warnings}");

        let same = Between { factors: Vec::new(), ..alone };
        let (verdict, warnings) = said(&same);
        assert_eq!(verdict[0], "Between the studies a difference in goodput is seen in 1 of 2 combinations.");
        assert!(warnings.contains("what made a change is not known"), "{warnings}");
        assert!(said(&Between { same_host: None, ..same }).1.contains("whether it is the same machine is not known"));
    }

    #[test]
    fn where_nothing_is_seen_the_widest_interval_is_said_on_both_sides() {
        // Mostly below: its upper end alone would say that hardly anything could have been missed.
        let rows = vec![row("1ms", 0.0, 1e-4), row("5ms", -0.2, 0.08), row("9ms", 0.0, 2.0)];
        let (verdict, _) = said(&Between { rows, ..Between::default() });
        assert_eq!(verdict[0], "Between the studies a difference in goodput is seen in none of 3 combinations.");
        assert!(verdict[1].starts_with("The widest interval is −") && verdict[1].contains("5ms"), "{verdict:?}");
        assert!(verdict[2].starts_with("1 combination cannot be judged"), "{verdict:?}");
    }

    #[test]
    fn what_comes_first_is_short_whatever_names_are_compared() {
        let mut long = row("1", -0.5, 1e-3);
        long.plan = "a plan with a name of very many words that goes on and on and on and on and on and on until the line is full".into();
        let document = document(["the first", "the second"], &Between { rows: vec![long], ..Between::default() });
        for sentence in &document.verdict {
            assert!(sentence.split_whitespace().count() <= 34, "{sentence}");
        }
        let whole = document.sections[0]
            .blocks
            .iter()
            .any(|b| matches!(b, Block::List(lines) if lines[0].contains("the line is full")));
        assert!(whole, "{document:?}");
    }
}
