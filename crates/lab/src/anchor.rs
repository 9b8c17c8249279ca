//! The processes that hold a lab's namespaces: an anchor, which is the init of the lab's own pid
//! namespace, and one holder for each host.
//!
//! The namespaces have no name and no file, so they live exactly as long as something is in them.
//! The anchor exits when its maker does, however the maker ends, and the kernel then kills
//! everything else in the pid namespace.

use std::ffi::{CStr, CString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use machine::forked::{block_signals, close_all_but, end, restore_signals};
use nix::sys::signal::SigHandler;
use rustix::event::{PollFd, PollFlags, Timespec, pause, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::{Error, rights};

/// One host's holder process, seen from the maker.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Refers to the process even after its id is reused.
    pub pidfd: OwnedFd,
    /// Its network namespace.
    pub net: OwnedFd,
}

/// The running anchor. Dropping it takes the namespaces down and waits until they are gone.
#[derive(Debug)]
pub(crate) struct Anchor {
    pidfd: OwnedFd,
    /// Hosts a and b, and then those that a testbed adds.
    pub hosts: Vec<Holder>,
    _control: OwnedFd,
}

/// What a new process reports to the maker: who it is (its place among the hosts, or [`ANCHOR`]),
/// and what failed, if anything.
#[derive(Clone, Copy)]
struct Word {
    who: u8,
    step: u8,
    errno: i32,
}

impl Word {
    const BYTES: usize = 6;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.errno.to_ne_bytes();
        [self.who, self.step, a, b, c, d]
    }

    fn from_bytes([who, step, errno @ ..]: [u8; Self::BYTES]) -> Self {
        Self { who, step, errno: i32::from_ne_bytes(errno) }
    }
}

const ANCHOR: u8 = u8::MAX;

/// What a host is made with, ready before its process is: that can allocate nothing.
#[derive(Debug)]
pub(crate) struct HostFiles {
    /// Its name.
    name: CString,
    /// The name of the process that holds it.
    process: CString,
    /// Files that it has for itself: where, and what is in them.
    files: Vec<(CString, Vec<u8>)>,
}

impl HostFiles {
    /// A host called `name`, for which `addresses` have names, with one more file.
    pub(crate) fn new(name: &str, addresses: &[(IpAddr, String)], more: Option<(String, Vec<u8>)>) -> Self {
        let text = |text: String| CString::new(text).unwrap_or_default();
        let mut hosts = std::fs::read("/etc/hosts").unwrap_or_default();
        hosts.extend_from_slice(b"\n# The hosts of this lab\n");
        for (address, name) in addresses {
            hosts.extend_from_slice(format!("{address}\t{name}\n").as_bytes());
        }
        Self {
            name: text(name.to_owned()),
            // The kernel keeps 15 bytes of it.
            process: text(format!("lab-host-{name}")),
            files: std::iter::once(("/etc/hosts".into(), hosts)).chain(more).map(|(at, of)| (text(at), of)).collect(),
        }
    }
}

const STEPS: [&str; 8] = [
    "start",
    "clone the holder of a host",
    "make the mount tree private",
    "mount /proc",
    "mount /sys",
    "set the host name",
    "leave the session",
    "write the host's files",
];

impl Anchor {
    /// Makes the pid namespace and these hosts in it, up to 250.
    pub(crate) fn start(hosts: &[HostFiles]) -> Result<Self, Error> {
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) =
            pair.map_err(|error| Error::system("make a socket pair for the lab's processes")(error.into()))?;
        rustix::net::sockopt::set_socket_passcred(&ours, true)
            .map_err(|error| Error::system("ask for the credentials of the lab's processes")(error.into()))?;
        let maker = own_pidfd().map_err(Error::system("open a pidfd of this process"))?;

        // No handler of the maker may run in the new processes, so they begin with every signal
        // blocked.
        let before = block_signals();
        let mut pidfd: libc::c_int = -1;
        // SAFETY: the child runs only `anchor_main`, which makes system calls alone: it takes no
        // lock, allocates nothing, and never returns.
        let cloned = unsafe { clone_process(libc::CLONE_NEWPID | libc::CLONE_PIDFD, 0, &raw mut pidfd) };
        if cloned == 0 {
            anchor_main(theirs.as_fd(), maker.as_fd(), hosts);
        }
        let failed = io::Error::last_os_error();
        restore_signals(before);
        if cloned < 0 {
            return Err(match failed.raw_os_error() {
                Some(libc::EPERM) => Error::Privilege,
                _ => Error::System { step: "make a pid namespace".into(), source: failed },
            });
        }
        drop(theirs);
        // SAFETY: the kernel put a new descriptor there, which nothing else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let started = receive_hosts(&ours, hosts);
        match started {
            Ok(hosts) => Ok(Self { pidfd, hosts, _control: ours }),
            Err(error) => {
                kill_and_reap(&pidfd);
                Err(error)
            }
        }
    }
}

impl Anchor {
    /// Whether the anchor and every holder are alive: a descriptor of a process can be read once
    /// that has ended.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let processes = std::iter::once(&self.pidfd).chain(self.hosts.iter().map(|holder| &holder.pidfd));
        let mut processes: Vec<_> = processes.map(|process| PollFd::new(process, PollFlags::IN)).collect();
        match poll(&mut processes, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => Err(Error::Gone),
            Err(e) => Err(Error::System { step: "look after a lab's processes".into(), source: e.into() }),
        }
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        kill_and_reap(&self.pidfd);
    }
}

fn kill_and_reap(pidfd: &OwnedFd) {
    // It fails where the process is dead already, which is what is wanted.
    rustix::process::pidfd_send_signal(pidfd, Signal::KILL).ok();
    // The anchor was cloned without a signal for its parent, which only this option waits for.
    let options = WaitIdOptions::EXITED | WaitIdOptions::from_bits_retain(libc::__WALL as u32);
    while matches!(rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), options), Err(Errno::INTR)) {}
}

/// A descriptor of this process.
pub(crate) fn own_pidfd() -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?)
}

fn receive_hosts(control: &OwnedFd, hosts: &[HostFiles]) -> Result<Vec<Holder>, Error> {
    let mut found: Vec<Option<Holder>> = hosts.iter().map(|_| None).collect();
    while found.iter().any(Option::is_none) {
        let (word, pid) = receive(control).map_err(Error::system("hear from the lab's processes"))?;
        if word.errno != 0 {
            let step = STEPS.get(usize::from(word.step)).copied().unwrap_or("start");
            let host = hosts.get(usize::from(word.who)).map(|host| format!("host {}", host.name.to_string_lossy()));
            let who = host.unwrap_or_else(|| "the anchor".into());
            let source = io::Error::from_raw_os_error(word.errno);
            return Err(Error::System { step: format!("{step} ({who})"), source });
        }
        if let Some(slot) = found.get_mut(usize::from(word.who)) {
            let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())
                .map_err(|error| Error::system("open a pidfd of a host")(error.into()))?;
            let pid = pid.as_raw_nonzero().get();
            let net = std::fs::File::open(format!("/proc/{pid}/ns/net"))
                .map_err(Error::system("open the network namespace of a host"))?;
            *slot = Some(Holder { pidfd, net: net.into() });
        }
    }
    found.into_iter().collect::<Option<Vec<_>>>().ok_or(Error::Gone)
}

/// One word and, from the kernel, the sender's process id in our own pid namespace.
fn receive(control: &OwnedFd) -> io::Result<(Word, Pid)> {
    let mut bytes = [0; Word::BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(control, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::empty())?;
    let sender = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid),
        _ => None,
    });
    match sender {
        Some(pid) if got.bytes == Word::BYTES => Ok((Word::from_bytes(bytes), pid)),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "they ended before they were ready")),
    }
}

/// Forks with `flags`. The child has the caller's memory as it was (copy on write), and nothing
/// else shared.
///
/// # Safety
/// The child must not return, allocate or take a lock: other threads of the caller may have held
/// any of them.
pub(crate) unsafe fn clone_process(flags: libc::c_int, exit_signal: libc::c_int, pidfd: *mut libc::c_int) -> i32 {
    // SAFETY: clone_args is plain data, for which zeros mean "none".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from(flags as u32);
    args.exit_signal = exit_signal as u64;
    args.pidfd = pidfd as u64;
    // SAFETY: a valid clone_args of its size; without CLONE_VM and a stack this is a fork. nix's
    // clone wants a stack, and gives no pidfd.
    unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) as i32 }
}

fn say(control: BorrowedFd<'_>, who: u8, step: u8, errno: i32) {
    // If no one receives it, the maker is gone, which ends this process anyway.
    rustix::net::send(control, &Word { who, step, errno }.to_bytes(), SendFlags::NOSIGNAL).ok();
}

/// The anchor. System calls only, see `clone_process`.
fn anchor_main(control: BorrowedFd<'_>, maker: BorrowedFd<'_>, hosts: &[HostFiles]) -> ! {
    // SAFETY: this process uses these two descriptors alone.
    unsafe { close_all_but([control.as_raw_fd(), maker.as_raw_fd()]) };
    rustix::thread::set_name(c"lab-anchor").ok();
    // Out of the maker's session, so that a terminal's Ctrl-C and Ctrl-Z do not reach the lab
    // behind its maker's back.
    if let Err(error) = rustix::process::setsid() {
        say(control, ANCHOR, 6, error.raw_os_error());
        end(1);
    }
    // Orphans in the lab become children of this init: ignoring SIGCHLD has the kernel reap them.
    // SAFETY: no handler is installed.
    unsafe { nix::sys::signal::signal(nix::sys::signal::Signal::SIGCHLD, SigHandler::SigIgn) }.ok();
    for (who, host) in (0u8..).zip(hosts) {
        let flags = libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWUTS;
        // SAFETY: the child runs only `holder_main`, which makes system calls alone and never
        // returns.
        match unsafe { clone_process(flags, libc::SIGCHLD, std::ptr::null_mut()) } {
            0 => holder_main(control, who, host),
            n if n < 0 => {
                say(control, ANCHOR, 1, io::Error::last_os_error().raw_os_error().unwrap_or(0));
                end(1);
            }
            _ => {}
        }
    }
    rights::only_wait();
    loop {
        let mut watched = [PollFd::new(&control, PollFlags::empty()), PollFd::new(&maker, PollFlags::IN)];
        if poll(&mut watched, None).is_ok_and(|ready| ready > 0) {
            end(0);
        }
    }
}

/// What `ip netns exec` hides and a tracer inside a host needs: these stay as they are outside.
const KEPT: [&CStr; 4] = [c"/sys/fs/cgroup", c"/sys/fs/bpf", c"/sys/kernel/tracing", c"/sys/kernel/debug"];

/// The holder of one host. System calls only, see `clone_process`.
fn holder_main(control: BorrowedFd<'_>, who: u8, host: &HostFiles) -> ! {
    // SAFETY: this process uses this descriptor alone, and those that it opens from now on.
    unsafe { close_all_but([control.as_raw_fd()]) };
    if let Err((step, error)) = settle(host) {
        say(control, who, step, error.raw_os_error());
        end(1);
    }
    say(control, who, 0, 0);
    // SAFETY: this process uses no descriptor any more.
    unsafe { close_all_but([]) };
    rights::only_wait();
    loop {
        pause();
    }
}

/// Gives a host its name and its view of the file system; on failure with the number of the step.
fn settle(host: &HostFiles) -> Result<(), (u8, Errno)> {
    let step = |number: u8| move |error| (number, error);
    rustix::thread::set_name(&host.process).ok();
    rustix::mount::mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)
        .map_err(step(2))?;
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"proc", c"/proc", c"proc", strict, None).map_err(step(3))?;
    let tree = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let kept = KEPT.map(|path| rustix::mount::open_tree(CWD, path, tree).ok());
    let mut files: [Option<OwnedFd>; MOST_FILES] = std::array::from_fn(|_| None);
    own_files(&host.files, &mut files).map_err(step(7))?;
    // /sys shows the network namespace of whoever mounted it.
    rustix::mount::mount(c"sysfs", c"/sys", c"sysfs", strict, None).map_err(step(4))?;
    for (path, tree) in KEPT.into_iter().zip(kept) {
        if let Some(tree) = tree {
            rustix::mount::move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).ok();
        }
    }
    for ((path, _), file) in host.files.iter().zip(&files) {
        // A machine that has no such file has none to be put in its place.
        if let Some(file) = file {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_SYMLINKS;
            rustix::mount::move_mount(file, c"", CWD, path.as_c_str(), flags).ok();
        }
    }
    rustix::system::sethostname(host.name.to_bytes()).map_err(step(5))
}

/// The most files that a host has for itself.
const MOST_FILES: usize = 2;

/// Files of the host alone, each as a mount that is nowhere yet: they are written to memory that is
/// mounted on /sys for that moment.
fn own_files(files: &[(CString, Vec<u8>)], mounts: &mut [Option<OwnedFd>; MOST_FILES]) -> Result<(), Errno> {
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"tmpfs", c"/sys", c"tmpfs", strict, Some(c"size=1m,mode=755"))?;
    for ((name, (_, bytes)), mount) in [c"/sys/0", c"/sys/1"].into_iter().zip(files).zip(mounts) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(name, flags, Mode::from_raw_mode(0o644))?;
        let mut left = &bytes[..];
        while !left.is_empty() {
            left = &left[rustix::io::write(&file, left)?..];
        }
        *mount = Some(rustix::mount::open_tree(
            CWD,
            name,
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
        )?);
    }
    rustix::mount::unmount(c"/sys", UnmountFlags::DETACH)
}
