//! `wirelapse`: where does the time go, and would a different setting help?
//!
//! One file per subcommand, and glue only: what a command does lives in the crates below.

mod completions;
mod doctor;
mod exit;
mod lab;
mod man;
mod trace;

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
    Doctor(doctor::Args),
    Completions(completions::Args),
    Lab(lab::Args),
    Man(man::Args),
    Trace(trace::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Trace(args) => trace::run(&args),
    };
    exit::code(result)
}
