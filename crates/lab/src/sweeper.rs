//! Takes the files of a named lab away when its owner was killed and could not.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use machine::forked::{block_signals, end, guard, restore_signals};
use machine::locked::is_at;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open, unlink};
use rustix::process::{PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid};

use crate::anchor::clone_process;

/// A process that waits for the end of this one. Dropping it ends it, and it removes nothing then.
#[derive(Debug)]
pub(crate) struct Sweeper(OwnedFd);

impl Sweeper {
    /// Starts it for a lab with these files.
    ///
    /// # Errors
    /// Where there is no room for a process, or a path is none.
    pub(crate) fn start(lock: &Path, socket: &Path) -> io::Result<Self> {
        // Made before the fork, after which no memory may be taken.
        let paths = [CString::new(lock.as_os_str().as_bytes())?, CString::new(socket.as_os_str().as_bytes())?];
        let maker = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut pidfd = -1;
        let before = block_signals();
        // SAFETY: the child runs `sweep` alone, which makes system calls on memory made before, and
        // never returns.
        let child = unsafe { clone_process(libc::CLONE_PIDFD, libc::SIGCHLD, &raw mut pidfd) };
        if child == 0 {
            sweep(maker.as_fd(), &paths);
        }
        let failed = io::Error::last_os_error();
        restore_signals(before);
        // SAFETY: the kernel made this descriptor for this process, and nothing else has it.
        if child > 0 { Ok(Self(unsafe { OwnedFd::from_raw_fd(pidfd) })) } else { Err(failed) }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        pidfd_send_signal(&self.0, Signal::KILL).ok();
        waitid(WaitId::PidFd(self.0.as_fd()), WaitIdOptions::EXITED).ok();
    }
}

/// System calls only, with every signal blocked.
fn sweep(maker: BorrowedFd<'_>, [lock, socket]: &[CString; 2]) -> ! {
    // SAFETY: this process uses this descriptor alone, and those that it opens from now on. The
    // lock of the lab is held by being open.
    unsafe { guard(c"lab-sweeper", [maker.as_raw_fd()]) };
    let mut watched = [PollFd::new(&maker, PollFlags::IN)];
    while !poll(&mut watched, None).is_ok_and(|ready| ready > 0) {}
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = open(lock.as_c_str(), flags, Mode::empty()) else { end(0) };
    // Another lab may have taken the name already, by this file or by a new one.
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&file, lock.as_c_str()) {
        for path in [socket, lock] {
            unlink(path.as_c_str()).ok();
        }
    }
    end(0)
}
