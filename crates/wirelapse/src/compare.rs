//! `wirelapse compare`.

mod captures;
mod runs;

use std::path::PathBuf;

use crate::exit::BadInput;
use crate::options::{FORCE, Json};

/// Two captures' connections, or two traces, side by side
///
/// Captures are compared to the first point where two connections part. Traces are compared leg by leg: by how much each moved and
/// how surely, which leg explains the difference, and in which peers it sits.
///
/// A capture's connection is chosen with `FILE#N`; without it the first is taken. One file alone is compared within itself:
/// its first connection with its second.
#[derive(clap::Args)]
pub struct Args {
    /// A capture, or `FILE#N` for its connection number N; or the run directory of a trace
    first: String,
    /// Another; left out, the second connection of the first file
    second: Option<String>,
    #[command(flatten)]
    json: Json,
    /// Of two runs: write one self-contained HTML file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    images: crate::report::Images,
    #[arg(long, help = FORCE)]
    force: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if runs::is_run(&args.first) || args.second.as_deref().is_some_and(runs::is_run) {
        return runs::run(args);
    }
    if args.html.is_some() || args.images.any() {
        let problem = "--html, --png and --svg are for two runs; what two captures part in fits a terminal";
        return Err(BadInput(problem.into()).into());
    }
    captures::run(args)
}
