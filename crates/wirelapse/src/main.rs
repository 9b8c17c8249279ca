//! `wirelapse`: where does the time go, and would a different setting help?
//!
//! One file per subcommand, and glue only: what a command does lives in the crates below.

mod agent;
mod analyze;
mod capture;
mod compare;
mod completions;
mod criteria;
mod crr;
mod defaults;
mod delay;
mod doctor;
mod exit;
mod files;
mod generate;
mod hosts;
mod interrupt;
mod lab;
mod login;
mod man;
mod memory;
mod options;
mod output;
mod ping_under_load;
mod privileges;
mod probe;
mod provenance;
mod query;
mod report;
mod responsiveness;
mod rr;
mod serve;
mod server;
mod socket_options;
mod stream;
mod study;
mod terminal;
mod top;
mod trace;
mod udp;
mod watch;
mod workload;

use std::borrow::Cow;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::{CommandFactory as _, Parser, Subcommand};

/// Much of the time that a million connections take is that of memory which is new to the process. This allocator asks the kernel for large
/// pages, where it gives any.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where does the time of TCP and UDP on Linux go, and would a different setting help?
#[derive(Parser)]
#[command(name = "wirelapse", version = VERSION, long_version = LONG_VERSION, propagate_version = true)]
struct Cli {
    /// When to colour output
    #[arg(long, value_enum, value_name = "WHEN", global = true, default_value_t, display_order = 900)]
    color: terminal::When,
    /// Show only results and errors: no progress, no notes
    #[arg(long, global = true, display_order = 901)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

/// The version and what it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WIRELAPSE_BUILT"), ")");

/// The same, with what the program can do wherever it was built; `doctor` says what of it the machine can.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("WIRELAPSE_BUILT"),
    ")\nfor ",
    env!("WIRELAPSE_TARGET"),
    "\nwith BPF timestamping, tracepoints, AF_PACKET, AF_XDP, XDP, libpcap, TLS, Parquet, Perfetto"
);

#[derive(Subcommand)]
enum Command {
    Doctor(doctor::Args),
    Agent(agent::Args),
    Trace(trace::Args),
    Top(top::Args),
    Watch(watch::Args),
    Probe(probe::Args),
    Analyze(analyze::Args),
    Compare(compare::Args),
    Capture(Box<capture::Args>),
    Generate(Box<generate::Args>),
    Delay(Box<delay::Args>),
    Report(report::Args),
    Query(query::Args),
    Lab(lab::Args),
    Study(study::Args),
    Serve(serve::Args),
    Stream(Box<stream::Args>),
    Rr(Box<rr::Args>),
    Crr(Box<crr::Args>),
    Udp(Box<udp::Args>),
    PingUnderLoad(Box<ping_under_load::Args>),
    Responsiveness(Box<responsiveness::Args>),
    Completions(completions::Args),
    Man(man::Args),
}

/// The command line; where it is wrong, this ends the process with clap's message. That repeats words of the command line, which may hold
/// names of files: where those steer a terminal the message is in no colours, so that all that steers in it is foreign and can be replaced.
fn parsed() -> anyhow::Result<Cli> {
    let words = defaults::apply(&Cli::command(), std::env::args_os().collect())?;
    Ok(Cli::try_parse_from(&words).unwrap_or_else(|error| {
        let steers = |word: std::ffi::OsString| matches!(output::harmless(&word.to_string_lossy()), Cow::Owned(_));
        if !std::env::args_os().any(steers) {
            error.exit();
        }
        match Cli::command().styles(Styles::plain()).try_get_matches_from(&words) {
            Ok(_) => error.exit(),
            Err(plain) => {
                eprint!("{}", output::harmless(&plain.render().ansi().to_string()));
                std::process::exit(plain.exit_code())
            }
        }
    }))
}

fn main() -> ExitCode {
    output::tame_panics();
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(error) => return exit::code(Err::<(), _>(error)),
    };
    terminal::want(cli.color, cli.quiet);
    let result = match cli.command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Trace(args) => return exit::code(trace::run(&args)),
        Command::Top(args) => top::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Analyze(args) => analyze::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Delay(args) => delay::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Query(args) => query::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Study(args) => study::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Stream(args) => stream::run(&args),
        Command::Rr(args) => rr::run(&args),
        Command::Crr(args) => crr::run(&args),
        Command::Udp(args) => udp::run(&args),
        Command::PingUnderLoad(args) => ping_under_load::run(&args),
        Command::Responsiveness(args) => responsiveness::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    exit::code(result)
}
