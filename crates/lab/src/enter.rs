//! Starting a program inside a host.
//!
//! A process cannot move into a pid namespace, only its children can be born there. So the process
//! that was to become the program forks once more within the host, stays outside as the program's
//! supervisor, hands signals on, and ends as the program ended. Whoever waits for it sees the
//! program's own exit status.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use machine::forked::{block_signals, close_all_but, end, restore_signals};
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, kill_process};
use rustix::thread::{CapabilitySet, ThreadNameSpaceType};

use crate::anchor::{clone_process, own_pidfd};

/// A command that enters the namespaces of the process behind `target`.
pub(crate) fn command(program: &OsStr, target: OwnedFd) -> io::Result<Command> {
    let caller = own_pidfd()?;
    let mut command = Command::new(program);
    // SAFETY: `enter` makes system calls alone, on stack memory: no allocation, no lock.
    unsafe { command.pre_exec(move || enter(target.as_fd(), caller.as_fd())) };
    Ok(command)
}

/// Runs between fork and exec. Returns in the process that becomes the program; its parent stays in
/// `supervise`.
fn enter(target: BorrowedFd<'_>, caller: BorrowedFd<'_>) -> io::Result<()> {
    let before = block_signals();
    let mut buffer = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer's true length is given. rustix's call allocates, which is not allowed
    // here.
    let named = unsafe { libc::getcwd(buffer.as_mut_ptr().cast(), buffer.len()) };
    let here = CStr::from_bytes_until_nul(&buffer).ok().filter(|_| !named.is_null()).unwrap_or(c"/");
    let all = ThreadNameSpaceType::NETWORK
        | ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::PROCESS_ID;
    match rustix::thread::move_into_thread_name_spaces(target, all) {
        // A lab made without root has its own user namespace, which is entered first. One's own
        // cannot be.
        Err(Errno::PERM) => rustix::thread::move_into_thread_name_spaces(target, all | ThreadNameSpaceType::USER)?,
        moved => moved?,
    }
    // Entering a mount namespace moves to its root: go back to where we were.
    rustix::process::chdir(here)?;
    let supervisor = own_pidfd()?;
    // SAFETY: this process has a single thread, so its child may go on as any child of fork may.
    let child = unsafe { clone_process(0, libc::SIGCHLD, std::ptr::null_mut()) };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(child) = Pid::from_raw(child) {
        supervise(child, caller);
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut gone = [PollFd::new(&supervisor, PollFlags::IN)];
    if poll(&mut gone, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0) {
        end(1);
    }
    restore_signals(before);
    Ok(())
}

/// Waits for the program, handing signals on, and ends as it ends. The program is killed where the
/// caller dies.
fn supervise(child: Pid, caller: BorrowedFd<'_>) -> ! {
    // Every signal is blocked, so none interrupts or kills us but SIGKILL.
    let Ok(signals) = SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_CLOEXEC) else { give_up(child) };
    // Pipes to the program must close when the program closes them.
    // SAFETY: this process uses these two descriptors alone.
    unsafe { close_all_but([signals.as_fd().as_raw_fd(), caller.as_raw_fd()]) };
    // A program that became another user's is still handed signals.
    crate::rights::keep(CapabilitySet::KILL);
    loop {
        match rustix::process::waitpid(Some(child), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => {
                if let Some(status) = status.exit_status() {
                    end(status);
                } else if let Some(signal) = status.terminating_signal() {
                    end_by_signal(signal);
                } else if status.stopped() {
                    // Stopped from the terminal: stop too, so that the shell sees the job stop; go
                    // on together.
                    kill_process(rustix::process::getpid(), Signal::STOP).ok();
                    kill_process(child, Signal::CONT).ok();
                }
                continue;
            }
            Err(Errno::CHILD) => end(1),
            _ => {}
        }
        let mut watched = [PollFd::new(&signals, PollFlags::IN), PollFd::new(&caller, PollFlags::IN)];
        poll(&mut watched, None).ok();
        if !watched[1].revents().is_empty() {
            give_up(child);
        }
        if !watched[0].revents().is_empty()
            && let Ok(Some(got)) = signals.read_signal()
        {
            // What the terminal sends (a positive code) reaches the program by itself.
            let signal = got.ssi_signo as i32;
            if signal != libc::SIGCHLD && got.ssi_code <= 0 {
                // SAFETY: takes numbers. rustix and nix send no real-time signals.
                unsafe { libc::kill(child.as_raw_nonzero().get(), signal) };
            }
        }
    }
}

/// Kills the program and ends.
fn give_up(child: Pid) -> ! {
    kill_process(child, Signal::KILL).ok();
    end(1)
}

/// Ends this process by `signal`, without a second core file. rustix and nix take no real-time
/// signals, so these are plain calls.
fn end_by_signal(signal: libc::c_int) -> ! {
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).ok();
    // SAFETY: the default action is no handler of this program.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: takes numbers. Every signal is blocked: this one waits until it is let through below.
    unsafe { libc::kill(own, signal) };
    // SAFETY: a signal set is plain bits.
    let mut only: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives over the call.
    unsafe { libc::sigaddset(&raw mut only, signal) };
    // SAFETY: as above; the old set is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut()) };
    end(128 + signal)
}
