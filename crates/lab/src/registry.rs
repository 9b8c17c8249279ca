//! Labs that have a name, so that other processes find them: `lab up` in one terminal, `lab exec`
//! in another.
//!
//! A named lab has a file under [`directory`] that its owner holds locked, and a socket beside it
//! on which the owner answers. The lock ends with the owner, in whatever way that ends: a file that
//! can be locked is stale. The owner's sweeper removes it, else whoever finds it. Labs are not
//! found by process id, so a reused id is never signalled or entered.

use std::fs::{File, TryLockError};
use std::io::{self, BufRead as _, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use machine::locked::is_at;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use crate::anchor::Holder;
use crate::sweeper::Sweeper;
use crate::{Change, Error, HostReport, Lab, LinkReport, Network, PathReport, Place, Side};

/// Where named labs of root are found. Those of other users: [`directory`].
pub const DIRECTORY: &str = "/run/wirelapse/labs";

/// Where this user's named labs are found: [`DIRECTORY`] for root; for others `wirelapse/labs` in
/// `$XDG_RUNTIME_DIR`, or `/tmp/wirelapse-UID/labs` where there is none.
pub fn directory() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| match crate::user::outside_user() {
        0 => DIRECTORY.into(),
        user => match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|runtime| is_own(runtime)) {
            Some(runtime) => runtime.join("wirelapse/labs"),
            None => format!("/tmp/wirelapse-{user}/labs").into(),
        },
    })
}

/// Whether a folder, not a link to one, is this user's.
fn is_own(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder).is_ok_and(|m| m.is_dir() && m.uid() == rustix::process::geteuid().as_raw())
}

/// Whether the folder of labs and its parent belong to this user: in another user's folder, that
/// user could answer.
fn is_ours(directory: &Path) -> bool {
    directory.ancestors().take(2).all(is_own)
}

/// Makes the folder of labs. Where others can write, a folder of another user is not used.
fn make_directory() -> Result<(), Error> {
    let directory = directory();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => Error::Privilege,
        _ => Error::System { step: format!("make {}", directory.display()), source: e },
    })?;
    if is_ours(directory) {
        return Ok(());
    }
    let source = io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's");
    Err(Error::System { step: format!("use {}", directory.display()), source })
}

/// How long an owner may take to answer, and a lab to go down.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest request that is read, bytes.
const LONGEST_REQUEST: u64 = 16 << 10;

/// A name that this process holds. Dropping it releases the name.
#[derive(Debug)]
pub struct Registration {
    name: String,
    listener: UnixListener,
    // Declared after the listener: the name stays taken until the listener is closed.
    _lock: File,
    _sweeper: Option<Sweeper>,
}

fn named(name: &str, problem: impl Into<String>) -> Error {
    Error::Name { name: name.into(), problem: problem.into() }
}

fn files(name: &str) -> Result<(PathBuf, PathBuf), Error> {
    let valid = (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if !valid {
        return Err(named(name, "a name is 1 to 32 letters, digits, hyphens and underscores"));
    }
    let directory = directory();
    Ok((directory.join(format!("{name}.lock")), directory.join(format!("{name}.socket"))))
}

/// Locks the file, or `None` where somebody else has it.
fn lock(file: &File) -> io::Result<Option<()>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl Registration {
    /// Takes `name`.
    ///
    /// # Errors
    /// [`Error::Name`] where it is no name or already a running lab's, [`Error::System`] where the
    /// files cannot be made.
    pub fn take(name: &str) -> Result<Self, Error> {
        let (lock_path, socket_path) = files(name)?;
        make_directory()?;
        // Where the sweeper of a lab was killed with it, its files go with the next one. Where that
        // cannot be, this lab comes up all the same.
        let _ = names();
        let step = || Error::system(format!("take the name {name:?} in {}", directory().display()));
        let held = loop {
            let file = File::options().create(true).truncate(false).write(true).open(&lock_path).map_err(step())?;
            if lock(&file).map_err(step())?.is_none() {
                return Err(named(name, "is running already; choose another with --name, or take it down first"));
            }
            if is_at(&file, &lock_path) {
                break file;
            }
        };
        if let Err(e) = std::fs::remove_file(&socket_path)
            && e.kind() != io::ErrorKind::NotFound
        {
            return Err(Error::System { step: format!("remove a stale {}", socket_path.display()), source: e });
        }
        let listener = UnixListener::bind(&socket_path).map_err(step())?;
        // Without room for one more process the files go with the next lab.
        let sweeper = Sweeper::start(&lock_path, &socket_path).ok();
        Ok(Self { name: name.into(), listener, _lock: held, _sweeper: sweeper })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers requests for `lab` until one takes it down, it is found broken, or `over` returns
    /// true. Five times a second and after each signal, `over` is called and the lab's processes
    /// are checked.
    ///
    /// # Errors
    /// [`Error::System`] where waiting fails; [`Error::Gone`] where a process that the lab rests on
    /// was killed.
    pub fn serve<'s>(&self, lab: impl Into<Served<'s>>, over: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        let lab = lab.into();
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        while !over() {
            lab.check()?;
            let mut watched = [rustix::event::PollFd::new(&self.listener, rustix::event::PollFlags::IN)];
            match rustix::event::poll(&mut watched, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(e) => return Err(Error::System { step: "wait for requests".into(), source: e.into() }),
            }
            // A client that goes away in the middle of a request is no error here.
            if let Ok((client, _)) = self.listener.accept()
                && let Ok(true) = answer(lab, &client)
            {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Ok((lock, socket)) = files(&self.name) {
            // If they cannot be removed they are stale, and whoever finds them next tries again.
            let _ = std::fs::remove_file(socket);
            let _ = std::fs::remove_file(lock);
        }
    }
}

/// Answers one request; `true` if it asked to take the lab down.
fn answer(lab: Served<'_>, client: &UnixStream) -> io::Result<bool> {
    client.set_read_timeout(Some(Duration::from_secs(1)))?;
    client.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut request = String::new();
    io::BufReader::new(client.take(LONGEST_REQUEST)).read_line(&mut request)?;
    if let Some(changes) = request.strip_prefix("change ") {
        let mut to = client;
        to.write_all(&serde_json::to_vec(&changed(lab, changes))?)?;
        return Ok(false);
    }
    match request.trim_end() {
        "report" => {
            let mut to = client;
            // The path of a lab of two hosts; a network has several.
            if let Served::Lab(lab) = lab {
                to.write_all(&serde_json::to_vec(&lab.path().report())?)?;
            }
        }
        "describe" => {
            let mut to = client;
            to.write_all(&serde_json::to_vec(&lab.describe())?)?;
        }
        "down" => return Ok(true),
        other => {
            if let Some(holder) = other.strip_prefix("enter ").and_then(|host| lab.holder(host)) {
                send_descriptor(client, &holder.pidfd)?;
            }
        }
    }
    Ok(false)
}

/// The answer to a request for a change.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Changed {
    /// Before and after.
    Done(Box<[PathReport; 2]>),
    /// The path cannot be changed like this.
    Refused(String),
    /// Changing it failed.
    Failed(String),
}

fn changed(lab: Served<'_>, request: &str) -> Changed {
    let request: ChangeRequest = match serde_json::from_str(request) {
        Ok(request) => request,
        Err(error) => return Changed::Refused(format!("the request is none: {error}")),
    };
    let (path, turned) = match (lab, &request.link) {
        (Served::Lab(lab), None) => (lab.path(), false),
        (Served::Lab(lab), Some(link)) if *link == ["a", "b"] => (lab.path(), false),
        (Served::Lab(lab), Some(link)) if *link == ["b", "a"] => (lab.path(), true),
        (Served::Lab(_), Some([a, b])) => {
            return Changed::Refused(format!("there is no link between {a} and {b}: its hosts are a and b"));
        }
        (Served::Network(network), None) => match &network.links()[..] {
            [only] => match network.path(&only.between) {
                Some(found) => found,
                None => return Changed::Failed("its one link is not there".into()),
            },
            links => {
                let links: Vec<String> = links.iter().map(|link| link.between.join(",")).collect();
                return Changed::Refused(format!("it has several links, say which with --link: {}", links.join(" ")));
            }
        },
        (Served::Network(network), Some(link)) => match network.path(link) {
            Some(found) => found,
            None => {
                let links: Vec<String> = network.links().iter().map(|link| link.between.join(",")).collect();
                let [a, b] = link;
                return Changed::Refused(format!(
                    "there is no link between {a} and {b}: its links are {}",
                    links.join(" ")
                ));
            }
        },
    };
    let mut changes = request.changes;
    if turned {
        changes.reverse();
    }
    let before = path.report();
    match path.apply(&changes) {
        Ok(()) => Changed::Done(Box::new([before, path.report()])),
        Err(error) if error.is_wrong_use() => Changed::Refused(error.to_string()),
        Err(error) => Changed::Failed(error.to_string()),
    }
}

/// A request for a change.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct ChangeRequest {
    /// Which link; may be omitted where there is only one.
    link: Option<[String; 2]>,
    changes: [Change; 2],
}

/// What answers to a name.
#[derive(Clone, Copy, Debug)]
pub enum Served<'s> {
    /// Two hosts and a path.
    Lab(&'s Lab),
    /// A topology.
    Network(&'s Network),
}

impl<'s> From<&'s Lab> for Served<'s> {
    fn from(lab: &'s Lab) -> Self {
        Self::Lab(lab)
    }
}

impl<'s> From<&'s Network> for Served<'s> {
    fn from(network: &'s Network) -> Self {
        Self::Network(network)
    }
}

/// What a name stands for.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Description {
    /// Two hosts and a path.
    Lab(Box<PathReport>),
    /// A topology.
    Network {
        /// Its hosts.
        hosts: Vec<HostReport>,
        /// Its links.
        links: Vec<LinkReport>,
    },
}

impl<'s> Served<'s> {
    fn check(self) -> Result<(), Error> {
        match self {
            Self::Lab(lab) => lab.check(),
            Self::Network(network) => network.check(),
        }
    }

    fn holder(self, host: &str) -> Option<&'s Holder> {
        match self {
            Self::Lab(lab) => match (
                Side::ALL.into_iter().find(|s| s.name() == host),
                Place::ALL.into_iter().find(|p| p.name() == host),
            ) {
                (Some(side), _) => Some(lab.host(side).holder),
                (None, Some(place)) => lab.place(place),
                (None, None) => None,
            },
            Self::Network(network) => network.holder(host),
        }
    }

    fn describe(self) -> Description {
        match self {
            Self::Lab(lab) => Description::Lab(Box::new(lab.path().report())),
            Self::Network(network) => Description::Network { hosts: network.hosts(), links: network.links() },
        }
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
/// [`Error::System`] where [`directory`] cannot be read; that it is not there is no error.
pub fn names() -> Result<Vec<String>, Error> {
    let step = || Error::system(format!("read {}", directory().display()));
    let entries = match std::fs::read_dir(directory()) {
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
        if !is_ours(directory()) {
            return Err(none());
        }
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

    /// Its hosts and links, with what they were asked to be and did.
    ///
    /// # Errors
    /// [`Error::System`] where its owner does not answer.
    pub fn describe(&self) -> Result<Description, Error> {
        let mut text = String::new();
        let read = self.ask("describe\n")?.read_to_string(&mut text).and_then(|_| Ok(serde_json::from_str(&text)?));
        read.map_err(Error::system(format!("read what lab {:?} is", self.name)))
    }

    /// Changes its path, or that between two hosts, see [`crate::Path::apply`]; the path before and
    /// after.
    ///
    /// # Errors
    /// [`Error::Refused`] where its owner refuses, [`Error::System`] where it fails or does not
    /// answer.
    pub fn change(&self, link: Option<[String; 2]>, changes: [Change; 2]) -> Result<[PathReport; 2], Error> {
        let step = || Error::system(format!("change lab {:?}", self.name));
        let request =
            serde_json::to_string(&ChangeRequest { link, changes }).map_err(io::Error::other).map_err(step())?;
        let mut text = String::new();
        let read = self.ask(&format!("change {request}\n"))?.read_to_string(&mut text);
        match read.and_then(|_| Ok(serde_json::from_str(&text)?)).map_err(step())? {
            Changed::Done(reports) => Ok(*reports),
            Changed::Refused(reason) => Err(Error::Refused { name: self.name.clone(), reason }),
            Changed::Failed(reason) => Err(step()(io::Error::other(reason))),
        }
    }

    /// A command inside the host of this name, see [`crate::Host::command`].
    ///
    /// # Errors
    /// [`Error::System`] where its owner does not answer or has no such host.
    pub fn command(&self, host: &str, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, Error> {
        let stream = self.ask(&format!("enter {host}\n"))?;
        receive_descriptor(&stream)
            .and_then(|holder| crate::enter::command(program.as_ref(), holder))
            .map_err(Error::system(format!("enter host {host} of lab {:?}", self.name)))
    }

    /// The inode number of the network namespace of one of its hosts, as `/proc/PID/ns/net` shows
    /// it.
    ///
    /// # Errors
    /// [`Error::System`] where its owner does not answer, or the host is not to be seen from the
    /// caller's pid namespace.
    pub fn network(&self, side: Side) -> Result<u64, Error> {
        let stream = self.ask(&format!("enter {}\n", side.name()))?;
        receive_descriptor(&stream)
            .and_then(|holder| {
                // The holder lives as long as its lab, so the number stays its own while the lab is
                // there.
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

fn send_descriptor(to: &UnixStream, descriptor: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive_descriptor(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptor.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "its owner ended"))
}
