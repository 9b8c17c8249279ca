//! `wirelapse compare`.

mod captures;

/// Two connections side by side, to the first point where they part
///
/// A capture's connection is chosen with `FILE#N`; without it the first is taken. One file alone is compared within itself:
/// its first connection with its second.
#[derive(clap::Args)]
pub struct Args {
    /// A capture, or `FILE#N` for its connection number N
    first: String,
    /// Another; left out, the second connection of the first file
    second: Option<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    captures::run(args)
}
