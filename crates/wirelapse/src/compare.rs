//! `wirelapse compare`.

mod captures;
mod runs;

use std::path::PathBuf;

use crate::exit::BadInput;

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
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// Of two runs: write one self-contained HTML file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write over the HTML file where it exists
    #[arg(long, requires = "html")]
    force: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if runs::is_run(&args.first) || args.second.as_deref().is_some_and(runs::is_run) {
        return runs::run(args);
    }
    if args.html.is_some() {
        return Err(BadInput("--html is for two runs; what two captures part in fits a terminal".into()).into());
    }
    captures::run(args)
}
