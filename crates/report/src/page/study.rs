//! The page of a study: verdict, effects beside predictions, trials block by block, series, and the proof that settings and
//! path were what was asked.

mod plots;
mod proof;

use record::Nanos;
use study::ledger::Provenance;
use study::{Conclusion, Plan, Trial, analysis, builtin, plan_text};

use super::{command, facts};
use crate::document::{Block, Document, Section, Table};

/// The page of a study; `name` is what the run is called.
pub fn document(name: &str, provenance: &Provenance, trials: &[Trial]) -> Document {
    let study = &provenance.study;
    let said = builtin::conclude(study, trials, provenance.seed);
    let planned: usize = study.plans.iter().map(|p| p.combinations() * p.repetitions as usize).sum();
    let counted = trials.iter().filter(|t| t.counts()).count();
    let took: u64 = trials.iter().fold(0, |sum, t| sum.saturating_add(t.took_ns));
    let mut warnings = Vec::new();
    if provenance.state == store::State::Unfinished {
        warnings.push(format!(
            "This study did not come to its end: {} of {} planned trials are there. `wirelapse study --resume` goes on with it.",
            quantity::count(trials.len() as u64),
            quantity::count(planned as u64)
        ));
    }
    if counted < trials.len() {
        warnings.push(format!(
            "{} of {} do not count, because a setting did not take or the path broke its promise; each is named below.",
            quantity::count((trials.len() - counted) as u64),
            quantity::counted(trials.len() as u64, "trial")
        ));
    }
    let mut verdict: Vec<String> = said.verdict.iter().map(|v| format!("{}.", v.trim_end_matches('.'))).collect();
    if verdict.is_empty() {
        verdict.push("There are too few trials to say anything.".into());
    }
    // A long verdict hides its own beginning; the rest stands with the effects.
    let rest = verdict.split_off(verdict.len().min(6));
    let mut sections = vec![effects(&said, rest)];
    for (part, plan) in study.plans.iter().enumerate() {
        sections.push(of_plan(part, plan, trials, provenance.seed));
    }
    let mut tables = Section::new("Tables");
    for t in &said.tables {
        tables.table(Table { title: t.title.clone(), head: t.head.clone(), rows: t.rows.clone(), ..Table::default() });
    }
    if !said.steps.is_empty() {
        let mut steps = Table::new("Steps along a swept factor", &["curve", "after", "at", "95 % interval", "jump"]);
        for (curve, s) in &said.steps {
            let row =
                [s.after.to_string(), s.at.to_string(), format!("{} … {}", s.low, s.high), format!("× {:.3}", s.ratio)];
            steps.rows.push(std::iter::once(curve.clone()).chain(row).collect());
        }
        tables.table(steps);
    }
    sections.push(tables);
    sections.push(proof::settings(&study.plans, trials));
    sections.push(proof::path(&study.plans, trials));
    let mut lost = Section::new("What was lost, and what to know");
    if said.lost.is_empty() {
        lost.say("Nothing was lost: every frame that was to be looked at was seen, and every trial counts.");
    } else {
        lost.blocks.push(Block::List(said.lost.clone()));
    }
    if !said.notes.is_empty() {
        lost.blocks.push(Block::List(said.notes));
    }
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
        Nanos(took),
        provenance.seed
    );
    Document { title: format!("Study {} ({name})", study.name), about, verdict, warnings, sections }
}

fn effects(said: &Conclusion, rest: Vec<String>) -> Section {
    let mut section = Section::new("What it is worth");
    section.plot(plots::compared(said));
    if !rest.is_empty() {
        section.blocks.push(Block::List(rest));
    }
    section
}

fn of_plan(part: usize, plan: &Plan, trials: &[Trial], seed: u64) -> Section {
    let mut section = Section::new(format!("{}: {}", plan.name, plan.response));
    let combinations = analysis::combinations(plan);
    let view = plots::View { part, plan, trials, seed, combinations: &combinations };
    match view.curve() {
        Some(curve) => section.plot(Some(curve)),
        None => section.plot(view.blocks()),
    }
    section.plot(view.boxes());
    section.plot(view.main_effects());
    section.plot(view.heat());
    section.plot(view.series("goodput"));
    section.plot(view.series("round-trip"));
    section.plot(view.series("window"));
    section
}

fn environment(provenance: &Provenance, took: u64) -> Section {
    let mut section = Section::new("Environment");
    section.table(facts(
        "",
        [
            ("command", command(&provenance.command_line)),
            ("version", provenance.version.clone()),
            ("kernel", provenance.kernel.clone()),
            ("machine", format!("{}, {} processors", provenance.machine, provenance.cpus)),
            ("seed", provenance.seed.to_string()),
            ("measuring took", Nanos(took).to_string()),
            ("state", if provenance.state == store::State::Finished { "finished" } else { "unfinished" }.into()),
        ],
    ));
    section
}
