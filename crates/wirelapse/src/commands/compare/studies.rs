//! Two studies side by side.

use std::path::Path;

use ::report::page;
use ::study::between::{Side, compare};
use ::study::ledger::load;

use super::{Args, show};
use crate::exit::BadInput;
use crate::output;

pub(super) fn run(args: &Args, second: &str) -> anyhow::Result<()> {
    let read = |path: &str| load(Path::new(path)).map_err(|e| BadInput(e.to_string()));
    let ((a, ours, _), (b, theirs, _)) = (read(args.first())?, read(second)?);
    let between = compare(Side { provenance: &a, trials: &ours }, Side { provenance: &b, trials: &theirs });
    show(
        args,
        second,
        |names| page::study::between(names, &between),
        || output::json_event("study_comparison", &between),
    )
}
