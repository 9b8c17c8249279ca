//! `wirelapse`: where does the time go, and would a different setting help?
//!
//! One file per subcommand, and glue only: what a command does lives in the crates below.

mod analyze;
mod calendar;
mod capture;
mod compare;
mod completions;
mod crr;
mod doctor;
mod exit;
mod generate;
mod interrupt;
mod lab;
mod man;
mod options;
mod output;
mod ping_under_load;
mod privileges;
mod probe;
mod report;
mod rr;
mod serve;
mod server;
mod socket_options;
mod stream;
mod study;
mod terminal;
mod trace;
mod udp;
mod watch;

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
    Trace(trace::Args),
    Watch(watch::Args),
    Probe(probe::Args),
    Analyze(analyze::Args),
    Compare(compare::Args),
    Capture(Box<capture::Args>),
    Generate(Box<generate::Args>),
    Report(report::Args),
    Lab(lab::Args),
    Study(study::Args),
    Serve(serve::Args),
    Stream(Box<stream::Args>),
    Rr(Box<rr::Args>),
    Crr(Box<crr::Args>),
    Udp(Box<udp::Args>),
    PingUnderLoad(Box<ping_under_load::Args>),
    Completions(completions::Args),
    Man(man::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Analyze(args) => analyze::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Study(args) => study::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Stream(args) => stream::run(&args),
        Command::Rr(args) => rr::run(&args),
        Command::Crr(args) => crr::run(&args),
        Command::Udp(args) => udp::run(&args),
        Command::PingUnderLoad(args) => ping_under_load::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    exit::code(result)
}
