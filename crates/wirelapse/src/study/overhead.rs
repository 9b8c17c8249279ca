//! `wirelapse study overhead`: what observing costs.

use std::io::Write as _;

use ::study::overhead::{Plan, Progress, run as measure};
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use record::Nanos;
use serde_json::json;

use super::Args;
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::output;

/// The study's name.
pub const NAME: &str = "overhead";

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.until.is_some() || args.output.is_some() || args.host.is_some() {
        let problem = "study overhead measures this machine and keeps no trials: leave --until, --output and --host out, and save \
                       what --json prints";
        return Err(BadInput(problem.into()).into());
    }
    let mut plan = Plan::whole(args.quick, args.seed)?;
    if let Some(budget) = args.budget {
        plan.spend(budget.into());
    }
    if args.dry_run {
        return dry_run(args, &plan);
    }
    let interrupt = Interrupt::listen()?;
    let bar = if output::shows_progress(args.json.json) { ProgressBar::new(1000) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent} %  {msg}, {eta} left") {
        bar.set_style(style);
    }
    let mut tell = |p: &Progress| {
        bar.set_position((p.share * 1000.0) as u64);
        bar.set_message(p.load.name());
    };
    let outcome = measure(&plan, &mut tell, &|| !interrupt.came());
    bar.finish_and_clear();
    let outcome = outcome.context("the study cannot go on")?;
    if args.json.json {
        return output::json_event("overhead", &outcome);
    }
    std::io::stdout().lock().write_all(outcome.text().as_bytes())?;
    Ok(())
}

fn dry_run(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let forecast = Nanos::from(plan.forecast());
    let loads: Vec<String> = plan.loads.iter().map(|load| load.name()).collect();
    if args.json.json {
        let ways: Vec<&str> = plan.ways.iter().map(|way| way.key).collect();
        let loads: Vec<String> = plan.loads.iter().map(|load| load.key()).collect();
        let line = json!({"kind": "plan", "seed": plan.seed, "forecast_ns": forecast, "loads": loads, "ways": ways});
        writeln!(out, "{line}")?;
        return Ok(());
    }
    writeln!(out, "study {NAME}, seed {}: about {}", plan.seed, forecast)?;
    writeln!(out, "  load   {}", loads.join(", "))?;
    for way in &plan.ways {
        writeln!(out, "  way    {}", way.name)?;
    }
    let (warm_up, slice) = (Nanos::from(plan.warm_up), Nanos::from(plan.slice));
    writeln!(out, "  each   {} of warm-up discarded, then {}", warm_up, slice)?;
    Ok(())
}
