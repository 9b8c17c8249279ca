//! `wirelapse query`: hands over to `wirelapse-query`, a separate program because of its size.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context as _;
use machine::programs;
use record::table::{Record, object};

use crate::exit::BadInput;
use crate::output;

/// The program that answers queries.
const PROGRAM: &str = "wirelapse-query";

/// Query runs with SQL: one run, or a year of a fleet
///
/// Runs the program wirelapse-query, found beside this one or in PATH; `wirelapse query --help`
/// shows its options.
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
    let error = programs::command(&program).args(&args.arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// Where the program is: beside this one, or in PATH; as root, in a folder of the system.
///
/// # Errors
/// [`BadInput`] where it is neither, with what to do.
pub fn program() -> Result<PathBuf, BadInput> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    beside.filter(|file| file.is_file()).or_else(|| programs::find(PROGRAM)).ok_or_else(|| {
        BadInput(format!(
            "{PROGRAM} is neither beside this program nor in PATH (as root: in a folder of the system): install the Debian package {PROGRAM}, or build it with \
             `cargo build --profile query -p {PROGRAM}` and put it there"
        ))
    })
}

/// The rows that `wirelapse-query weeks` answers with, read back by their table.
///
/// # Errors
/// [`BadInput`] with what the program says where it refuses the runs, and a row that lacks a field.
pub fn weeks<R: Record>(runs: &str, ask: &[String]) -> anyhow::Result<Vec<R>> {
    let program = program()?;
    let done = programs::command(&program)
        .args(["weeks", "--runs", runs])
        .args(ask)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(0) => {}
        Some(2) => return Err(BadInput(said.trim().to_owned()).into()),
        _ => return Err(io::Error::other(said.trim().to_owned()).into()),
    }
    // What was skipped is for the person, not for the figures.
    write!(output::stderr(), "{said}")?;
    let row = |line: &str| {
        let object = serde_json::from_str(line).context("wirelapse-query gives a line that is no JSON object")?;
        object::read(&object).map_err(|why| anyhow::anyhow!("wirelapse-query gives a row in which {why}: {line}"))
    };
    String::from_utf8_lossy(&done.stdout).lines().map(row).collect()
}
