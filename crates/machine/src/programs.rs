//! Other programs that commands start: `docs/privileges.md` names them all.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::SigSet;
use rustix::process::Signal;

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

/// Starts a program, which finds others as this one does, and which signals reach: a keeper, which
/// may be what starts it, has every signal wait.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", folders());
    let signals_come = || Ok(SigSet::empty().thread_set_mask()?);
    // SAFETY: a system call, which takes no memory and no lock.
    unsafe { command.pre_exec(signals_come) };
    command
}

/// Has a program end with the thread that starts it, as SIGTERM ends it: nothing that runs beside a
/// process outlives that.
pub fn end_with_parent(command: &mut Command) {
    let ends = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?);
    // SAFETY: a system call, which takes no memory and no lock.
    unsafe { command.pre_exec(ends) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forked::{block_signals, restore_signals};

    #[test]
    fn signals_reach_a_program_that_a_thread_started_whose_signals_wait() {
        let before = block_signals();
        let status = command(Path::new("/bin/cat")).arg("/proc/self/status").output().unwrap().stdout;
        restore_signals(before);
        let status = String::from_utf8(status).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        assert_eq!(u64::from_str_radix(blocked.trim(), 16), Ok(0));
    }
}
