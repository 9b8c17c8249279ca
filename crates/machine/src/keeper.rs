//! A second process that keeps rights and answers typed requests, so that the process that asks has
//! none.
//!
//! The keeper is forked from its maker. It holds the descriptors that it is given and one end of a
//! socket pair, and ends with its maker, however that ends. Requests and replies are enumerations;
//! each is a message of postcard behind its length, which is a fifth of what its JSON would be: the
//! sockets of a busy machine come this way every second.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal as Named;
use nix::unistd::{ForkResult, fork};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::forked::{block_signals, end, restore_signals};

/// Why a keeper gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be started.
    #[error("the keeper cannot be started: {0}")]
    Start(io::Error),
    /// It has ended.
    #[error("the keeper, process {pid}, {how}")]
    Ended {
        /// Its number.
        pid: i32,
        /// How it ended, in words.
        how: String,
    },
    /// It is there, and neither answers nor works on an answer.
    #[error("the keeper, process {pid}, has not answered for {after_s} s{how}")]
    Silent {
        /// Its number.
        pid: i32,
        /// How long it was waited for.
        after_s: u64,
        /// What is known of it, in words.
        how: &'static str,
    },
    /// What it was asked for went wrong there.
    #[error("{0}")]
    Refused(String),
    /// The socket to it does not work.
    #[error("the keeper cannot be asked: {0}")]
    Socket(io::Error),
}

/// A keeper, as its maker knows it: it answers each `Request` with a `Reply`. It ends when the last
/// of these handles is dropped.
#[derive(Debug)]
pub struct Keeper<Request, Reply> {
    other: Arc<Mutex<Other>>,
    says: PhantomData<fn(Request) -> Reply>,
}

impl<Request, Reply> Clone for Keeper<Request, Reply> {
    fn clone(&self) -> Self {
        Self { other: Arc::clone(&self.other), says: PhantomData }
    }
}

/// How long it may do nothing while it owes an answer. An answer itself may take longer: the first
/// one about the sockets of a busy host does, where many others want the CPU.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to end, once nothing is asked of it any more.
const END: Duration = Duration::from_secs(2);

/// The other process.
#[derive(Debug)]
struct Other {
    socket: UnixStream,
    pid: Pid,
    ended: Option<WaitStatus>,
    patience: Duration,
    /// It owes an answer that was waited for in vain: what comes yet belongs to that question.
    silent: bool,
}

impl<Request: Serialize + DeserializeOwned, Reply: Serialize + DeserializeOwned> Keeper<Request, Reply> {
    /// Forks it under this name. It keeps the descriptors `keep` alone, calls `limit` once and
    /// `serve` for each request. To be called while this process has one thread.
    ///
    /// # Errors
    /// [`Error::Start`] where this process has other threads, or cannot be forked;
    /// [`Error::Refused`] where `limit` fails.
    pub fn fork(
        name: &CStr,
        keep: &[RawFd],
        limit: impl FnOnce() -> io::Result<()>,
        serve: impl FnMut(Request) -> io::Result<Reply>,
    ) -> Result<Self, Error> {
        if fs::read_dir("/proc/self/task").map_err(Error::Start)?.count() != 1 {
            return Err(Error::Start(io::Error::other("this process has other threads")));
        }
        let (ours, theirs) = UnixStream::pair().map_err(Error::Start)?;
        let maker = rustix::process::getpid();
        // It ends with its maker, and not by what a terminal sends to both.
        let before = block_signals();
        // SAFETY: this process has one thread, so that no lock is held by another one that the
        // child does not have. The child never returns.
        let forked = unsafe { fork() };
        if let Ok(ForkResult::Child) = forked {
            let work = AssertUnwindSafe(|| {
                keep_alone(name, keep, &theirs, maker)?;
                work(&theirs, limit, serve)
            });
            let done = catch_unwind(work).unwrap_or_else(|panic| {
                let why = panic.downcast_ref::<String>().map(String::as_str);
                let why = why.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason");
                put::<Result<(), String>>(&theirs, &Err(format!("the keeper panicked: {why}")))?;
                Err(io::Error::other("panicked"))
            });
            end(i32::from(done.is_err()));
        }
        restore_signals(before);
        let child = match forked {
            Ok(ForkResult::Parent { child }) => child,
            Ok(ForkResult::Child) => end(1),
            Err(error) => return Err(Error::Start(error.into())),
        };
        let pid = Pid::from_raw(child.as_raw()).ok_or_else(|| Error::Start(io::Error::other("fork gave no number")))?;
        drop(theirs);
        let mut other = Other::new(ours, pid, PATIENCE).map_err(Error::Start)?;
        other.reply::<()>()?;
        Ok(Self { other: Arc::new(Mutex::new(other)), says: PhantomData })
    }

    /// Its reply to a request.
    ///
    /// # Errors
    /// [`Error::Refused`] with what it says went wrong; [`Error::Ended`] where it is there no more;
    /// [`Error::Silent`] where it does not answer, and at every question after that;
    /// [`Error::Socket`].
    pub fn ask(&self, request: &Request) -> Result<Reply, Error> {
        let mut other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        if other.silent {
            return Err(other.silence());
        }
        match put(&other.socket, request) {
            Ok(()) => other.reply(),
            Err(error) => Err(other.why(error)),
        }
    }
}

impl Other {
    fn new(socket: UnixStream, pid: Pid, patience: Duration) -> io::Result<Self> {
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        Ok(Self { socket, pid, ended: None, patience, silent: false })
    }

    fn reply<Reply: DeserializeOwned>(&mut self) -> Result<Reply, Error> {
        let pid = self.pid;
        match get::<Result<Reply, String>>(Patient::new(&self.socket, || cpu_time(pid))) {
            Ok(reply) => reply.map_err(Error::Refused),
            Err(error) => Err(self.why(error)),
        }
    }

    /// What an error of the socket means: where the other end is closed, its process has ended.
    fn why(&mut self, error: io::Error) -> Error {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WouldBlock};
        if error.kind() == WouldBlock {
            self.silent = true;
            return self.silence();
        }
        if !matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) {
            return Error::Socket(error);
        }
        self.wait();
        let how = match self.ended.map(|ended| (ended.exit_status(), ended.terminating_signal())) {
            Some((Some(status), _)) => format!("ended with exit status {status}"),
            Some((_, Some(signal))) => match Named::try_from(signal) {
                Ok(named) => format!("was ended by {named}"),
                Err(_) => format!("was ended by signal {signal}"),
            },
            _ => "is gone".into(),
        };
        Error::Ended { pid: self.pid.as_raw_nonzero().get(), how }
    }

    fn silence(&self) -> Error {
        let pid = self.pid.as_raw_nonzero().get();
        // The state stands behind the name, which may have any characters.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let stopped = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']));
        let how = if stopped { ": it is stopped (SIGSTOP, or a debugger)" } else { "" };
        Error::Silent { pid, after_s: self.patience.as_secs(), how }
    }

    /// Waits for its end, for which it has a moment.
    fn wait(&mut self) {
        let until = Instant::now() + END;
        while self.ended.is_none() && Instant::now() < until {
            match rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => self.ended = Some(status),
                Ok(None) | Err(rustix::io::Errno::INTR) => std::thread::sleep(Duration::from_millis(1)),
                // It is no child, or somebody else has waited for it.
                Err(_) => return,
            }
        }
    }
}

/// A socket whose reads go on for as long as the other end works: each lapse of the socket's time
/// limit is forgiven where it has used CPU time since the last one.
struct Patient<'a, F> {
    socket: &'a UnixStream,
    worked: F,
    before: Duration,
}

impl<'a, F: FnMut() -> Duration> Patient<'a, F> {
    fn new(socket: &'a UnixStream, mut worked: F) -> Self {
        let before = worked();
        Self { socket, worked, before }
    }
}

impl<F: FnMut() -> Duration> Read for Patient<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let before = std::mem::replace(&mut self.before, (self.worked)());
                    if self.before <= before {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
    }
}

/// The CPU time of a process, which anyone may know; zero where it is gone.
fn cpu_time(pid: Pid) -> Duration {
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both write what they are given room for.
    let known = unsafe {
        libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    if known { Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32) } else { Duration::ZERO }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        if !self.silent {
            self.wait();
        }
        if self.ended.is_none() {
            // A process that is stopped ends by nothing else.
            let _ = rustix::process::kill_process(self.pid, Signal::KILL);
            self.wait();
        }
    }
}

/// In the keeper: only these descriptors, and no life beyond its maker's.
fn keep_alone(name: &CStr, keep: &[RawFd], socket: &UnixStream, maker: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(maker) {
        return Err(io::Error::other("its maker is gone"));
    }
    let _ = rustix::thread::set_name(name);
    // What is attached must not stay attached by a copy of its descriptor, and a pipe must not stay
    // open.
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
        // SAFETY: nothing in this process uses it: what owns it is a copy that is never used or
        // dropped here.
        unsafe { rustix::io::close(fd) };
    }
    Ok(())
}

/// In the keeper: answers until its maker lets go of the socket.
fn work<Request: DeserializeOwned, Reply: Serialize>(
    socket: &UnixStream,
    limit: impl FnOnce() -> io::Result<()>,
    mut serve: impl FnMut(Request) -> io::Result<Reply>,
) -> io::Result<()> {
    put(socket, &limit().map_err(|error| error.to_string()))?;
    loop {
        let reply = match get(socket) {
            Ok(request) => serve(request).map_err(|error| error.to_string()),
            // It cannot be read, but it ended where it should.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        put(socket, &reply)?;
    }
}

/// Writes a message: its length in 32 bits, and the message.
fn put<T: Serialize>(mut socket: &UnixStream, message: &T) -> io::Result<()> {
    let mut bytes = postcard::to_extend(message, vec![0; size_of::<u32>()]).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - size_of::<u32>()).map_err(io::Error::other)?;
    bytes[..size_of::<u32>()].copy_from_slice(&length.to_ne_bytes());
    socket.write_all(&bytes)
}

/// Reads a message. Its end before the message's is [`io::ErrorKind::UnexpectedEof`]; what is no
/// such message [`io::ErrorKind::InvalidData`].
fn get<T: DeserializeOwned>(mut socket: impl Read) -> io::Result<T> {
    let mut length = [0; size_of::<u32>()];
    socket.read_exact(&mut length)?;
    let length = u64::from(u32::from_ne_bytes(length));
    let mut bytes = Vec::new();
    if socket.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    enum Ask {
        Half { of: u32 },
        Nothing,
    }

    #[test]
    fn messages_come_as_they_went() {
        let (mut a, b) = UnixStream::pair().unwrap();
        put(&a, &Ask::Half { of: 7 }).unwrap();
        put(&a, &Ask::Nothing).unwrap();
        assert_eq!(get::<Ask>(&b).unwrap(), Ask::Half { of: 7 });
        assert_eq!(get::<Ask>(&b).unwrap(), Ask::Nothing);
        put(&a, &7).unwrap();
        assert_eq!(get::<Ask>(&b).unwrap_err().kind(), io::ErrorKind::InvalidData);
        a.write_all(&[9, 0, 0, 0, 7]).unwrap();
        drop(a);
        assert_eq!(get::<Ask>(&b).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_goes_wrong_is_the_reply_and_the_next_request_is_answered() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let keeper = std::thread::spawn(move || {
            let serve = |asked| match asked {
                Ask::Half { of } if of % 2 == 0 => Ok(of / 2),
                _ => Err(io::Error::other("it is odd")),
            };
            work(&theirs, || Ok(()), serve)
        });
        let reply = || get::<Result<u32, String>>(&ours).unwrap();
        assert_eq!(get::<Result<(), String>>(&ours).unwrap(), Ok(()));
        put(&ours, &Ask::Half { of: 7 }).unwrap();
        assert_eq!(reply(), Err("it is odd".into()));
        put(&ours, &"no request").unwrap();
        assert!(reply().is_err());
        put(&ours, &Ask::Half { of: 8 }).unwrap();
        assert_eq!(reply(), Ok(4));
        drop(ours);
        assert!(keeper.join().unwrap().is_ok());
    }

    #[test]
    fn an_answer_may_take_as_long_as_the_other_end_works_on_it() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut lapses = 0;
        let works = || {
            lapses += 1;
            if lapses == 4 {
                put(&theirs, &7_u32).unwrap();
            }
            Duration::from_secs(lapses)
        };
        assert_eq!(get::<u32>(Patient::new(&ours, works)).unwrap(), 7);
        let idle = get::<u32>(Patient::new(&ours, || Duration::from_secs(1)));
        assert_eq!((lapses, idle.unwrap_err().kind()), (4, io::ErrorKind::WouldBlock));
    }

    #[test]
    fn the_work_of_another_process_is_seen() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let before = cpu_time(pid);
        tier::until("it works", || cpu_time(pid) > before);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(cpu_time(pid), Duration::ZERO);
    }

    #[test]
    fn a_process_with_other_threads_is_not_forked() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || ended.recv());
        let refused = Keeper::<Ask, ()>::fork(c"keeper", &[], || Ok(()), |_| Ok(())).map(drop);
        drop(end);
        assert!(other.join().unwrap().is_err());
        assert!(matches!(refused, Err(Error::Start(_))), "{refused:?}");
    }

    #[test]
    fn the_end_of_a_keeper_is_named_with_its_cause() {
        let ended = |script: &str| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
            drop(theirs);
            let pid = Pid::from_child(&child);
            let said = Other::new(ours, pid, PATIENCE).unwrap().reply::<()>().unwrap_err().to_string();
            // The keeper's own wait has taken its status already.
            child.wait().ok();
            said
        };
        assert!(ended("exit 3").ends_with("ended with exit status 3"));
        assert!(ended("kill -KILL $$").ends_with("was ended by SIGKILL"));
    }

    #[test]
    fn a_keeper_that_is_stopped_is_waited_for_no_longer_than_was_said() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        tier::until("it is stopped", || {
            fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap().contains(") T ")
        });
        let other = Other::new(ours, pid, Duration::from_secs(1)).unwrap();
        let keeper = Keeper::<Ask, u32> { other: Arc::new(Mutex::new(other)), says: PhantomData };
        let (asked, wanted) =
            (Instant::now(), format!("process {}, has not answered for 1 s: it is stopped", child.id()));
        for _ in 0..2 {
            let said = keeper.ask(&Ask::Nothing).unwrap_err().to_string();
            assert!(said.contains(&wanted), "{said}");
        }
        // The second question does not wait again; and the stopped process is ended.
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        drop(keeper);
        assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
        drop(theirs);
        child.wait().ok();
    }
}
