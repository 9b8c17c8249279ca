//! `wirelapse completions SHELL`.

use std::io::Write as _;

use clap::CommandFactory as _;

/// Print the completion script of a shell
#[derive(clap::Args)]
pub struct Args {
    /// For which shell
    shell: clap_complete::Shell,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "wirelapse", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
