//! `wirelapse study overhead`: what observing costs.

use std::io::Write as _;

use ::report::page::{instructions as counted, overhead as page};
use ::study::overhead::instructions::{Counting, count};
use ::study::overhead::{Plan, Progress, run as measure};
use anyhow::Context as _;
use record::Nanos;
use serde_json::json;

use super::{Args, STEPS};
use crate::bar::Bar;
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::output;
use crate::output::complain;

/// The study's name.
pub const NAME: &str = "overhead";

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.until.is_some() || args.output.is_some() || args.host.is_some() {
        let problem = "study overhead measures this machine and keeps no trials: leave --until, --output and --host out, and save \
                       what --json prints";
        return Err(BadInput(problem.into()).into());
    }
    if args.instructions {
        return instructions(args);
    }
    let mut plan = Plan::whole(args.quick, args.seed)?;
    if let Some(budget) = args.budget {
        plan.spend(budget.into());
    }
    if args.quick {
        let (quick, whole) = (plan.forecast(), Plan::whole(false, args.seed)?.forecast());
        complain!(
            "--quick gives rough figures in about {}, and rarely a verdict: the bars are of 0.5 to 2 %, and its few short slices differ by more. \
             Without it the study takes about {}",
            Nanos::from(quick),
            Nanos::from(whole)
        );
    }
    if let Some(why) = plan.too_short() {
        complain!("{why}");
    }
    if args.dry_run {
        return dry_run(args, &plan);
    }
    let interrupt = Interrupt::listen()?;
    let bar = Bar::new(output::shows_progress(args.json.json), STEPS, "{bar:30} {percent} %  {msg}, {eta} left");
    let mut tell = |p: &Progress| bar.show((p.share * STEPS as f64) as usize, STEPS, &p.load.name());
    let outcome = measure(&plan, &mut tell, &|| !interrupt.came());
    bar.finish();
    let outcome = outcome.context("the study cannot go on")?;
    if args.json.json {
        return output::json_event("overhead", &outcome);
    }
    let text = output::drawn(&[page::document(&outcome)], args.shown);
    Ok(output::stdout().lock().write_all(text.as_bytes())?)
}

/// What it takes in instructions, which takes a guest.
fn instructions(args: &Args) -> anyhow::Result<()> {
    let counting = Counting::whole(args.quick);
    if args.dry_run {
        return output::document(&counted::planned(&counting));
    }
    let interrupt = Interrupt::listen()?;
    let bar = Bar::new(output::shows_progress(args.json.json), STEPS, "{bar:30} {percent} %  {msg}, {eta} left");
    let mut tell = |way: &'static str, share: f64| bar.show((share * STEPS as f64) as usize, STEPS, way);
    let counts = count(&counting, &mut tell, &|| !interrupt.came());
    bar.finish();
    let counts = counts.context("the study cannot go on")?;
    if args.json.json {
        return output::json_event("instructions", &counts);
    }
    let text = output::drawn(&[counted::document(&counts)], args.shown);
    Ok(output::stdout().lock().write_all(text.as_bytes())?)
}

fn dry_run(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    if !args.json.json {
        return output::document(&page::planned(plan));
    }
    let ways: Vec<&str> = plan.ways.iter().map(|way| way.key.name()).collect();
    let loads: Vec<String> = plan.loads.iter().map(|load| load.key()).collect();
    let forecast = Nanos::from(plan.forecast());
    output::json_event("plan", &json!({"seed": plan.seed, "forecast_ns": forecast, "loads": loads, "ways": ways}))
}
