//! `wirelapse crr`.

use crate::commands::rr::{Shape, run_shape};

/// Measure transactions with a new connection for each, to `serve`
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: Shape,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    run_shape(&args.shape, true, 1)
}
