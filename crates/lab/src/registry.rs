//! Labs that have a name, so that other processes find them: `lab up` in one terminal, `lab exec` in another.
//!
//! A named lab has a file under [`DIRECTORY`] that its owner holds locked, and a socket beside it on which the owner
//! answers. The lock goes with the owner, however it ends: a file that can be locked is stale, and whoever meets it
//! removes it. Nothing is found by process id, so none that was reused is ever signalled or entered.

use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Error, Lab, PathReport, Side};

/// Where named labs are found.
pub const DIRECTORY: &str = "/run/wirelapse/labs";

/// How long an owner may take to answer, and a lab to go down.
const PATIENCE: Duration = Duration::from_secs(10);

/// A name that is held. Dropping it lets it go.
#[derive(Debug)]
pub struct Registration {
    name: String,
    listener: UnixListener,
    // Declared after the listener: the name stays taken until the listener is closed.
    _lock: File,
}

fn named(name: &str, problem: impl Into<String>) -> Error {
    Error::Name { name: name.into(), problem: problem.into() }
}

fn files(name: &str) -> Result<(PathBuf, PathBuf), Error> {
    let valid = (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if !valid {
        return Err(named(name, "a name is 1 to 32 letters, digits, hyphens and underscores"));
    }
    let directory = Path::new(DIRECTORY);
    Ok((directory.join(format!("{name}.lock")), directory.join(format!("{name}.socket"))))
}

/// Locks the file, or `None` where somebody else has it.
fn lock(file: &File) -> io::Result<Option<()>> {
    // SAFETY: a plain system call on a descriptor that lives over it.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(Some(()));
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) }
}

impl Registration {
    /// Takes `name`.
    ///
    /// # Errors
    /// [`Error::Name`] where it is no name or already a running lab's, [`Error::System`] where the files cannot be made.
    pub fn take(name: &str) -> Result<Self, Error> {
        let (lock_path, socket_path) = files(name)?;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(DIRECTORY);
        made.map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => Error::Privilege,
            _ => Error::System { step: format!("make {DIRECTORY}"), source: e },
        })?;
        let step = || Error::system(format!("take the name {name:?} in {DIRECTORY}"));
        let held = loop {
            let file = File::options().create(true).truncate(false).write(true).open(&lock_path).map_err(step())?;
            if lock(&file).map_err(step())?.is_none() {
                return Err(named(name, "is running already; choose another with --name, or take it down first"));
            }
            // Whoever held the lock before may have removed the file since it was opened.
            let same = std::fs::metadata(&lock_path).is_ok_and(|there| {
                file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
            });
            if same {
                break file;
            }
        };
        if let Err(e) = std::fs::remove_file(&socket_path)
            && e.kind() != io::ErrorKind::NotFound
        {
            return Err(Error::System { step: format!("remove a stale {}", socket_path.display()), source: e });
        }
        let listener = UnixListener::bind(&socket_path).map_err(step())?;
        Ok(Self { name: name.into(), listener, _lock: held })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers for `lab` until it is asked to go down, or a signal of `signals` comes.
    ///
    /// # Errors
    /// [`Error::System`] where waiting fails.
    pub fn serve(&self, lab: &Lab, signals: &Signals) -> Result<(), Error> {
        loop {
            let mut watched = [self.listener.as_raw_fd(), signals.0.as_raw_fd()].map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            });
            // SAFETY: two pollfds that live over the call.
            if unsafe { libc::poll(watched.as_mut_ptr(), 2, -1) } < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(Error::System { step: "wait for requests".into(), source: error });
            }
            if watched[1].revents != 0 {
                return Ok(());
            }
            // A client that went away in the middle is its own affair.
            if let Ok((client, _)) = self.listener.accept()
                && let Ok(true) = answer(lab, &client)
            {
                return Ok(());
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Ok((lock, socket)) = files(&self.name) {
            // Where they cannot be removed they are stale, and the next to meet them tries again.
            let _ = std::fs::remove_file(socket);
            let _ = std::fs::remove_file(lock);
        }
    }
}

/// Answers one request; `true` where it was to go down.
fn answer(lab: &Lab, client: &UnixStream) -> io::Result<bool> {
    client.set_read_timeout(Some(Duration::from_secs(1)))?;
    client.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut request = String::new();
    io::BufReader::new(client.take(64)).read_line(&mut request)?;
    match request.trim_end() {
        "report" => {
            let mut to = client;
            to.write_all(&serde_json::to_vec(&lab.path().report())?)?;
        }
        "enter a" => send_descriptor(client, &lab.host(Side::A).holder.pidfd)?,
        "enter b" => send_descriptor(client, &lab.host(Side::B).holder.pidfd)?,
        "down" => return Ok(true),
        _ => {}
    }
    Ok(false)
}

/// SIGINT, SIGTERM and SIGHUP as something to wait for, instead of the end of the process.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Takes them for this thread and those it starts from here on. Call it before any thread is started.
    ///
    /// # Errors
    /// [`Error::System`] where there is no descriptor for them.
    pub fn take() -> Result<Self, Error> {
        // SAFETY: the set is plain data that lives over the calls.
        let fd = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC)
        };
        if fd < 0 {
            return Err(Error::last("wait for signals"));
        }
        // SAFETY: new, and owned by nothing else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

/// A named lab that another process owns.
#[derive(Debug)]
pub struct Remote {
    name: String,
    socket: PathBuf,
    lock: PathBuf,
}

/// The names of the labs that run. Stale files met on the way are removed.
///
/// # Errors
/// [`Error::System`] where [`DIRECTORY`] cannot be read; that it is not there is no error.
pub fn names() -> Result<Vec<String>, Error> {
    let step = || Error::system(format!("read {DIRECTORY}"));
    let entries = match std::fs::read_dir(DIRECTORY) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(Error::Privilege),
        entries => entries.map_err(step())?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let file = entry.map_err(step())?.file_name();
        let name = file.to_str().and_then(|f| f.strip_suffix(".lock"));
        if let Some(name) = name
            && files(name).is_ok()
            && Remote::find(name).is_ok()
        {
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

impl Remote {
    /// The running lab called `name`.
    ///
    /// # Errors
    /// [`Error::Name`] where there is none.
    pub fn find(name: &str) -> Result<Self, Error> {
        let (lock_path, socket) = files(name)?;
        let none = || named(name, "is not running; `wirelapse lab list` shows those that are");
        let file = match File::options().write(true).open(&lock_path) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(Error::Privilege),
            file => file.map_err(|_| none())?,
        };
        if lock(&file).map_err(Error::system(format!("look at {}", lock_path.display())))?.is_some() {
            // No process holds it: its owner was killed.
            let _ = std::fs::remove_file(&socket);
            let _ = std::fs::remove_file(&lock_path);
            return Err(none());
        }
        Ok(Self { name: name.into(), socket, lock: lock_path })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, request: &str) -> Result<UnixStream, Error> {
        let asked = || {
            let mut stream = UnixStream::connect(&self.socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(request.as_bytes())?;
            Ok(stream)
        };
        asked().map_err(Error::system(format!("reach lab {:?}", self.name)))
    }

    /// What its path was asked to be and what it did so far.
    ///
    /// # Errors
    /// [`Error::System`] where its owner does not answer.
    pub fn report(&self) -> Result<PathReport, Error> {
        let mut text = String::new();
        let read = self.ask("report\n")?.read_to_string(&mut text).and_then(|_| Ok(serde_json::from_str(&text)?));
        read.map_err(Error::system(format!("read the report of lab {:?}", self.name)))
    }

    /// A command inside one of its hosts, see [`crate::Host::command`].
    ///
    /// # Errors
    /// [`Error::System`] where its owner does not answer.
    pub fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, Error> {
        let stream = self.ask(&format!("enter {}\n", side.name()))?;
        receive_descriptor(&stream)
            .and_then(|holder| crate::enter::command(program.as_ref(), holder))
            .map_err(Error::system(format!("enter host {} of lab {:?}", side.name(), self.name)))
    }

    /// The inode number of the network namespace of one of its hosts, as `/proc/PID/ns/net` shows it.
    ///
    /// # Errors
    /// [`Error::System`] where its owner does not answer, or the host is not to be seen from the caller's pid namespace.
    pub fn network(&self, side: Side) -> Result<u64, Error> {
        let stream = self.ask(&format!("enter {}\n", side.name()))?;
        receive_descriptor(&stream)
            .and_then(|holder| {
                // The holder lives as long as its lab, so the number stays its own while the lab is there.
                let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", holder.as_raw_fd()))?;
                let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<u32>().ok());
                let pid = pid.filter(|&pid| pid > 0).ok_or(io::ErrorKind::NotFound)?;
                std::fs::metadata(format!("/proc/{pid}/ns/net")).map(|m| m.ino())
            })
            .map_err(Error::system(format!("look at host {} of lab {:?}", side.name(), self.name)))
    }

    /// Takes it down and waits until it is gone.
    ///
    /// # Errors
    /// [`Error::System`] where its owner does not answer, or is not gone after ten seconds.
    pub fn down(&self) -> Result<(), Error> {
        self.ask("down\n")?;
        let until = Instant::now() + PATIENCE;
        while self.lock.exists() && Self::find(&self.name).is_ok() {
            if Instant::now() > until {
                let source = io::Error::from(io::ErrorKind::TimedOut);
                return Err(Error::System { step: format!("see lab {:?} go", self.name), source });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// A buffer for one control message with one descriptor, aligned as the kernel wants it.
type Control = [u64; 4];

fn send_descriptor(to: &UnixStream, descriptor: &OwnedFd) -> io::Result<()> {
    let mut byte = [0u8];
    let mut control: Control = [0; 4];
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let length = size_of::<libc::c_int>() as u32;
    // SAFETY: every pointer in the message outlives the call, and the control buffer holds one descriptor.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(length) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(length) as usize;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(descriptor.as_raw_fd());
        libc::sendmsg(to.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn receive_descriptor(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0u8];
    let mut control: Control = [0; 4];
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: every pointer in the message outlives the call; a descriptor that arrives is new and ours.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Control>();
        if libc::recvmsg(from.as_fd().as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its owner ended"));
        }
        Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned()))
    }
}
