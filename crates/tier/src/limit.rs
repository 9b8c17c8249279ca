//! Programs that a test starts end, whatever becomes of them.

#![expect(unsafe_code, reason = "one system call of a child before its program begins")]

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The longest that a program of a test runs, seconds: far more than any needs on a busy machine.
const MOST: u32 = 300;

/// A command that the kernel ends with SIGALRM after five minutes, so that a test fails where it
/// would hang. A program that it starts in turn has no such limit.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    limit(Command::new(program))
}

/// The same limit for a command that something else has made, such as one that runs in a host of a
/// lab.
pub fn limit(mut command: Command) -> Command {
    let alarm = || {
        // SAFETY: the call takes a number alone; the alarm stays set across exec.
        unsafe { libc::alarm(MOST) };
        Ok(())
    };
    // SAFETY: between fork and exec there is one system call, which takes no lock and no memory.
    unsafe { command.pre_exec(alarm) };
    command
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn the_alarm_is_the_programs_own() {
        crate::needs!(crate::Need::Program("perl"));
        // What is left of the alarm, which is then cut short.
        let ended = command("perl").args(["-e", "$| = 1; print alarm 1; sleep 9"]).output().unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGALRM));
        let left: u32 = String::from_utf8(ended.stdout).unwrap().parse().unwrap();
        assert!(left > MOST - 60, "{left}");
    }
}
