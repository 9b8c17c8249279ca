//! Other programs that commands start: `docs/privileges.md` names them all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where root looks for programs: folders that root alone writes. What PATH says may be a user's.
const OF_THE_SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The folders with programs: those of PATH, and for root those of the system.
fn folders() -> OsString {
    match rustix::process::geteuid().is_root() {
        true => OF_THE_SYSTEM.into(),
        false => std::env::var_os("PATH").unwrap_or_default(),
    }
}

/// The file of a program that is called so.
pub fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&folders()).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Starts a program, which finds others as this one does.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", folders());
    command
}
