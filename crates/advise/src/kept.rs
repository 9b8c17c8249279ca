//! Advice and the trials behind it as a run, which `report` shows again.

use std::path::Path;
use std::time::SystemTime;

use record::columns;
use serde_json::Value;
use store::workload::{Head, Provenance, Writer, head};

use crate::{Advice, Done};

/// The name of its run's workload.
pub const NAME: &str = "advise";

columns! {
    Done: "advice_trials", "", blank = Done::default();
    with = with, "the remedies of this trial, joined by ` + `; empty: the twin as the original was seen";
    block = block, "its block: the trials of one are compared with one another, and have the same losses";
    time_ns = time_ns, null "the trial failed, or had no time of the kind that is compared", "the time that is compared; where it was not over, its bound";
    finished = finished, "it came to its end within its bound";
}

/// Keeps advice on a connection of the capture called `file`.
///
/// # Errors
/// [`store::Error`].
pub fn write(
    path: &Path,
    provenance: Provenance,
    file: &str,
    advice: &Advice,
    trials: &[Done],
) -> Result<(), store::Error> {
    let writer = Writer::create(path)?;
    writer.table(trials)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    writer.table(&advice.rows(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)))?;
    let outcome = serde_json::to_value(advice).unwrap_or(Value::Null);
    writer.finish(Head { provenance, workload: NAME.into(), config: Value::String(file.into()), outcome })
}

/// What such a run holds: the capture's name and the advice; `None` for the run of another
/// workload.
///
/// # Errors
/// [`store::Error`], where it is no run of a workload or holds no advice.
pub fn read(path: &Path) -> Result<Option<(String, Advice)>, store::Error> {
    let Head { workload, config, outcome, .. } = head(path)?;
    if workload != NAME {
        return Ok(None);
    }
    let advice = serde_json::from_value(outcome)
        .map_err(|e| store::Error::Malformed { path: path.join("run.json"), detail: e.to_string() })?;
    Ok(Some((config.as_str().unwrap_or_default().to_owned(), advice)))
}
