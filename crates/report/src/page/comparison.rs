//! Traces side by side as documents; [`summary::between`] compares them.

pub mod several;
mod show;
mod words;

use store::{Error, Run};
use summary::between::{About, ByLabels, Reading, Side};

use super::trace;

pub use show::{document, text};
pub use words::{json, json_of_several};

/// Reads a run for comparison: once over its tables, and once more over its requests where their
/// methods and paths are compared.
///
/// # Errors
/// Those of [`trace::read`].
pub fn read(name: &str, run: &Run) -> Result<Side, Error> {
    let mut reading = Reading::default();
    let trace = trace::read_with(run, &mut |event| reading.add(event))?;
    let mut labels = ByLabels::new(&trace.figures);
    if !labels.is_empty() {
        let read = run.requests(|request| labels.add(&request));
        // What of the table cannot be read was said when it was read for the first time.
        trace::incomplete(run, read, &mut Vec::new())?;
    }
    let facts = trace.facts;
    let about = About {
        target: facts.target,
        lasted: facts.lasted,
        sampling: facts.sampling,
        backend: facts.backend,
        kernel: run.provenance().kernel.clone(),
        lost: facts.lost,
        coverage: facts.coverage,
        warnings: trace.warnings,
    };
    Ok(reading.finish(name, about, trace.figures, labels))
}
