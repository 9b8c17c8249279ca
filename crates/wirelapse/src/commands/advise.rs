//! `wirelapse advise`.

mod apply;
mod conditions;
mod traced;
mod watch;

use std::io::Write as _;
use std::path::PathBuf;

use ::advise::{Advice, Done, Goal, Left, Limits, Progress, kept};
use anyhow::Context as _;
use diagnose::conditions::Conditions;
use record::Nanos;
use record::conversation::Side;

use crate::bar::Bar;
use crate::files::{inputs, readers, write_page};
use crate::interrupt::Interrupt;
use crate::options::{FORCE, Json, Output, heading};
use crate::output::{self, Shown, note};
use crate::workload;
use ::files::refuse;
use apply::InForce;
use traced::Traced;

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
/// Objects of --json: the advice with all of its figures; with --watch, each look after it.
#[derive(clap::Args)]
pub struct Args {
    /// A capture, or the run of a trace with its packets; `FILE#N` for connection number N. Without
    /// a number, the connection that lost most time to what could be changed
    #[arg(value_name = "FILE[#N]|RUN", value_hint = clap::ValueHint::AnyPath, required_unless_present = "pid")]
    capture: Option<String>,
    /// Trace this process instead, with the packets of the connections that it opens meanwhile
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "capture", help_heading = heading::WHAT)]
    pid: Option<u32>,
    /// Take connection number N, as `FILE#N` does
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::WHAT)]
    connection: Option<u32>,
    /// How long to trace with --pid
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = quantity::parse::seconds_above_zero, requires = "pid", help_heading = heading::HOW_MUCH)]
    lasts: Nanos,
    /// Take at most about this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = quantity::parse::duration_above_zero, help_heading = heading::HOW_MUCH)]
    budget: Nanos,
    /// What is to become better: completion, throughput or latency [default: latency where a long
    /// queue is what was found to cost most, otherwise completion]
    #[arg(long, value_name = "GOAL", value_parser = goal, help_heading = heading::HOW_MUCH)]
    goal: Option<Goal>,
    /// Only settings of the host next to which it was captured
    #[arg(long, help_heading = heading::HOW_MUCH)]
    only_this_host: bool,
    /// Set the best setting on this host, where it is a sysctl, trace the process again, say
    /// whether it does what was promised, and put it back
    #[arg(long, requires = "pid", help_heading = "On this host")]
    apply: bool,
    /// Leave it set where it does what was promised
    #[arg(long, requires = "apply", help_heading = "On this host")]
    keep: bool,
    /// Go on until a signal: look again and again whether it still does what was promised, put it
    /// back where it does not, and then advise anew
    #[arg(long, requires = "apply", conflicts_with_all = ["output", "html"], help_heading = "On this host")]
    watch: bool,
    /// How long to wait between two looks of --watch
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = quantity::parse::duration_above_zero, requires = "watch", help_heading = "On this host")]
    every: Nanos,
    /// Seed of all random draws: order of trials, losses
    #[arg(long, default_value_t = 1, help_heading = heading::HOW_MUCH)]
    seed: u64,
    /// Only read the conditions, and write them as JSON
    #[arg(long, hide = true)]
    conditions: bool,
    /// Also write one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    html: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
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
    if let Some(capture) = args.capture.as_ref().filter(|_| args.conditions) {
        return conditions::write(capture, longest(args.budget));
    }
    args.html.as_deref().map_or(Ok(()), |path| refuse(path, args.force))?;
    workload::check(&args.output)?;
    if let (Some(pid), true) = (args.pid, args.apply) {
        apply::check(pid)?;
    }
    let interrupt = Interrupt::listen()?;
    match args.pid.filter(|_| args.watch) {
        Some(pid) => watch::watch(args, pid, interrupt),
        None => once(args, interrupt).map(drop),
    }
}

/// Advises, and tries on this host what is to be tried there. Gives what stays set to be watched;
/// anything else is put back, or left for good, before the page says so.
fn once(args: &Args, interrupt: Interrupt) -> anyhow::Result<Option<InForce>> {
    let traced = args.pid.map(|pid| Traced::of(pid, args.lasts)).transpose()?;
    let place = match (&traced, &args.capture) {
        (Some(traced), _) => traced.run().display().to_string(),
        (None, capture) => capture.clone().unwrap_or_default(),
    };
    let until = traffic::now().after(args.budget);
    let argument = args.connection.map_or_else(|| place.clone(), |n| format!("{place}#{n}"));
    let mut chosen = conditions::read(&argument, args.budget)?;
    if let Some(pid) = args.pid {
        chosen.file = format!("process {pid}");
    }
    let (mut advice, trials) = advise(args, chosen.conditions.clone(), until, interrupt)?;
    advice.chosen.clone_from(&chosen.why);
    let in_force = match args.pid.filter(|_| args.apply) {
        Some(pid) => apply::apply(&advice, &chosen, (pid, args.lasts, args.budget), args.then())?,
        None => None,
    };
    advice.applied = in_force.as_ref().map(|set| set.applied.clone());
    let watched = match in_force {
        Some(set) if set.applied.left != Left::Watched => {
            let left = set.applied.left;
            set.over(left)?;
            None
        }
        other => other,
    };
    show(args, (&chosen.file, &place), &advice)?;
    if let Some(run) = &args.output.output {
        kept::write(run, workload::provenance(), &chosen.file, &advice, &trials).context("the advice is not kept")?;
        note(&format!("written: {}", run.display()));
    }
    Ok(watched)
}

impl Args {
    /// What becomes of a setting that does what was promised.
    fn then(&self) -> Left {
        match (self.watch, self.keep) {
            (true, _) => Left::Watched,
            (false, true) => Left::Set,
            (false, false) => Left::PutBack,
        }
    }
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
) -> anyhow::Result<(Advice, Vec<Done>)> {
    let goal = args.goal.unwrap_or_else(|| Goal::likely(&c));
    let only =
        (args.only_this_host || args.apply).then_some(if c.near == "server" { Side::Server } else { Side::Client });
    let mut why = c.missing.clone();
    if why.is_empty() && !machine::is_root() {
        why.push("without root there is no lab to try it in".into());
    }
    if !why.is_empty() {
        return Ok((Advice::without_twin(c, goal, why, only), Vec::new()));
    }
    let bar = Bar::new(output::shows_progress(args.json.json), 0, "{bar:30} {pos}/{len}  {msg}");
    let fitted = ::advise::fit(&c, args.seed, &mut |what| bar.show(0, 1, what))?;
    if !fitted.fit.agrees() {
        bar.finish();
        return Ok((Advice::unlike(c, goal, fitted, only), Vec::new()));
    }
    let (candidates, not) = ::advise::candidates(&c, only);
    let limits = Limits { until, seed: args.seed, goal };
    let mut tell = |p: Progress| bar.show(p.done, p.planned, &format!("at most {} left", p.left));
    let go_on = || !interrupt.came();
    // The rest of the time is for combinations.
    let left = until.saturating_since(traffic::now()).0;
    let singly = Limits { until: traffic::now().after(Nanos(left / 10 * 7)), ..limits };
    let mut compared = ::advise::compare(&c, &fitted, &candidates, singly, &mut tell, &go_on)?;
    let (combination, more) = ::advise::combine(&c, &fitted, &compared.tried, limits, &mut tell, &go_on)?;
    bar.finish();
    let advice = Advice::of_trials(c, goal, &fitted, &compared, combination.as_ref(), &not)?;
    compared.trials.extend(more);
    Ok((advice, compared.trials))
}

fn show(args: &Args, (file, place): (&str, &str), advice: &Advice) -> anyhow::Result<()> {
    let document = report::page::advice::document(file, advice);
    if let Some(html) = &args.html {
        let path = conditions::path(place)?.0;
        write_page(html, std::slice::from_ref(&document), args.force, readers(&inputs([path.as_path()])))?;
        note(&format!("written: {}", html.display()));
    }
    if args.json.json {
        return output::json_event("advice", advice);
    }
    output::stdout().lock().write_all(output::drawn(&[document], args.shown).as_bytes())?;
    Ok(())
}
