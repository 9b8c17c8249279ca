//! Starting a program inside a host.
//!
//! A process cannot move into a pid namespace, only its children can be born there. So the process that was to become
//! the program forks once more within the host, stays outside as the program's supervisor, hands signals on, and ends
//! as the program ended. Whoever waits for it sees the program's own exit status.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::anchor::{block_signals, clone_process, pidfd_open, restore_signals};

/// A command that enters the namespaces of the process behind `target`.
pub(crate) fn command(program: &OsStr, target: OwnedFd) -> io::Result<Command> {
    let caller = pidfd_open(std::process::id() as i32)?;
    let mut command = Command::new(program);
    // SAFETY: `enter` makes system calls alone, on stack memory: no allocation, no lock.
    unsafe { command.pre_exec(move || enter(target.as_raw_fd(), caller.as_raw_fd())) };
    Ok(command)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs between fork and exec. Returns in the process that becomes the program; its parent stays in `supervise`.
fn enter(target: RawFd, caller: RawFd) -> io::Result<()> {
    let before = block_signals();
    let mut here = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer's true length is given; a folder that cannot be named is handled below.
    let named = unsafe { !libc::getcwd(here.as_mut_ptr().cast(), here.len()).is_null() };
    let all = libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWPID;
    // SAFETY: plain system call on a pidfd.
    check(unsafe { libc::setns(target, all) })?;
    // Entering a mount namespace moves to its root: go back to where we were.
    // SAFETY: `here` is nul-terminated by getcwd, "/" is a literal.
    let moved = unsafe { if named { libc::chdir(here.as_ptr().cast()) } else { libc::chdir(c"/".as_ptr()) } };
    check(moved)?;
    // SAFETY: plain system call; the descriptor stays with this process alone and dies with it.
    let supervisor = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) } as RawFd;
    check(supervisor)?;
    // SAFETY: this process has a single thread, so its child may go on as any child of fork may.
    let child = unsafe { clone_process(0, libc::SIGCHLD, std::ptr::null_mut()) };
    check(child)?;
    if child > 0 {
        supervise(child, caller);
    }
    // SAFETY: plain system calls.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        let mut gone = libc::pollfd { fd: supervisor, events: libc::POLLIN, revents: 0 };
        if libc::poll(&raw mut gone, 1, 0) > 0 {
            libc::_exit(1);
        }
        libc::close(supervisor);
    }
    restore_signals(&before);
    Ok(())
}

/// Waits for the program, handing signals on, and ends as it ends. The program is killed where the caller dies.
fn supervise(child: i32, caller: RawFd) -> ! {
    // SAFETY: system calls on stack memory only; every signal is blocked, so none interrupts or kills us but SIGKILL.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        let signals = libc::signalfd(-1, &raw const all, libc::SFD_CLOEXEC);
        // Pipes to the program must close when the program closes them.
        let (low, high) = (signals.min(caller) as u32, signals.max(caller) as u32);
        if low > 0 {
            libc::syscall(libc::SYS_close_range, 0, low - 1, 0);
        }
        if high > low + 1 {
            libc::syscall(libc::SYS_close_range, low + 1, high - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, high + 1, u32::MAX, 0);
        loop {
            let mut status = 0;
            let found = libc::waitpid(child, &raw mut status, libc::WNOHANG | libc::WUNTRACED);
            if found == child {
                if libc::WIFEXITED(status) {
                    libc::_exit(libc::WEXITSTATUS(status));
                } else if libc::WIFSIGNALED(status) {
                    end_by_signal(libc::WTERMSIG(status));
                } else if libc::WIFSTOPPED(status) {
                    // Stopped from the terminal: stop too, so that the shell sees the job stop; go on together.
                    libc::raise(libc::SIGSTOP);
                    libc::kill(child, libc::SIGCONT);
                }
                continue;
            } else if found < 0 && *libc::__errno_location() == libc::ECHILD {
                libc::_exit(1);
            }
            let mut watched = [
                libc::pollfd { fd: signals, events: libc::POLLIN, revents: 0 },
                libc::pollfd { fd: caller, events: libc::POLLIN, revents: 0 },
            ];
            libc::poll(watched.as_mut_ptr(), 2, -1);
            if watched[1].revents != 0 {
                libc::kill(child, libc::SIGKILL);
                libc::_exit(1);
            }
            if watched[0].revents != 0 {
                let mut got: libc::signalfd_siginfo = std::mem::zeroed();
                libc::read(signals, (&raw mut got).cast(), size_of::<libc::signalfd_siginfo>());
                // What the terminal sends (a positive code) reaches the program by itself.
                let signal = got.ssi_signo as i32;
                if signal != libc::SIGCHLD && got.ssi_code <= 0 {
                    libc::kill(child, signal);
                }
            }
        }
    }
}

/// Ends this process by `signal`, without a second core file.
fn end_by_signal(signal: libc::c_int) -> ! {
    // SAFETY: system calls on stack memory only.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::kill(libc::getpid(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::_exit(128 + signal)
    }
}
