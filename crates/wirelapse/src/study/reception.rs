//! `wirelapse study reception`: ways to receive and stamp packets.

use std::io::Write as _;

use ::report::{page, terminal as renderer};
use ::study::reception::{Plan, Progress, compare, run as measure};
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use record::Nanos;
use serde_json::json;

use super::Args;
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::output;
use crate::report::write_page;
use crate::terminal::canvas;

/// The study's name.
pub const NAME: &str = "reception";

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.until.is_some() || args.budget.is_some() || args.host.is_some() {
        let problem =
            "study reception measures this machine by a plan of fixed length: leave --until, --budget and --host out";
        return Err(BadInput(problem.into()).into());
    }
    let plan = Plan::whole(args.quick, args.seed);
    if args.dry_run {
        return dry_run(args, &plan);
    }
    if let Some(directory) = &args.output {
        std::fs::create_dir(directory).map_err(|e| BadInput(format!("{}: {e}", directory.display())))?;
    }
    let interrupt = Interrupt::listen()?;
    let bar = if output::shows_progress(args.json.json) { ProgressBar::new(1000) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent} %  {msg}, {eta} left") {
        bar.set_style(style);
    }
    let mut tell = |p: &Progress| {
        bar.set_position((p.share * 1000.0) as u64);
        bar.set_message(p.label);
    };
    let outcome = measure(&plan, &mut tell, &|| !interrupt.came());
    bar.finish_and_clear();
    let outcome = outcome.context("the study cannot go on")?;
    let document = page::reception::document(&outcome);
    let event = json!({"outcome": outcome, "findings": compare(&outcome)});
    if let Some(directory) = &args.output {
        let path = directory.join("reception.json");
        crate::report::place(&path, event.to_string().as_bytes())?;
        write_page(&directory.join("report.html"), std::slice::from_ref(&document), false)?;
    }
    if args.json.json {
        return output::json_event("reception", &event);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(renderer::text(&canvas(), &[document]).as_bytes())?;
    if let Some(directory) = &args.output {
        writeln!(out, "Kept in {}: reception.json and report.html.", directory.display())?;
    }
    Ok(())
}

fn dry_run(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let forecast = Nanos::from(plan.forecast());
    let techniques: Vec<&str> = plan.techniques.iter().map(|t| t.name()).collect();
    if args.json.json {
        let line = json!({
            "kind": "plan", "seed": plan.seed, "forecast_ns": forecast.0, "techniques": techniques,
            "frame_sizes": plan.frame_sizes, "line_rates": plan.line_rates, "repetitions": plan.repetitions,
        });
        writeln!(out, "{line}")?;
        return Ok(());
    }
    let sizes: Vec<String> = plan.frame_sizes.iter().map(u16::to_string).collect();
    let rates: Vec<String> = plan.line_rates.iter().map(|r| quantity::bit_rate(*r as f64)).collect();
    writeln!(out, "study {NAME}, seed {}: about {forecast}", plan.seed)?;
    writeln!(out, "  vary   technique = {}", techniques.join(", "))?;
    writeln!(out, "  vary   frame size = {} bytes", sizes.join(", "))?;
    writeln!(out, "  vary   frames as many as a link carries of {}", rates.join(", "))?;
    writeln!(out, "  vary   CPU = {}", ::study::reception::CPU.join(", "))?;
    let trial = Nanos::from(plan.trial);
    writeln!(out, "  each   {trial}, {} blocks of {} trials in random order", plan.repetitions, plan.combinations())?;
    writeln!(
        out,
        "  then   the highest lossless rate of each, {} series of {} frames, a step of 50 µs in {}",
        plan.series.0,
        quantity::count(plan.series.1),
        quantity::counted(plan.step.0, "frame")
    )?;
    Ok(())
}
