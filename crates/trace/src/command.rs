//! Starting a program so that it is traced from its first byte: it waits before `exec` until the
//! tracer follows it.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// A program that was started and waits before `exec`.
///
/// [`Command::spawn`] returns only after `exec`, so a small thread spawns it while the caller
/// learns the process id from the child itself, over a pipe, in the caller's own pid namespace (the
/// child is a direct one, so its own `getpid` would not do).
#[derive(Debug)]
pub struct Stopped {
    pid: u32,
    go: PipeWriter,
    spawn: std::thread::JoinHandle<io::Result<Child>>,
}

/// Runs between fork and exec: says which process it is, and waits for the word to go on.
fn hold(mut told: &PipeWriter, mut go: &PipeReader, parents_go: RawFd) -> io::Result<()> {
    // The copy of the writing end would keep the wait below from ending when the tracer dies.
    // SAFETY: this process never uses its copy of that descriptor.
    unsafe { rustix::io::close(parents_go) };
    told.write_all(&rustix::process::getpid().as_raw_nonzero().get().to_ne_bytes())?;
    match go.read(&mut [0])? {
        0 => Err(rustix::io::Errno::CANCELED.into()),
        _ => Ok(()),
    }
}

impl Stopped {
    /// Starts `command` and holds it before `exec`.
    ///
    /// # Errors
    /// What `fork` or `pipe` say. That the program does not exist shows in [`Stopped::release`].
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (go_read, go_write) = io::pipe()?;
        let (mut pid_read, pid_write) = io::pipe()?;
        let go_raw = go_write.as_raw_fd();
        // SAFETY: the closure makes async-signal-safe system calls only, and allocates nothing.
        unsafe { command.pre_exec(move || hold(&pid_write, &go_read, go_raw)) };
        let spawn = std::thread::Builder::new().name("trace-start".into()).spawn(move || {
            let child = command.spawn();
            drop(command); // and with it the parent's copies of the pipes
            child
        })?;
        let mut pid = [0; 4];
        pid_read.read_exact(&mut pid)?;
        Ok(Self { pid: u32::from_ne_bytes(pid), go: go_write, spawn })
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
