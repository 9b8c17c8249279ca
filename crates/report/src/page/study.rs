//! The page of a study: verdict, effects beside predictions, trials block by block, series, and the
//! proof that settings and path were what was asked.

mod between;
pub mod plan;
mod plots;
mod proof;
mod rows;

use record::Nanos;
use record::trial::Response;
use study::ledger::Provenance;
use study::{Chart, Conclusion, Plan, Trial, Workload, analysis, builtin, plan_text};
use traffic::SocketOptions;

pub use between::document as between;

use super::{command, facts};
use paper::document::{Block, Document, Row, Section, Table, Text, clauses, columns};

/// The page of a study; `name` is what the run is called, where it is kept. `wirelapse study` ends
/// with the same document that `wirelapse report` shows of its run.
pub fn document(name: Option<&str>, provenance: &Provenance, trials: &[Trial]) -> Document {
    let study = &provenance.study;
    let said = builtin::conclude(study, trials, provenance.seed);
    let planned: usize = study.plans.iter().map(|p| p.combinations() * p.repetitions as usize).sum();
    let counted = trials.iter().filter(|t| t.counts()).count();
    let took: Nanos = trials.iter().map(|t| t.took).sum();
    let mut warnings = Vec::new();
    if provenance.state == store::State::Unfinished {
        let there = [trials.len(), planned].map(|n| quantity::count(n as u64));
        warnings.push(
            Text::from(format!(
                "This study did not come to its end: {} of {} planned trials are there. ",
                there[0], there[1]
            ))
            .and(Text::code("wirelapse study --resume"))
            .and(" goes on with it."),
        );
    }
    if counted < trials.len() {
        let fewer = format!(
            "{} of {} do not count, because a setting did not take or the path broke its promise; each is named below.",
            quantity::count((trials.len() - counted) as u64),
            quantity::counted(trials.len() as u64, "trial")
        );
        warnings.push(fewer.into());
    }
    let mut verdict: Vec<String> = said.verdict.iter().map(|v| format!("{}.", v.trim_end_matches('.'))).collect();
    if verdict.is_empty() {
        verdict.push("There are too few trials to say anything.".into());
    }
    // A long verdict hides its own beginning; the rest stands with the effects, and so does a long
    // sentence, whole.
    let mut rest = verdict.split_off(verdict.len().min(6));
    let long = verdict.iter_mut().filter_map(|sentence| Some(std::mem::replace(sentence, headline(sentence)?)));
    rest.splice(0..0, long.collect::<Vec<_>>());
    let mut sections = vec![effects(&said, rest)];
    for (part, plan) in study.plans.iter().enumerate() {
        sections.push(of_plan(part, plan, trials, provenance.seed, &said.charts));
    }
    let mut tables = Section::new("Tables");
    said.tables.iter().cloned().for_each(|table| tables.table(table));
    if !said.steps.is_empty() {
        let mut steps =
            Table::new("Steps along a swept factor", columns(["curve"], ["after", "at", "95 % interval", "jump"]));
        for (curve, s) in &said.steps {
            let row =
                [s.after.to_string(), s.at.to_string(), format!("{} … {}", s.low, s.high), format!("× {:.3}", s.ratio)];
            steps.push(Row::of(std::iter::once(curve.clone()).chain(row)));
        }
        tables.table(steps);
    }
    for table in rows::tables(study, trials) {
        tables.blocks.push(Block::OnPage(table));
    }
    sections.push(tables);
    sections.push(proof::settings(&study.plans, trials, &said.checked));
    sections.push(proof::path(&study.plans, trials));
    let mut lost = Section::new("What was lost, and what to know");
    if said.lost.is_empty() {
        lost.say("Nothing was lost: every frame that was to be looked at was seen, and every trial counts.");
    } else {
        lost.list(&said.lost);
    }
    lost.list(&said.notes);
    sections.push(lost);
    sections.push(environment(provenance, took));
    let mut plans = Section::new("Plan");
    for plan in &study.plans {
        plans.blocks.push(Block::Code { title: plan.name.clone(), text: plan_text::text(plan) });
    }
    sections.push(plans);
    sections.retain(|s| !s.blocks.is_empty());
    let about = format!(
        "The study {}: {} of {} planned, in randomised blocks, {} of measuring; seed {}.",
        study.name,
        quantity::counted(trials.len() as u64, "trial"),
        quantity::count(planned as u64),
        took,
        provenance.seed
    );
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    Document {
        title: format!("Study {}{name}", study.name).into(),
        about,
        verdict: clauses(verdict),
        warnings,
        sections,
    }
}

/// Words of a sentence that comes first, at most.
const WORDS: usize = 30;

/// The beginning of a sentence that is too long to come first, up to where it can end; `None` where
/// it is not.
fn headline(sentence: &str) -> Option<String> {
    let words = |text: &str| text.split_whitespace().count();
    if words(sentence) <= WORDS {
        return None;
    }
    let end_at = |marks: &[u8]| {
        let ends = sentence
            .match_indices(' ')
            .filter_map(|(at, _)| at.checked_sub(1).filter(|at| marks.contains(&sentence.as_bytes()[*at])));
        ends.rev().find(|at| words(&sentence[..*at]) <= WORDS)
    };
    match end_at(b";:").or_else(|| end_at(b",")) {
        Some(end) => Some(format!("{} (in full below).", &sentence[..end])),
        None => {
            let first: Vec<&str> = sentence.split_whitespace().take(WORDS).collect();
            Some(format!("{} … (in full below).", first.join(" ")))
        }
    }
}

fn effects(said: &Conclusion, rest: Vec<String>) -> Section {
    let mut section = Section::new("What it is worth");
    section.plot(plots::compared(said));
    section.list(rest);
    section
}

fn of_plan(part: usize, plan: &Plan, trials: &[Trial], seed: u64, charts: &[Chart]) -> Section {
    let mut section = Section::new(format!("{}: {}", plan.name, plan.response));
    let combinations = analysis::combinations(plan);
    let view = plots::View { part, plan, trials, seed, combinations: &combinations };
    match view.curve() {
        Some(curve) => section.plot(Some(curve)),
        None => section.plot(view.blocks()),
    }
    if let Some(sockets) = sockets(plan, &combinations) {
        section.say(sockets);
    }
    section.plot(view.boxes());
    section.plot(view.main_effects());
    section.plot(view.heat());
    let mut charts = charts.iter().filter(|chart| chart.plan == part).peekable();
    // The conclusion's charts show goodput by combination, or by direction.
    if charts.peek().is_none() {
        section.plot(view.series(Response::Goodput));
    }
    charts.enumerate().for_each(|(i, chart)| section.plot(plots::chart(part, i, chart)));
    section.plot(view.series(Response::RoundTrip));
    section.plot(view.series(Response::ReceiveWindow));
    section
}

/// What is set on the TCP sockets of a plan's trials; `None` where it has none.
fn sockets(plan: &Plan, combinations: &[Vec<usize>]) -> Option<String> {
    let mut all: Vec<SocketOptions> = Vec::new();
    for setup in combinations.iter().filter_map(|levels| plan.setup(levels).ok()) {
        if setup.workload != Workload::Udp && !all.contains(&setup.options) {
            all.push(setup.options);
        }
    }
    match &all[..] {
        [] => None,
        [one] if *one == SocketOptions::default() => {
            Some("The sockets at both ends are as the kernel has them: Nagle's algorithm is on.".into())
        }
        all => {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            Some(format!(
                "Options of the sockets at both ends: {}. All else is as the kernel has it.",
                all.join("; or ")
            ))
        }
    }
}

fn environment(provenance: &Provenance, took: Nanos) -> Section {
    let mut section = Section::new("Environment");
    section.table(facts(
        "",
        [
            ("command", command(&provenance.command_line)),
            ("version", provenance.version.clone()),
            ("kernel", provenance.kernel.clone()),
            ("machine", format!("{}, {}", provenance.machine, quantity::counted(provenance.cpus.into(), "CPU"))),
            ("seed", provenance.seed.to_string()),
            ("measuring took", took.to_string()),
            ("state", if provenance.state == store::State::Finished { "finished" } else { "unfinished" }.into()),
        ],
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_comes_first_only_with_its_beginning() {
        let short = "delay 5ms against 1ms is worth −3 % goodput.";
        assert_eq!(headline(short), None);
        let long = format!("rr, 2 writes: the rate falls by 30 at 10 bytes; on the slow side {}.", "words ".repeat(50));
        let first = headline(&long).unwrap();
        assert_eq!(first, "rr, 2 writes: the rate falls by 30 at 10 bytes (in full below).");
        let endless = headline(&"word ".repeat(50)).unwrap();
        assert_eq!(endless.split_whitespace().count(), WORDS + 4, "{endless}");
    }

    #[test]
    fn socket_options_are_said() {
        let said = |text: &str| {
            let plan = study::plan_file::parse("p.toml", &format!("repetitions = 2\n{text}")).unwrap();
            sockets(&plan, &analysis::combinations(&plan))
        };
        assert_eq!(
            said("[factors]\nsocket = [\"default\", \"nodelay\"]\n").unwrap(),
            "Options of the sockets at both ends: nodelay off; or nodelay on. All else is as the kernel has it."
        );
        assert_eq!(
            said("[factors]\ndelay = [\"1ms\", \"2ms\"]\n").unwrap(),
            "The sockets at both ends are as the kernel has them: Nagle's algorithm is on."
        );
        assert_eq!(said("workload = \"udp\"\n[factors]\ndelay = [\"1ms\", \"2ms\"]\n"), None);
    }
}
