//! Two studies side by side.

use quantity::{change, count, counted};
use record::trial::Response;
use stats::Estimate;
use study::between::{Between, Differing, Kind, Row};
use study::response::{WHAT_HELPS, is_known, percent_of, quantity};

use super::{WORDS, headline};
use study::Sentence;

use crate::page::NONE;
use crate::view::capital;
use paper::document::{Cell, Column, Document, Section, Table, clauses, texts};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// Differences of each kind in the verdict, and rows of a plot.
const FIRST: usize = 3;
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

/// In how many combinations each response differs; `None` where nothing is compared so.
fn counts(kind: Kind, between: &Between) -> Vec<String> {
    let compared = || between.rows.iter().filter(|row| kind.change(row).is_some());
    let mut responses: Vec<Response> = Vec::new();
    for row in compared() {
        if !responses.contains(&row.response) {
            responses.push(row.response);
        }
    }
    let what = if kind == Kind::WithinBlocks { "other combination" } else { "combination" };
    let count_of = |response: &Response| {
        let rows = || compared().filter(|row| row.response == *response);
        let seen = match rows().filter(|row| kind.seen(row)).count() as u64 {
            0 => "none".into(),
            seen => count(seen),
        };
        format!("a difference in {response} is seen in {seen} of {}", counted(rows().count() as u64, what))
    };
    responses.iter().map(count_of).collect()
}

/// What was counted, each response a clause.
fn counted_in(beginning: &str, counts: &[String]) -> Option<Sentence> {
    let (first, rest) = counts.split_first()?;
    let first = Sentence::from(format!("{beginning}: {first}"));
    Some(rest.iter().fold(first, |sentence, count| sentence.and(count)))
}

/// What was seen, the largest first, of the second kind what the first has not; else what was not.
fn findings(kind: Kind, names: [&str; 2], between: &Between) -> Vec<Sentence> {
    let alone = |row: &&Row| kind == Kind::WithinBlocks || !Kind::WithinBlocks.seen(row);
    let seen = kind.largest(&between.rows);
    if seen.is_empty() {
        let said = |(row, e): (&Row, &Estimate)| {
            format!("The widest interval of these is {} to {} ({})", change(e.low), change(e.high), place(row)).into()
        };
        return kind.widest(&between.rows).map(said).into_iter().collect();
    }
    let sentence = |row: &&Row| {
        let of = percent_of(kind.change(row)?);
        Some(match kind {
            Kind::WithinBlocks => {
                let [a, b] = names;
                format!("{}: {} relative to the first changed by {of} from {a} to {b}", place(row), row.response)
            }
            Kind::Itself => {
                let [a, b] = row.change.values.map(|value| quantity(row.response, value));
                format!("{}: {of} {} ({a} in {}, {b} in {})", place(row), row.response, names[0], names[1])
            }
        })
    };
    seen.iter().copied().filter(alone).take(FIRST).filter_map(|row| sentence(&row)).map(Sentence::from).collect()
}

/// What changed: first within blocks, which holds whatever state the machine was in, then each
/// combination by itself.
fn verdict(names: [&str; 2], between: &Between) -> Vec<Sentence> {
    if between.rows.is_empty() {
        return vec!["The two studies have no combination with enough trials in common".into()];
    }
    let mut verdict = Vec::new();
    let mut beginning = match factors(between) {
        machines if machines.is_empty() => "Between the studies".to_owned(),
        machines => capital(&machines),
    };
    let within = counts(Kind::WithinBlocks, between);
    if !within.is_empty() {
        let compared: Vec<&Row> =
            between.rows.iter().filter(|r| r.within_blocks.is_some()).filter_map(|r| between.base(r)).collect();
        let first = match &compared[..] {
            [first, rest @ ..] if rest.iter().all(|r| r == first) => format!("the first ({})", place(first)),
            _ => "the first combination of each plan".into(),
        };
        verdict.extend(counted_in(&format!("{beginning}, within blocks, relative to {first}"), &within));
        verdict.extend(findings(Kind::WithinBlocks, names, between));
        beginning = "Each combination by itself".into();
    }
    if let Some(sentence) = counted_in(&beginning, &counts(Kind::Itself, between)) {
        verdict.push(sentence);
        let alone = between.rows.iter().filter(|row| Kind::Itself.seen(row) && !Kind::WithinBlocks.seen(row)).count();
        if alone > 0 {
            let lasted = format!(
                "A state of the machine that lasted through one run may explain {} of these, which {} not seen within blocks",
                count(alone as u64),
                if alone == 1 { "is" } else { "are" }
            );
            verdict.push(lasted.into());
        }
        verdict.extend(findings(Kind::Itself, names, between));
    }
    let kinds = [Kind::Itself, Kind::WithinBlocks];
    let unknown = |row: &&Row| kinds.iter().any(|kind| kind.change(row).is_some_and(|e| !is_known(e)));
    let unknown = between.rows.iter().filter(unknown).count() as u64;
    if unknown > 0 {
        let judged = format!("{} cannot be judged by intervals that say nothing", counted(unknown, "combination"));
        verdict.push(Sentence::from(judged).and(WHAT_HELPS));
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
            "Of what the runs record, only the {one} differs. Configuration, drivers and load of the machine are not recorded: \
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
        "Two runs on one machine can differ by themselves, and no interval here contains that. Changes within blocks are free of it only where it moves all combinations of a block by the same factor. Repeat each study, alternating, before you act on a difference."
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
    let verdict = verdict(names, between);
    let warnings = warnings(names, between);
    let mut section = Section::new("What changed");
    section.plot(plot(Kind::WithinBlocks, between));
    section.plot(plot(Kind::Itself, between));
    let columns = [
        Column::text("where"),
        Column::text("response"),
        Column::figures(names[0]),
        Column::figures(names[1]),
        Column::figures("change"),
        Column::figures("within blocks"),
        Column::figures("trials"),
    ];
    let mut table = Table::new("", columns);
    for row in &between.rows {
        let within = match Kind::WithinBlocks.change(row) {
            Some(change) => percent_of(change),
            None if between.base(row) == Some(row) => "the first".into(),
            None => "too few blocks".into(),
        };
        let [first, second] = row.change.values.map(|value| Cell::figure(quantity(row.response, value)));
        table.push([
            place(row).into(),
            Cell::from(row.response.to_string()),
            first,
            second,
            Cell::or(Kind::Itself.change(row), |change| Cell::figure(percent_of(change)), NONE),
            Cell::figure(within),
            Cell::figure(format!("{} and {}", row.trials[0], row.trials[1])),
        ]);
    }
    section.table(table);
    // A long sentence comes first with its beginning, and is whole here.
    let long = verdict.iter().filter(|sentence| sentence.beginning(WORDS).is_some());
    section.list(long.map(|sentence| format!("{sentence}.")));
    section.list([
        "Within blocks, relative to the first: in each block a combination is divided by the first one of its plan, and the means of that ratio are compared. Whatever changes all combinations of a block by the same factor cancels out. What remains can be a change of either one: the combination or the first."
,
        "By itself: trials of two studies are not paired, so the difference contains everything that changed between them. No interval contains a state of the machine that lasted through one run and not the other."
,
        "Where trials vary independently of each other, all intervals of both kinds hold at the same time in 95 % of comparisons (Bonferroni). Means are \
         geometric.",
    ]);
    Document {
        title: format!("{} against {}", names[1], names[0]).into(),
        about: format!("Two studies side by side: {n} of both."),
        verdict: clauses(verdict.iter().map(headline)),
        warnings: texts(warnings),
        sections: vec![section],
        ..Document::default()
    }
}

fn plot(kind: Kind, between: &Between) -> Option<Plot> {
    let compared: Vec<(&Row, &Estimate)> =
        between.rows.iter().filter_map(|row| Some((row, kind.change(row)?))).collect();
    let known: Vec<&(&Row, &Estimate)> = compared.iter().filter(|(_, e)| is_known(e)).take(DRAWN).collect();
    let items = (0u32..).zip(&known).map(|(i, (row, e))| Interval {
        at: f64::from(i),
        low: tidy(e.low),
        value: tidy(e.value),
        high: tidy(e.high),
        label: format!("{}\n{}", place(row), percent_of(e)),
    });
    let layers = vec![
        Layer::Rule { name: "no difference".into(), upright: true, value: 0.0 },
        Layer::Intervals { name: "measured".into(), hue: Hue(0), items: items.collect() },
    ];
    let names: Vec<String> = known.iter().map(|(row, _)| place(row)).collect();
    let (id, title, what) = match kind {
        Kind::WithinBlocks => (
            "within-blocks",
            "Changes relative to the first combination of each plan, within blocks",
            "The ratio to the plan's first combination, taken within blocks, in the second study over the first",
        ),
        Kind::Itself => ("between", "Changes of each combination by itself", "The second study over the first"),
    };
    let left = compared.len() - known.len();
    let note = if left > 0 { format!(" {left} more are not drawn.") } else { String::new() };
    let caption = format!("{what}, as a change, with intervals.{note}");
    let axes = (Axis::linear("change of the response", Unit::Share), Axis::names("", names));
    Plot::new(id, title, caption, axes, layers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::{Change, Scale};
    use paper::document::Block;
    use stats::Judgement;

    fn change(middle: f64, error: f64) -> Change {
        let by = Judgement { comparisons: 2, sequential: false }.around(middle, error, 5).map(f64::exp_m1);
        Change { by: Some(by), ..Change::without_interval([1e8, 1e8 * middle.exp()], Scale::Ratio) }
    }

    fn row(label: &str, middle: f64, error: f64) -> Row {
        let (plan, response) = ("delay".to_owned(), Response::Goodput);
        let change = change(middle, error);
        Row { plan, labels: vec![label.into()], response, trials: [5, 5], change, within_blocks: None }
    }

    /// The first combination of a plan, and another one that differs by itself so much, and so much
    /// within blocks.
    fn rows(itself: (f64, f64), within: (f64, f64)) -> Vec<Row> {
        let within = change(within.0, within.1);
        vec![row("1ms", 0.0, 1e-3), Row { within_blocks: Some(within), ..row("5ms", itself.0, itself.1) }]
    }

    fn differing(what: &str, first: &str, second: &str) -> Differing {
        Differing { what: what.into(), first: first.into(), second: second.into() }
    }

    fn said(between: &Between) -> (Vec<String>, String) {
        let document = document(["old", "new"], between);
        let warnings: Vec<String> = document.warnings.iter().map(ToString::to_string).collect();
        (document.verdict.iter().map(|clause| clause.text.to_string()).collect(), warnings.join(" "))
    }

    #[test]
    fn the_kernel_is_named_first_and_blamed_only_where_nothing_else_differs() {
        let rows = rows((-0.2, 1e-3), (-0.2, 1e-3));
        let kernel = vec![differing("kernel", "6.1", "6.12")];
        let alone =
            Between { rows: rows.clone(), factors: kernel.clone(), same_host: Some(true), ..Between::default() };
        let (verdict, warnings) = said(&alone);
        assert_eq!(
            verdict[0],
            "Kernel 6.12 against 6.1, within blocks, relative to the first (delay, 1ms): a difference in goodput is seen in 1 of 1 other combination."
        );
        assert!(
            verdict[1].starts_with("delay, 5ms: goodput relative to the first changed by −18.1 % [")
                && verdict[1].ends_with("] from old to new."),
            "{verdict:?}"
        );
        // What is seen both ways is there once.
        assert_eq!(verdict[2], "Each combination by itself: a difference in goodput is seen in 1 of 2 combinations.");
        assert_eq!(verdict.len(), 3, "{verdict:?}");
        assert!(warnings.contains("a change is the kernel's only where these stayed as they were"), "{warnings}");
        assert!(warnings.contains("Repeat each study") && !warnings.contains("cannot be put down"), "{warnings}");

        let path = Between { conditions: vec![differing("delay, rate", "1gbit", "100mbit")], ..alone.clone() };
        let (verdict, warnings) = said(&path);
        assert!(verdict[0].starts_with("Kernel 6.12 against 6.1, within blocks, "), "{verdict:?}");
        assert!(
            warnings.contains("A change cannot be put down to the kernel: other conditions differ, too."),
            "{warnings}"
        );
        assert!(warnings.contains("delay, rate: 1gbit in old, 100mbit in new."), "{warnings}");

        let machine = vec![kernel[0].clone(), differing("CPUs", "2", "64")];
        let (verdict, warnings) = said(&Between { factors: machine, ..alone.clone() });
        assert!(verdict[0].starts_with("Kernel 6.12 against 6.1, CPUs 64 against 2, within blocks, "), "{verdict:?}");
        assert!(warnings.contains("kernel and CPUs changed together"), "{warnings}");

        let same = Between { factors: Vec::new(), ..alone };
        let (verdict, warnings) = said(&same);
        assert!(verdict[0].starts_with("Between the studies, within blocks, "), "{verdict:?}");
        assert!(warnings.contains("what made a change is not known"), "{warnings}");
        assert!(said(&Between { same_host: None, ..same }).1.contains("whether it is the same machine is not known"));
    }

    #[test]
    fn what_only_the_runs_differ_by_is_said_to_be_perhaps_a_state_of_the_machine() {
        let (verdict, _) = said(&Between { rows: rows((-0.2, 1e-3), (0.0, 1e-3)), ..Between::default() });
        assert!(verdict[0].ends_with("a difference in goodput is seen in none of 1 other combination."), "{verdict:?}");
        assert!(verdict[1].starts_with("The widest interval of these is −"), "{verdict:?}");
        assert_eq!(verdict[2], "Each combination by itself: a difference in goodput is seen in 1 of 2 combinations.");
        assert_eq!(
            verdict[3],
            "A state of the machine that lasted through one run may explain 1 of these, which is not seen within blocks."
        );
        assert!(
            verdict[4].starts_with("delay, 5ms: −18.1 % [") && verdict[4].contains("100.0 Mbit/s in old"),
            "{verdict:?}"
        );
        // Of two that are seen, one is seen within blocks, too.
        let mut both = rows((-0.2, 1e-3), (-0.2, 1e-3));
        both.push(row("9ms", -0.1, 1e-3));
        let (verdict, _) = said(&Between { rows: both, ..Between::default() });
        assert!(
            verdict[2].ends_with("2 of 3 combinations.") && verdict[3].contains("may explain 1 of these"),
            "{verdict:?}"
        );
        assert!(verdict.len() == 5 && verdict[4].starts_with("delay, 9ms: −9.52 % ["), "{verdict:?}");
        // The first one alone changed: the other one is said to have changed relative to it, and
        // not by itself.
        let (verdict, _) = said(&Between { rows: rows((0.0, 1e-3), (0.2, 1e-3)), ..Between::default() });
        assert!(verdict[1].contains("goodput relative to the first changed by +"), "{verdict:?}");
        assert!(verdict[2].ends_with("is seen in none of 2 combinations."), "{verdict:?}");
    }

    #[test]
    fn both_kinds_of_change_are_in_the_table_and_drawn() {
        let mut rows = rows((-0.2, 1e-3), (-0.1, 1e-3));
        rows.push(row("9ms", 0.0, 1e-3));
        let document = document(["old", "new"], &Between { rows, ..Between::default() });
        let table =
            document.sections[0].blocks.iter().find_map(|b| if let Block::Table(t) = b { Some(t) } else { None });
        let table = table.unwrap();
        let cells: Vec<String> = (0..table.rows.len()).map(|row| table.written(row)[5].clone()).collect();
        assert!(
            cells[0] == "the first" && cells[1].starts_with("−9.52 % [") && cells[2] == "too few blocks",
            "{cells:?}"
        );
        let drawn: Vec<(&str, f64)> = document
            .plots()
            .filter_map(|p| match &p.layers[1] {
                Layer::Intervals { items, .. } => {
                    Some((p.id.as_str(), items.iter().map(|i| i.value).fold(0.0, f64::min)))
                }
                _ => None,
            })
            .collect();
        assert_eq!(drawn.len(), 2);
        assert!(drawn[0].0 == "within-blocks" && (drawn[0].1 + 0.095).abs() < 1e-3, "{drawn:?}");
        assert!(drawn[1].0 == "between" && (drawn[1].1 + 0.181).abs() < 1e-3, "{drawn:?}");
    }

    #[test]
    fn where_nothing_is_seen_the_widest_interval_is_said_on_both_sides() {
        // Mostly below: its upper end alone would say that hardly anything could have been missed.
        let rows = vec![row("1ms", 0.0, 1e-4), row("5ms", -0.2, 0.08), row("9ms", 0.0, 2.0)];
        let (verdict, _) = said(&Between { rows, ..Between::default() });
        // No plan of these has two combinations in a block.
        assert_eq!(verdict[0], "Between the studies: a difference in goodput is seen in none of 3 combinations.");
        assert!(
            verdict[1].starts_with("The widest interval of these is −") && verdict[1].contains("5ms"),
            "{verdict:?}"
        );
        assert!(verdict[2].starts_with("1 combination cannot be judged"), "{verdict:?}");
    }
}
