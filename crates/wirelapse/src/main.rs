//! `wirelapse`: where does the time go, and would a different setting help?
//!
//! One file per subcommand, and glue only: what a command does lives in the crates below.

mod completions;
mod exit;
mod man;
mod probe;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Where does the time of TCP and UDP on Linux go, and would a different setting help?
#[derive(Parser)]
#[command(name = "wirelapse", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Completions(completions::Args),
    Man(man::Args),
    Probe(probe::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Probe(args) => probe::run(&args),
    };
    exit::code(result)
}
