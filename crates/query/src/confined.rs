//! What this program keeps of the rights that it was started with. Runs are files of others: they
//! are decoded without a right of root's.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::arguments::{Cli, Command, Server};
use crate::place::directory;
use crate::{prompt, rollup};

/// Keeps what the command takes, for good. To be called before there are other threads.
///
/// # Errors
/// Where a right that is not needed cannot be given up.
pub fn keep(cli: &Cli) -> Result<(), rights::Error> {
    // What is spilled, and an executor's directory where it is given none.
    let spilled = Some(std::env::temp_dir());
    match &cli.command {
        Some(Command::Man) => Ok(()),
        Some(Command::Server(Server::Scheduler { .. })) => rights::keep_for_queries(None, &[], &[]),
        Some(Command::Server(Server::Executor { directory, .. })) => {
            let written = [directory.clone(), spilled];
            rights::keep_for_queries(None, &[], &there(&written))
        }
        Some(Command::Weeks(ask)) => {
            let written = [made(rollup::cache()), spilled];
            rights::keep_for_queries(directory(&ask.runs), &[], &there(&written))
        }
        None => {
            let query = &cli.query;
            let runs = directory(&query.runs);
            let kept = if query.fresh || runs.is_none() { None } else { made(rollup::cache()) };
            let history = if query.prompts() { made(prompt::state()) } else { None };
            let page: Vec<&Path> = query.html.as_deref().map(files::folder).into_iter().collect();
            rights::keep_for_queries(runs, &page, &there(&[kept, history, spilled]))
        }
    }
}

/// A directory of this user's, which is made where it is not there; `None` where it cannot be, so
/// that nothing is kept in it.
fn made(folder: Option<PathBuf>) -> Option<PathBuf> {
    folder.filter(|folder| DirBuilder::new().recursive(true).mode(0o700).create(folder).is_ok())
}

fn there(folders: &[Option<PathBuf>]) -> Vec<&Path> {
    folders.iter().flatten().map(PathBuf::as_path).filter(|folder| folder.is_dir()).collect()
}
