//! What a trace needs rights for while it runs, in a separate process: so the process that decodes records, writes files and draws has none.
//!
//! The keeper is forked once everything is attached. It holds the iterators over the sockets and one end of a socket pair, and does what it is
//! asked for there. It ends with its maker, however that ends.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use machine::forked::{block_signals, end, restore_signals};
use nix::unistd::{ForkResult, fork};
use rustix::process::{Pid, Signal, WaitOptions};

/// What a keeper is asked for: the first byte of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Ask {
    /// A pass over the sockets of every network namespace.
    Pass,
    /// The same, with the iterators of other probes.
    Both,
    /// On with the pass, which has asked for a rest.
    GoOn,
    /// Who else is at work on the sockets.
    Neighbours,
    /// Which clock an interface of a network namespace stamps by.
    Clock,
    /// What the command itself asks for.
    Aside,
}

impl Ask {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Pass, Self::Both, Self::GoOn, Self::Neighbours, Self::Clock, Self::Aside]
            .into_iter()
            .find(|ask| *ask as u8 == byte)
    }
}

/// The keeper, as its maker knows it.
#[derive(Clone, Debug)]
pub(crate) struct Keeper(Arc<Mutex<Other>>);

/// The other process: it ends when this is dropped.
#[derive(Debug)]
struct Other {
    socket: UnixStream,
    pid: Pid,
}

impl Keeper {
    /// Forks it. It keeps these descriptors alone, calls `limit` once and `serve` for each request.
    ///
    /// # Errors
    /// Where it cannot be forked, or `limit` fails.
    pub(crate) fn fork(
        keep: &[RawFd],
        limit: impl FnOnce() -> io::Result<()>,
        serve: impl FnMut(Ask, &[u8]) -> io::Result<Vec<u8>>,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let maker = rustix::process::getpid();
        // It ends with its maker, and not by what a terminal sends to both.
        let before = block_signals();
        // SAFETY: this process has one thread, so that no lock is held by another one that the child does not have. The child never returns.
        let forked = unsafe { fork() };
        if let Ok(ForkResult::Child) = forked {
            let work = AssertUnwindSafe(|| keep_alone(keep, &theirs, maker).and_then(|()| work(theirs, limit, serve)));
            let done = catch_unwind(work).is_ok_and(|done| done.is_ok());
            end(i32::from(!done));
        }
        restore_signals(before);
        let ForkResult::Parent { child } = forked? else { end(1) };
        let pid = Pid::from_raw(child.as_raw()).ok_or_else(|| io::Error::other("fork gave no process id"))?;
        drop(theirs);
        let mut other = Other { socket: ours, pid };
        other.answer()?;
        Ok(Self(Arc::new(Mutex::new(other))))
    }

    /// Its answer to a request.
    ///
    /// # Errors
    /// What it says went wrong, or that it is gone.
    pub(crate) fn ask(&self, ask: Ask, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut other = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send(&mut other.socket, ask as u8, request)?;
        other.answer()
    }
}

impl Other {
    fn answer(&mut self) -> io::Result<Vec<u8>> {
        match receive(&mut self.socket) {
            Ok((0, answer)) => Ok(answer),
            Ok((_, error)) => Err(io::Error::other(String::from_utf8_lossy(&error).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(io::Error::other("the process that walks the sockets is gone"))
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(self.pid), WaitOptions::empty()));
    }
}

/// In the keeper: only these descriptors, and no life beyond its maker's.
fn keep_alone(keep: &[RawFd], socket: &UnixStream, maker: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(maker) {
        return Err(io::Error::other("its maker is gone"));
    }
    let _ = rustix::thread::set_name(c"trace-keeper");
    // What is attached must not stay attached by a copy of its descriptor, and a pipe must not stay open.
    let nothing = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2 && *fd != socket.as_raw_fd() && *fd != nothing.as_raw_fd() && !keep.contains(fd))
        .collect();
    // The listing's own descriptor is closed already.
    let is_open = |fd: &RawFd| fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok();
    for fd in open.into_iter().filter(is_open) {
        // SAFETY: nothing in this process uses it: what owns it is a copy that is never used or dropped here.
        unsafe { rustix::io::close(fd) };
    }
    Ok(())
}

/// In the keeper: answers until its maker lets go of the socket.
fn work(
    mut socket: UnixStream,
    limit: impl FnOnce() -> io::Result<()>,
    mut serve: impl FnMut(Ask, &[u8]) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    reply(&mut socket, limit().map(|()| Vec::new()))?;
    loop {
        let (ask, request) = match receive(&mut socket) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            received => received?,
        };
        let answer = match Ask::from_byte(ask) {
            Some(ask) => serve(ask, &request),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        reply(&mut socket, answer)?;
    }
}

fn reply(socket: &mut UnixStream, answer: io::Result<Vec<u8>>) -> io::Result<()> {
    match answer {
        Ok(answer) => send(socket, 0, &answer),
        Err(error) => send(socket, 1, error.to_string().as_bytes()),
    }
}

/// A message: a byte that says what it is, the length of the rest, and the rest.
fn send(socket: &mut UnixStream, what: u8, rest: &[u8]) -> io::Result<()> {
    let length = u32::try_from(rest.len()).map_err(io::Error::other)?;
    socket.write_all(&[&[what], length.to_ne_bytes().as_slice(), rest].concat())
}

fn receive(socket: &mut UnixStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    socket.read_exact(&mut head)?;
    let [what, length @ ..] = head;
    let mut rest = Vec::new();
    let length = u64::from(u32::from_ne_bytes(length));
    if socket.take(length).read_to_end(&mut rest)? as u64 == length {
        Ok((what, rest))
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_went() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        send(&mut a, 3, b"rest").unwrap();
        send(&mut a, 0, b"").unwrap();
        assert_eq!(receive(&mut b).unwrap(), (3, b"rest".to_vec()));
        assert_eq!(receive(&mut b).unwrap(), (0, Vec::new()));
        a.write_all(&[1, 9, 0, 0, 0, 7]).unwrap();
        drop(a);
        assert_eq!(receive(&mut b).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(Ask::from_byte(9), None);
    }
}
