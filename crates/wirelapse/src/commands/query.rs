//! `wirelapse query`: hands over to `wirelapse-query`, a separate program because of its size.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use crate::exit::BadInput;

/// The program that answers queries.
const PROGRAM: &str = "wirelapse-query";

/// Query runs with SQL: one run, or a year of a fleet
///
/// Runs the program wirelapse-query, found beside this one or in PATH; `wirelapse query --help` shows its options.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What wirelapse-query takes: SQL, --runs DIR, --named NAME, --list, …
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let program = program()?;
    // The engine takes this process's place, so that signals and its exit status are its own.
    let error = Command::new(&program).args(&args.arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// Where the program is: beside this one, or in PATH.
///
/// # Errors
/// [`BadInput`] where it is neither, with what to do.
pub fn program() -> Result<PathBuf, BadInput> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let path = std::env::var_os("PATH");
    let in_path =
        std::env::split_paths(path.as_deref().unwrap_or(OsStr::new(""))).map(|directory| directory.join(PROGRAM));
    beside.into_iter().chain(in_path).find(|file| file.is_file()).ok_or_else(|| {
        BadInput(format!(
            "{PROGRAM} is neither beside this program nor in PATH: install the Debian package {PROGRAM}, or build it with \
             `cargo build --profile query -p {PROGRAM}` and put it there"
        ))
    })
}

/// The rows of a query's answer, as JSON objects.
///
/// # Errors
/// [`BadInput`] with what the program says where it refuses the runs or the query.
pub fn rows(runs: &str, sql: &str) -> anyhow::Result<Vec<serde_json::Value>> {
    let program = program()?;
    let done = Command::new(&program)
        .args(["--format", "json", "--runs", runs, sql])
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(0) => {}
        Some(2) => return Err(BadInput(said.trim().to_owned()).into()),
        _ => return Err(io::Error::other(said.trim().to_owned()).into()),
    }
    // What was skipped is for the person, not for the figures.
    eprint!("{said}");
    String::from_utf8_lossy(&done.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).context("wirelapse-query gives a line that is no JSON"))
        .collect()
}
