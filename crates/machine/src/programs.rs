//! Other programs that commands start: `docs/privileges.md` names them all.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::JoinHandle;

use nix::sys::signal::SigSet;
use rustix::process::{Pid, Signal, kill_process};

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

/// Sends a signal to a program, which may have ended. It has not been waited for, so its number is
/// still its own.
pub fn signal(program: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(program.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Reads all that a program says, so that it never waits for a reader, and keeps the first `most`
/// bytes.
pub fn hear(from: impl Read + Send + 'static, most: u64) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut from, mut kept) = (from, Vec::new());
        let _ = from.by_ref().take(most).read_to_end(&mut kept);
        let _ = io::copy(&mut from, &mut io::sink());
        String::from_utf8_lossy(&kept).into_owned()
    })
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

    #[test]
    fn what_a_program_says_is_read_to_its_end_and_its_beginning_kept() {
        let said = io::Cursor::new(b"begins and goes on".to_vec());
        assert_eq!(hear(said, 6).join().unwrap(), "begins");
    }
}
