//! `wirelapse completions SHELL`: the script by which a shell asks this program what could come
//! next.

pub mod values;

use std::io::Write as _;

use anyhow::Context as _;
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;

/// The variable by which a shell's script says that it asks, and which shell it is.
const VARIABLE: &str = "WIRELAPSE_COMPLETE";

/// Print the script that completes commands, options and values in a shell
///
/// Labs, interfaces, systemd units, programs, studies, fields and congestion controls complete as
/// this machine has them.
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let name = args.shell.to_string();
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(&name).context("this shell has no completions")?;
    shell.write_registration(VARIABLE, "wirelapse", "wirelapse", "wirelapse", &mut script)?;
    crate::output::stdout().write_all(&script)?;
    Ok(())
}

/// Answers a shell that asks what could come next, and ends the process; returns where none asks.
pub fn answer() {
    CompleteEnv::with_factory(crate::help::command).var(VARIABLE).complete();
}
