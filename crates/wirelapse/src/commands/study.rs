//! `wirelapse study`.

mod overhead;
mod reception;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ::report::page;
use ::study::ledger::{Ledger, Provenance};
use ::study::{Ended, Ground, Limits, Peer, Progress, Study, ThisHost, Trial, builtin, plan_file};
use anyhow::Context as _;
use clap_complete::engine::ArgValueCompleter;
use quantity::{Address, parse};
use record::Nanos;
use serde_json::json;
use traffic::tls::Trusted;

use crate::bar::Bar;
use crate::commands::completions::values;
use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::options::{self, Json, OUTPUT, heading};
use crate::output::{self, Shown, say};
use crate::server::{self, PORT, Token};

/// Find out what a setting is worth, and how surely, with a planned experiment in a lab
///
/// Runs a built-in study or a plan (TOML) in randomised blocks, each trial in its own lab. The
/// result is what the change is worth, with an interval, and what first principles predict.
///
/// With --host the trials run from this host to a `wirelapse serve` on another one. Settings that
/// only a lab has (delay, rate, loss, …) are refused then. Sysctls of this host are changed only
/// with --on-this-host, and always restored.
///
/// Objects of --json: each trial as it comes, then the conclusion.
///
/// Built-in: timestamps, small-messages, window-scaling, congestion; overhead: what observing
/// costs, on this machine; and reception: ways to receive and timestamp packets, how many each can
/// take, and how far its timestamps can be trusted.
#[derive(clap::Args)]
pub struct Args {
    /// A built-in study, or a plan in a TOML file
    #[arg(value_name = "STUDY|PLAN.toml", required_unless_present = "resume", add = ArgValueCompleter::new(values::study))]
    what: Option<String>,
    /// Fewer levels and repetitions, shorter trials
    #[arg(long, help_heading = heading::HOW_MUCH)]
    quick: bool,
    /// Continue until every interval is this narrow to either side, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = width, help_heading = heading::HOW_MUCH)]
    until: Option<f64>,
    /// Take at most this time
    #[arg(long, value_name = "TIME", value_parser = parse::duration_above_zero, help_heading = heading::HOW_MUCH)]
    budget: Option<Nanos>,
    /// Seed of all random draws: order of trials, losses, resampling
    #[arg(long, default_value_t = 1, help_heading = heading::HOW_MUCH)]
    seed: u64,
    /// Only print the plan and how long it takes
    #[arg(long, help_heading = heading::HOW_MUCH)]
    dry_run: bool,
    /// Measure between this host and a `wirelapse serve` on that one, instead of in a lab [default
    /// port: 5201]
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "resume", value_parser = parse::address, help_heading = "Real hosts")]
    host: Option<Address>,
    /// With --host: the plan may change sysctls (net.…) of this host. They are restored at the end,
    /// also after SIGKILL
    #[arg(long, requires = "host", help_heading = "Real hosts")]
    on_this_host: bool,
    /// study reception: print the script that measures between two machines with NICs, with what to
    /// connect; or report on the directory of its results
    #[arg(long, value_name = "RESULTS", num_args = 0..=1, conflicts_with_all = ["host", "resume", "until", "budget", "dry_run"], help_heading = "Real hosts", value_hint = clap::ValueHint::DirPath)]
    two_machines: Option<Option<PathBuf>>,
    /// study overhead: count instructions rather than time, in a guest whose clock counts them
    #[arg(long, conflicts_with_all = ["host", "resume", "until", "budget"], help_heading = heading::HOW_MUCH)]
    instructions: bool,
    #[command(flatten)]
    token: Token,
    #[arg(long, value_name = "FILE", help = server::TLS_CA, help_heading = heading::SECURITY)]
    tls_ca: Option<PathBuf>,
    #[arg(short, long, value_name = "RUN", conflicts_with = "resume", help = OUTPUT, help_heading = heading::OUTPUT)]
    output: Option<PathBuf>,
    /// Continue the study in this run directory
    #[arg(long, value_name = "RUN", conflicts_with_all = ["what", "quick", "seed"], help_heading = heading::OUTPUT, value_hint = clap::ValueHint::DirPath)]
    resume: Option<PathBuf>,
    #[arg(long, help = options::FORCE, conflicts_with = "resume", help_heading = heading::OUTPUT)]
    force: bool,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    json: Json,
}

fn width(text: &str) -> Result<f64, String> {
    let share = parse::share(text).map_err(|e| e.to_string())?;
    if share > 0.0 { Ok(share) } else { Err("this must be above zero; write a share such as 1%".into()) }
}

fn chosen(args: &Args, what: &str) -> anyhow::Result<Study> {
    if let Some(builtin) = builtin::find(what) {
        return Ok(match &args.host {
            Some(host) => builtin.study_between_hosts(args.quick, &host.to_string(), args.on_this_host),
            None => builtin.study(args.quick),
        });
    }
    if !what.ends_with(".toml") && !Path::new(what).exists() {
        let names: Vec<&str> = builtin::ALL.iter().map(|b| b.name).chain(OTHERS).collect();
        let problem = format!("there is no study {what:?}: give a plan's file, or one of {}", names.join(", "));
        return Err(BadInput(problem).into());
    }
    let text = options::text_of(Path::new(what)).map_err(|e| BadInput(format!("{what}: {e}")))?;
    let mut plan = plan_file::parse(what, &text)?;
    if args.quick {
        plan.repetitions = plan.repetitions.min(3);
        plan.duration = plan.duration.min(Nanos::from_secs(1));
    }
    let host = args.host.as_ref().map(|host| (host.to_string(), args.on_this_host));
    Ok(Study { name: plan.name.clone(), builtin: false, plans: vec![plan], host })
}

/// Where the study's trials run. Takes this host's sysctls where the study changes them.
fn ground(args: &Args, study: &Study) -> anyhow::Result<Ground> {
    let Some((host, _)) = &study.host else {
        return match &args.tls_ca {
            None => Ok(Ground::Lab),
            Some(_) => Err(BadInput("--tls-ca is for a study between hosts: name the other with --host".into()).into()),
        };
    };
    let host = parse::address(host)?;
    let addresses = server::answering_first(server::resolve(&host, PORT)?)?;
    let tls = args.tls_ca.clone().map(|certificate| Trusted { certificate, name: host.host });
    let names = study.sysctls_of_this_host();
    let this_host = if names.is_empty() { None } else { Some(ThisHost::take(&names)?) };
    Ok(Ground::Peer(Peer { addresses, token: args.token.read()?, tls, this_host }))
}

/// Of the bar of a study that has no count of trials.
const STEPS: usize = 1000;

/// The studies that no plan describes.
pub const OTHERS: [&str; 2] = [overhead::NAME, reception::NAME];

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.two_machines.is_some() && args.what.as_deref() != Some(reception::NAME) {
        return Err(BadInput("--two-machines is for `study reception`".into()).into());
    }
    if args.instructions && args.what.as_deref() != Some(overhead::NAME) {
        return Err(BadInput("--instructions is for `study overhead`".into()).into());
    }
    if args.what.as_deref() == Some(overhead::NAME) {
        return overhead::run(args);
    }
    if args.what.as_deref() == Some(reception::NAME) {
        return reception::run(args);
    }
    let (study, seed, mut ledger, mut trials) = match &args.resume {
        Some(directory) => {
            let (mut ledger, trials) = Ledger::resume(directory)?;
            args.until.map_or(Ok(()), |until| ledger.go_on_until(until))?;
            let Provenance { study, seed, .. } = ledger.provenance().clone();
            (study, seed, Some(ledger), trials)
        }
        None => {
            let mut study = chosen(args, args.what.as_deref().unwrap_or_default())?;
            args.until.into_iter().for_each(|until| study.go_on_until(until));
            (study, args.seed, None, Vec::new())
        }
    };
    study.check()?;
    if args.dry_run {
        return dry_run(args, &study, seed);
    }
    args.output.as_deref().map_or(Ok(()), |run| crate::files::check_run(run, args.force))?;
    let interrupt = Interrupt::listen()?;
    let ground = ground(args, &study)?;
    let mut provenance = match &ledger {
        Some(ledger) => ledger.provenance().clone(),
        None => Provenance::here(&study, seed, server::command_line(std::env::args())),
    };
    if let Some(directory) = &args.output {
        crate::files::remove_run(directory, args.force)?;
        ledger = Some(Ledger::create(directory, provenance.clone())?);
    }
    let limits = Limits { seed, budget: args.budget };
    let planned = study.plans.iter().map(|plan| plan.combinations() * plan.repetitions as usize).sum();
    let bar = Bar::new(output::shows_progress(args.json.json), planned, "{bar:30} {pos}/{len}  {msg}");
    let mut tell = |p: &Progress| bar.show(p.done, p.planned, &format!("{}, {} left", p.label, p.left));
    let json = args.json.json;
    // A line that cannot be written is reported at the end; what is measured is kept all the same.
    let mut told = Ok(());
    let mut record = |trial: &Trial| {
        if json && told.is_ok() {
            told = output::json_event("trial", trial);
        }
        ledger.as_mut().map_or(Ok(()), |l| l.add(trial))
    };
    let go_on = || !interrupt.came();
    let ended = ::study::run(&study, &ground, limits, &mut trials, &mut record, &mut tell, &go_on);
    bar.finish();
    let put_back = match ground {
        Ground::Peer(Peer { this_host: Some(host), .. }) => host.give_back(),
        _ => Ok(()),
    };
    let conclusion = builtin::conclude(&study, &trials, seed);
    let finished = matches!(ended, Ok(Ended::Planned | Ended::Narrow));
    // What was measured is shown, whatever becomes of the disk.
    let keep = |ledger: &mut Ledger| ledger.conclude(&conclusion, finished);
    let kept = ledger.as_mut().map_or(Ok(()), keep);
    if json {
        told = told.and_then(|()| output::json_event("conclusion", &conclusion));
    } else {
        if finished {
            provenance.state = store::State::Finished;
        }
        show(args, &provenance, &trials, ended.as_ref().ok().copied())?;
    }
    put_back?;
    told?;
    if matches!(ended, Ok(Ended::Excluded)) {
        let why = trials.first().and_then(|trial| trial.broken.first()).map_or("", String::as_str);
        kept?;
        anyhow::bail!("the study ended after {} trials, none of which counts, all for one reason: {why}", trials.len());
    }
    ended.map(|_| ()).context("the study ended early; what was measured until then is above")?;
    Ok(kept?)
}

fn show(args: &Args, provenance: &Provenance, trials: &[Trial], ended: Option<Ended>) -> anyhow::Result<()> {
    let directory = args.output.as_ref().or(args.resume.as_ref());
    let name = directory.map(|directory| crate::files::name(directory));
    let document = page::study::document(name.as_deref(), provenance, trials);
    let n = quantity::counted(trials.len() as u64, "trial");
    let ended = match ended {
        Some(Ended::Budget) => Some(format!("The budget was spent after {n}.")),
        Some(Ended::Interrupted) => Some(format!("Interrupted after {n}.")),
        Some(Ended::Narrow) => Some(format!("Every interval is narrow enough after {n}.")),
        Some(Ended::Excluded) => Some(format!("Ended after {n}, none of which counts, all for one reason.")),
        Some(Ended::Planned) | None => None,
    };
    let kept = directory.map(|directory| format!("Kept in {}.", directory.display()));
    let end: Vec<String> = ended.into_iter().chain(kept).collect();
    let mut out = output::stdout().lock();
    out.write_all(output::drawn(&[document], args.shown).as_bytes())?;
    if !args.shown.csv {
        end.iter().for_each(|line| say!("{line}"));
    }
    Ok(())
}

fn dry_run(args: &Args, study: &Study, seed: u64) -> anyhow::Result<()> {
    if args.json.json {
        let plan = json!({"seed": seed, "forecast_ns": study.forecast(), "study": study});
        return output::json_event("plan", &plan);
    }
    output::document(&page::study::plan::planned(study, seed))
}
