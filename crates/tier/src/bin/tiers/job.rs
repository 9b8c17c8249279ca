//! Processes that the tiers start: their output, their priority, and their end.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};

/// What gets the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// As the runner itself.
    Ours,
    /// Only what nothing else wants: `SCHED_IDLE`, or where that is refused a nice value of 19.
    Idle,
}

/// Process groups of idle jobs. What has our own priority is in our group, so that `sudo` may ask
/// for a password and a terminal ends it with us.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn groups() -> MutexGuard<'static, BTreeSet<i32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGINT and SIGTERM end the idle jobs whole, and then us with status 130.
///
/// # Errors
/// Where the signals cannot be had.
pub fn end_all_on_a_signal() -> io::Result<()> {
    let (mut signalled, write) = io::pipe()?;
    signal_hook::low_level::pipe::register(SIGINT, write.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGTERM, write)?;
    thread::spawn(move || {
        if signalled.read_exact(&mut [0]).is_ok() {
            for group in groups().iter().filter_map(|id| Pid::from_raw(*id)) {
                // One that has just ended is no failure.
                let _ = kill_process_group(group, Signal::TERM);
            }
            std::process::exit(130);
        }
    });
    Ok(())
}

/// Runs a command without input and gives every line of its output, UTF-8 or not, to `line`.
/// `kept_apart` gets its standard output whole in place of that. Whether it ended with status 0.
///
/// # Errors
/// Where it cannot be started or read.
pub fn run(
    mut command: Command,
    priority: Priority,
    kept_apart: Option<&mut String>,
    mut line: impl FnMut(&str),
) -> io::Result<bool> {
    let (output, write) = io::pipe()?;
    let (apart, write_apart) = io::pipe()?;
    command.stdin(Stdio::null());
    match kept_apart {
        Some(_) => command.stdout(write_apart),
        None => command.stdout(write.try_clone()?),
    };
    command.stderr(write);
    if priority == Priority::Idle {
        command.process_group(0);
        yielding(&mut command);
    }
    let mut child = command.spawn()?;
    // The command holds our ends for writing.
    drop(command);
    let id = child.id().cast_signed();
    if priority == Priority::Idle {
        groups().insert(id);
    }
    let read = thread::scope(|scope| {
        let whole = kept_apart.map(|text| scope.spawn(move || BufReader::new(apart).read_to_string(text)));
        let read = lines(output, &mut line);
        whole.map_or(Ok(0), |thread| thread.join().expect("a read does not panic")).and(read)
    });
    let ended = child.wait();
    groups().remove(&id);
    read.and(ended).map(|status| status.success())
}

fn lines(output: PipeReader, line: &mut impl FnMut(&str)) -> io::Result<()> {
    let (mut output, mut bytes) = (BufReader::new(output), Vec::new());
    while output.read_until(b'\n', &mut bytes)? != 0 {
        line(String::from_utf8_lossy(&bytes).trim_end_matches('\n'));
        bytes.clear();
    }
    Ok(())
}

/// The command, and whatever it starts, yields to everything else.
#[expect(unsafe_code, reason = "two system calls of a child before its program begins")]
fn yielding(command: &mut Command) {
    let yields = || {
        // SAFETY: a sched_param of zeros is valid, and the calls keep nothing of it.
        unsafe {
            let none = std::mem::zeroed::<libc::sched_param>();
            if libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) != 0 {
                libc::setpriority(libc::PRIO_PROCESS, 0, 19);
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec there are two system calls, which take no lock and no memory.
    unsafe { command.pre_exec(yields) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = tier::command("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_come_in_order_and_the_status_is_known() {
        let mut seen = Vec::new();
        let script = "echo one; echo two >&2; printf 'th\\377ree'; exit 3";
        let ended = run(shell(script), Priority::Ours, None, |line| seen.push(line.to_owned())).unwrap();
        assert_eq!((ended, seen), (false, ["one", "two", "th\u{fffd}ree"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn what_is_kept_apart_is_whole_and_what_is_idle_yields() {
        let (mut apart, mut seen) = (String::new(), 0);
        let script = "echo said >&2; cut -d' ' -f19,41 /proc/self/stat";
        assert!(run(shell(script), Priority::Idle, Some(&mut apart), |_| seen += 1).unwrap());
        // Nice value and policy: SCHED_IDLE is 5.
        assert!(apart.ends_with(" 5\n") || apart.starts_with("19 "), "{apart}");
        assert_eq!(seen, 1);
        assert!(groups().is_empty());
    }
}
