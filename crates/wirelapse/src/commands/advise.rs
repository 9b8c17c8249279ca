//! `wirelapse advise`.

mod conditions;

use std::io::Write as _;
use std::path::PathBuf;

use ::advise::{Advice, Goal, Limits, Progress};
use diagnose::conditions::Conditions;
use record::Nanos;
use record::conversation::Side;

use crate::bar::Bar;
use crate::files::{inputs, readers, write_page};
use crate::interrupt::Interrupt;
use crate::options::{FORCE, Json, heading};
use crate::output::{self, Shown, note};
use ::files::refuse;

/// Find the setting that makes a slow TCP connection faster, and prove it in a lab
///
/// Takes the conditions of a connection from a capture: round trip, rate, queue, loss, options,
/// buffers, and what the two programs wrote and waited for. Builds a twin of it from network
/// namespaces on this machine, and checks that the twin is as slow, for the same reasons. Then
/// tries every setting that could help, in random order, several times, and ranks them by what they
/// were worth. Nothing is set on this host.
///
/// Needs root for the twin. Without it, shows the conditions and what the capture alone promises.
///
/// Object of --json: the advice with all of its figures.
#[derive(clap::Args)]
pub struct Args {
    /// The capture; `FILE#N` for its connection number N. Without a number, the connection that
    /// lost most time to what could be changed
    #[arg(value_name = "FILE[#N]", value_hint = clap::ValueHint::AnyPath)]
    capture: String,
    /// Take at most about this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = quantity::parse::duration_above_zero, help_heading = heading::HOW_MUCH)]
    budget: Nanos,
    /// What is to become better
    #[arg(long, value_name = "GOAL", default_value = "completion", value_parser = goal, help_heading = heading::HOW_MUCH)]
    goal: Goal,
    /// Only settings of the host next to which it was captured
    #[arg(long, help_heading = heading::HOW_MUCH)]
    only_this_host: bool,
    /// Seed of all random draws: order of trials, losses
    #[arg(long, default_value_t = 1, help_heading = heading::HOW_MUCH)]
    seed: u64,
    /// Only read the conditions, and write them as JSON
    #[arg(long, hide = true)]
    conditions: bool,
    /// Also write one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    html: Option<PathBuf>,
    #[arg(long, help = FORCE, help_heading = heading::OUTPUT)]
    force: bool,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    json: Json,
}

fn goal(text: &str) -> Result<Goal, String> {
    let names = Goal::ALL.map(Goal::name).join(", ");
    Goal::ALL.into_iter().find(|goal| goal.name() == text).ok_or(format!("write one of {names}"))
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.conditions {
        return conditions::write(&args.capture, longest(args.budget));
    }
    args.html.as_deref().map_or(Ok(()), |path| refuse(path, args.force))?;
    let until = traffic::now().after(args.budget);
    let chosen = conditions::read(&args.capture, args.budget)?;
    let interrupt = Interrupt::listen()?;
    let mut advice = advise(args, chosen.conditions.clone(), until, interrupt)?;
    advice.chosen = chosen.why;
    show(args, &chosen.file, &advice)
}

/// How much of a connection is run again: every remedy is tried some times within the budget.
fn longest(budget: Nanos) -> Nanos {
    Nanos(budget.0 / 60).clamp(Nanos::from_secs(2), Nanos::from_secs(10))
}

fn advise(
    args: &Args,
    c: Conditions,
    until: record::Instant<record::Monotonic>,
    interrupt: Interrupt,
) -> anyhow::Result<Advice> {
    let only = args.only_this_host.then_some(if c.near == "server" { Side::Server } else { Side::Client });
    let mut why = c.missing.clone();
    if why.is_empty() && !machine::is_root() {
        why.push("without root there is no lab to try it in".into());
    }
    if !why.is_empty() {
        return Ok(Advice::without_twin(c, args.goal, why, only));
    }
    let bar = Bar::new(output::shows_progress(args.json.json), 0, "{bar:30} {pos}/{len}  {msg}");
    let fitted = ::advise::fit(&c, args.seed, &mut |what| bar.show(0, 1, what))?;
    if !fitted.fit.agrees() {
        bar.finish();
        return Ok(Advice::unlike(c, args.goal, fitted, only));
    }
    let (candidates, not) = ::advise::candidates(&c, only);
    let limits = Limits { until, seed: args.seed, goal: args.goal };
    let mut tell = |p: Progress| bar.show(p.done, p.planned, &format!("at most {} left", p.left));
    let tried = ::advise::compare(&c, &fitted, &candidates, limits, &mut tell, &|| !interrupt.came());
    bar.finish();
    Ok(Advice::of_trials(c, args.goal, fitted, tried?, &not)?)
}

fn show(args: &Args, file: &str, advice: &Advice) -> anyhow::Result<()> {
    let document = report::page::advice::document(file, advice);
    if let Some(html) = &args.html {
        let path = conditions::path(&args.capture)?.0;
        write_page(html, std::slice::from_ref(&document), args.force, readers(&inputs([path.as_path()])))?;
        note(&format!("written: {}", html.display()));
    }
    if args.json.json {
        return output::json_event("advice", advice);
    }
    output::stdout().lock().write_all(output::drawn(&[document], args.shown).as_bytes())?;
    Ok(())
}
