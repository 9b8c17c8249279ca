//! Starting a program so that it is traced from its first byte: it waits before `exec` until the tracer follows it.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// A program that was started and waits before `exec`.
///
/// [`Command::spawn`] returns only after `exec`, so a small thread spawns it while the caller learns the process id from the
/// child itself, over a pipe, in the caller's own pid namespace (the child is a direct one, so its own `getpid` would not do).
#[derive(Debug)]
pub struct Stopped {
    pid: u32,
    go: std::fs::File,
    spawn: std::thread::JoinHandle<io::Result<Child>>,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: pipe2 writes two file descriptors into an array of two.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were just made by pipe2 and nobody else has them.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

impl Stopped {
    /// Starts `command` and holds it before `exec`.
    ///
    /// # Errors
    /// What `fork` or `pipe` say. That the program does not exist shows in [`Stopped::release`].
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (go_read, go_write) = pipe()?;
        let (pid_read, pid_write) = pipe()?;
        let go_raw = go_write.as_raw_fd();
        // SAFETY: the closure runs between fork and exec, and makes async-signal-safe system calls only.
        unsafe {
            command.pre_exec(move || {
                let pid = libc::getpid().to_ne_bytes();
                // The copy of the writing end would keep the wait below from ending when the tracer dies.
                libc::close(go_raw);
                if libc::write(pid_write.as_raw_fd(), pid.as_ptr().cast(), pid.len()) != pid.len() as isize {
                    return Err(io::Error::last_os_error());
                }
                let mut byte = 0u8;
                match libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) {
                    1 => Ok(()),
                    0 => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        let spawn = std::thread::spawn(move || {
            let child = command.spawn();
            drop(command); // and with it the parent's copies of the pipes
            child
        });
        let mut pid = [0; 4];
        std::fs::File::from(pid_read).read_exact(&mut pid)?;
        Ok(Self { pid: u32::from_ne_bytes(pid), go: go_write.into(), spawn })
    }

    /// Its process id, in the caller's pid namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it run.
    ///
    /// # Errors
    /// Why the program could not be executed.
    pub fn release(mut self) -> io::Result<Child> {
        self.go.write_all(&[1])?;
        self.spawn.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts the program failed")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_program_has_not_begun_and_runs_when_released() {
        let file = std::env::temp_dir().join(format!("wirelapse-stopped-{}", std::process::id()));
        let mut command = Command::new("touch");
        command.arg(&file);
        let stopped = Stopped::start(command).unwrap();
        let pid = stopped.pid();
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
        assert!(!file.exists());
        let mut child = stopped.release().unwrap();
        assert_eq!(child.id(), pid);
        assert!(child.wait().unwrap().success());
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let stopped = Stopped::start(Command::new("/no/such/program")).unwrap();
        assert_eq!(stopped.release().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
