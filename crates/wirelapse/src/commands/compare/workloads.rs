//! Two runs of a workload side by side.

use std::path::Path;

use ::report::page::workload::between;
use traffic::between::compare;
use traffic::kept::Run;

use super::{Args, show};
use crate::exit::BadInput;
use crate::output;

pub(super) fn run(args: &Args, second: &str) -> anyhow::Result<()> {
    let ((a, ours), (b, theirs)) = (Run::read(Path::new(args.first()))?, Run::read(Path::new(second))?);
    let between = compare((&a, &ours), (&b, &theirs))?.ok_or_else(|| {
        BadInput(format!(
            "{} is a run of {} and {second} one of {}: two runs of the same workload compare",
            args.first(),
            a.workload(),
            b.workload()
        ))
    })?;
    show(
        args,
        second,
        |names| between::document(names, &between),
        || output::json_event("workload_comparison", &between),
    )
}
