//! `wirelapse study reception`: ways to receive and stamp packets.

use std::io::Write as _;
use std::path::Path;

use ::report::page;
use ::study::reception::kept::{self, Kept};
use ::study::reception::{Plan, Progress, run as measure, two_machines};
use anyhow::Context as _;
use paper::document::Document;
use record::Nanos;
use serde_json::json;

use super::{Args, STEPS};
use crate::bar::Bar;
use crate::exit::BadInput;
use crate::files::write_page;
use crate::interrupt::Interrupt;
use crate::output::{self, harmless};
use ::files::{self, Readers};

/// The study's name.
pub const NAME: &str = "reception";

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.until.is_some() || args.budget.is_some() || args.host.is_some() {
        let problem =
            "study reception measures this machine by a plan of fixed length: leave --until, --budget and --host out";
        return Err(BadInput(problem.into()).into());
    }
    if let Some(results) = &args.two_machines {
        return between_machines(args, results.as_deref());
    }
    let plan = Plan::whole(args.quick, args.seed);
    if args.dry_run {
        return dry_run(args, &plan);
    }
    if let Some(directory) = &args.output {
        files::directory(directory).map_err(|e| BadInput(format!("{}: {e}", directory.display())))?;
    }
    let interrupt = Interrupt::listen()?;
    let bar = Bar::new(output::shows_progress(args.json.json), STEPS, "{bar:30} {percent} %  {msg}, {eta} left");
    let mut tell = |p: &Progress| bar.show((p.share * STEPS as f64) as usize, STEPS, p.label);
    let outcome = measure(&plan, &mut tell, &|| !interrupt.came());
    bar.finish();
    let outcome = outcome.context("the study cannot go on").inspect_err(|_| leave(args))?;
    let document = page::reception::document(&outcome);
    let event = Kept::of(&outcome);
    // What was measured is shown, whatever becomes of the disk.
    let kept = args.output.as_deref().map(|directory| keep(directory, &event, &document)).transpose();
    let kept = kept.inspect_err(|_| leave(args));
    if args.json.json {
        output::json_event("reception", &event)?;
        return kept.map(drop);
    }
    let mut out = output::stdout().lock();
    out.write_all(output::drawn(&[document], args.shown).as_bytes())?;
    if let Some(directory) = kept?.filter(|_| !args.shown.csv) {
        writeln!(out, "Kept in {}: reception.json and report.html.", harmless(&directory.to_string_lossy()))?;
    }
    Ok(())
}

/// The script, or the report on what it has measured.
fn between_machines(args: &Args, results: Option<&Path>) -> anyhow::Result<()> {
    let mut out = output::stdout().lock();
    let Some(results) = results else {
        let script = two_machines::script(&Plan::two_machines(args.quick, args.seed));
        return Ok(out.write_all(script.as_bytes())?);
    };
    let outcomes = two_machines::read(results).map_err(|error| BadInput(error.to_string()))?;
    if args.json.json {
        drop(out);
        return outcomes.iter().try_for_each(|outcome| output::json_event("reception", &Kept::of(outcome)));
    }
    let documents: Vec<Document> = outcomes.iter().map(page::reception::document).collect();
    if let Some(directory) = &args.output {
        files::directory(directory).map_err(|e| BadInput(format!("{}: {e}", directory.display())))?;
        write_page(&directory.join("report.html"), &documents, false, Readers::Owner)?;
    }
    Ok(out.write_all(output::drawn(&documents, args.shown).as_bytes())?)
}

/// Takes the directory away where nothing is in it: its name is free for the next try.
fn leave(args: &Args) {
    if let Some(directory) = &args.output {
        let _ = std::fs::remove_dir(directory);
    }
}

/// Writes what was measured and its page; gives the directory.
fn keep<'a>(directory: &'a Path, event: &Kept<'_>, document: &Document) -> anyhow::Result<&'a Path> {
    files::write(&directory.join(kept::FILE), &serde_json::to_vec(event)?, false, Readers::Owner)?;
    write_page(&directory.join("report.html"), std::slice::from_ref(document), false, Readers::Owner)?;
    Ok(directory)
}

fn dry_run(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    if !args.json.json {
        return output::document(&page::reception::planned(plan));
    }
    let techniques: Vec<&str> = plan.techniques.iter().map(|t| t.name()).collect();
    output::json_event(
        "plan",
        &json!({
            "seed": plan.seed, "forecast_ns": Nanos::from(plan.forecast()), "techniques": techniques,
            "frame_sizes": plan.frame_sizes, "line_rates": plan.line_rates, "repetitions": plan.repetitions,
        }),
    )
}
