//! `wirelapse`: where does the time go, and would a different setting help?
//!
//! One file per subcommand in `commands`, what several of them need beside it, and glue only:
//! what a command does lives in the crates below.

mod bar;
mod commands;
mod congestion;
mod criteria;
mod defaults;
mod exit;
mod files;
mod help;
mod hosts;
mod interrupt;
mod login;
mod memory;
mod options;
mod output;
mod provenance;
mod questions;
mod server;
mod socket_options;
mod terminal;
mod workload;

use std::borrow::Cow;
use std::io::Write as _;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::{FromArgMatches as _, Parser};

/// Faster than the system's where threads follow connections side by side. It does not ask the
/// kernel for large pages (`no_thp`): those take some 20 MiB more however small a capture is, and
/// more of the kernel's time where many connections are followed.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where does the time of TCP and UDP on Linux go, and would a different setting help?
#[derive(Parser)]
#[command(name = "wirelapse", version = VERSION, long_version = LONG_VERSION, propagate_version = true)]
struct Cli {
    /// When to use colour
    #[arg(long, value_enum, value_name = "WHEN", global = true, default_value_t, display_order = 900, help_heading = options::heading::OUTPUT)]
    color: terminal::When,
    /// Show only results and errors, no progress and no notes
    #[arg(long, global = true, display_order = 901, help_heading = options::heading::OUTPUT)]
    quiet: bool,
    #[command(subcommand)]
    command: Option<commands::Command>,
}

/// The version and what it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WIRELAPSE_BUILT"), ")");

/// The same, with what the program can do wherever it was built; `doctor` says what of it the
/// machine can.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("WIRELAPSE_BUILT"),
    ")\nfor ",
    env!("WIRELAPSE_TARGET"),
    "\nwith BPF timestamping, tracepoints, AF_PACKET, AF_XDP, XDP, libpcap, TLS, Parquet, Perfetto"
);

/// The command line; where it is wrong, this ends the process with clap's message. That repeats
/// words of the command line, which may hold names of files: where those steer a terminal the
/// message is in no colours, so that all that steers in it is foreign and can be replaced.
fn parsed() -> anyhow::Result<Cli> {
    let words = defaults::apply(&help::command(), std::env::args_os().collect())?;
    let read = help::command().try_get_matches_from(&words).and_then(|read| Cli::from_arg_matches(&read));
    Ok(read.unwrap_or_else(|error| {
        let steers = |word: std::ffi::OsString| matches!(output::harmless(&word.to_string_lossy()), Cow::Owned(_));
        if !std::env::args_os().any(steers) {
            error.exit();
        }
        match help::command().styles(Styles::plain()).try_get_matches_from(&words) {
            Ok(_) => error.exit(),
            Err(plain) => {
                let _ = write!(output::stderr(), "{}", plain.render().ansi());
                std::process::exit(plain.exit_code())
            }
        }
    }))
}

fn main() -> ExitCode {
    output::tame_panics();
    commands::completions::answer();
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(error) => return exit::code(Err::<(), _>(error)),
    };
    terminal::want(cli.color, cli.quiet);
    match cli.command {
        Some(command) => command.run(),
        None => exit::code(questions::show()),
    }
}
