//! `wirelapse crr`.

use crate::commands::rr::{Shape, run_shape};

/// Request and response over a connection each, which the server closes
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: Shape,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    run_shape(&args.shape, true, 1)
}
