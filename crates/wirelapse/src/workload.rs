//! What every workload does with its outcome: it is shown, written as JSON lines, and kept as a
//! run.

use anyhow::Context as _;
use report::page::workload as page;
use store::workload::Provenance;
use traffic::kept::Run;

use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::options::Output;
use crate::output::{self, json_event};
use crate::server::command_line;

/// Refuses a place for the run that is taken, before anything is measured.
pub fn check(output: &Output) -> anyhow::Result<()> {
    let Some(path) = &output.output else { return Ok(()) };
    Ok(store::workload::refuse(path).map_err(|e| BadInput(e.to_string()))?)
}

/// Keeps the run where that was asked for, and shows what came of it.
pub fn show(run: &Run, output: &Output, json: bool) -> anyhow::Result<()> {
    // What cannot be kept is shown all the same.
    let kept = keep(run, output);
    if json {
        lines(run, false)?;
    } else {
        output::document(&page::document(run))?;
    }
    kept
}

/// Ends a command after its report: with an error where the workload broke off before its time,
/// unless the user asked for that.
pub fn end(interrupted: Option<String>, interrupt: Interrupt) -> anyhow::Result<()> {
    match interrupted {
        Some(why) if !interrupt.came() => anyhow::bail!("{why}; what was measured until then is above"),
        _ => Ok(()),
    }
}

/// Keeps the run where that was asked for.
pub fn keep(run: &Run, output: &Output) -> anyhow::Result<()> {
    let Some(path) = &output.output else { return Ok(()) };
    run.write(path, provenance()).context("what was measured is not kept")
}

/// What made a run, and on what.
pub fn provenance() -> Provenance {
    let machine::Names { kernel, hardware, cpus, .. } = machine::Names::here();
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command_line: command_line(std::env::args_os().map(|word| word.to_string_lossy().into_owned())),
        kernel,
        machine: hardware,
        cpus,
        clock: timestamping::conversion::<record::Monotonic, record::Realtime>().into(),
    }
}

/// The objects of `--json`. Those of the intervals of `stream` are written as they come while it
/// runs; `all` has them too.
pub fn lines(run: &Run, all: bool) -> anyhow::Result<()> {
    match run {
        Run::Stream(_, outcome) => {
            for sample in outcome.series.iter().filter(|_| all) {
                json_event("interval", sample)?;
            }
            json_event("outcome", outcome)
        }
        Run::Transactions(_, outcome) => {
            outcome.series.iter().try_for_each(|interval| json_event("interval", interval))?;
            outcome.slowest.iter().try_for_each(|slow| json_event("slow", slow))?;
            json_event("outcome", outcome)
        }
        Run::Udp(_, outcome) => {
            outcome.series.iter().try_for_each(|interval| json_event("interval", interval))?;
            json_event("outcome", outcome)
        }
        Run::Responsiveness(_, outcome) => {
            outcome.intervals.iter().try_for_each(|interval| json_event("interval", interval))?;
            outcome.probes.iter().try_for_each(|probe| json_event("probe", probe))?;
            let mut rest = serde_json::to_value(outcome)?;
            // They are above, one a line.
            rest.as_object_mut()
                .into_iter()
                .for_each(|o| o.retain(|key, _| !["intervals", "probes"].contains(&key.as_str())));
            json_event("outcome", &rest)
        }
        Run::Load(_, outcome) => {
            outcome.probes.iter().try_for_each(|probed| json_event("probe", probed))?;
            json_event(
                "outcome",
                &serde_json::json!({
                    "started_realtime_ns": outcome.started_realtime,
                    "elapsed_ns": outcome.elapsed,
                    "load_started_ns": outcome.load_started,
                    "filled_ns": outcome.filled,
                    "load_ended_ns": outcome.load_ended,
                    "drained_ns": outcome.drained,
                    "stream": outcome.stream,
                    "interrupted": outcome.interrupted,
                }),
            )
        }
    }
}
