//! The processes that hold a lab's namespaces: an anchor, which is the init of the lab's own pid namespace, and one holder
//! for each host.
//!
//! The namespaces have no name and no file, so they live exactly as long as something is in them. The anchor exits when
//! its maker does, however the maker ends, and the kernel then kills everything else in the pid namespace.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use crate::Error;

/// One host's holder process, seen from the maker.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Process id in the maker's pid namespace.
    pub pid: i32,
    /// Refers to the process even after its id is reused.
    pub pidfd: OwnedFd,
    /// Its network namespace.
    pub net: OwnedFd,
}

/// The running anchor. Dropping it takes the namespaces down and waits until they are gone.
#[derive(Debug)]
pub(crate) struct Anchor {
    pidfd: OwnedFd,
    pub hosts: [Holder; 2],
    _control: OwnedFd,
}

/// What a new process reports to the maker: who it is (0 and 1 the hosts, 2 the anchor), and what failed, if anything.
#[derive(Clone, Copy)]
#[repr(C)]
struct Word {
    who: u8,
    step: u8,
    errno: i32,
}

const ANCHOR: u8 = 2;
const STEPS: [&str; 8] = [
    "start",
    "clone the holder of a host",
    "make the mount tree private",
    "mount /proc",
    "mount /sys",
    "set the host name",
    "leave the session",
    "unmount /sys",
];

impl Anchor {
    /// Makes the pid namespace and the two hosts in it.
    pub(crate) fn start() -> Result<Self, Error> {
        let (ours, theirs) = socket_pair()?;
        let one: libc::c_int = 1;
        // SAFETY: the option's value is a c_int that lives over the call.
        let set = unsafe {
            libc::setsockopt(
                ours.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PASSCRED,
                (&raw const one).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if set != 0 {
            return Err(Error::last("ask for the credentials of the lab's processes"));
        }
        let maker = pidfd_open(std::process::id() as i32).map_err(Error::system("open a pidfd of this process"))?;

        // No handler of the maker may run in the new processes, so they begin with every signal blocked.
        let before = block_signals();
        let mut pidfd: libc::c_int = -1;
        // SAFETY: the child runs only `anchor_main`, which makes system calls alone: it takes no lock, allocates
        // nothing, and never returns.
        let cloned = unsafe { clone_process(libc::CLONE_NEWPID | libc::CLONE_PIDFD, 0, &raw mut pidfd) };
        if cloned == 0 {
            anchor_main(theirs.as_raw_fd(), maker.as_raw_fd());
        }
        let failed = io::Error::last_os_error();
        restore_signals(&before);
        if cloned < 0 {
            return Err(match failed.raw_os_error() {
                Some(libc::EPERM) => Error::Privilege,
                _ => Error::System { step: "make a pid namespace".into(), source: failed },
            });
        }
        drop(theirs);
        // SAFETY: the kernel put a new descriptor there, which nothing else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let started = receive_hosts(&ours);
        match started {
            Ok(hosts) => Ok(Self { pidfd, hosts, _control: ours }),
            Err(error) => {
                kill_and_reap(&pidfd);
                Err(error)
            }
        }
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        kill_and_reap(&self.pidfd);
    }
}

fn kill_and_reap(pidfd: &OwnedFd) {
    // SAFETY: a plain system call on a descriptor that we own; failure (already dead) is what we want anyway.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), libc::SIGKILL, 0usize, 0) };
    loop {
        // SAFETY: siginfo_t is plain data, for which zeros are valid, and lives over the call.
        let waited = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, &raw mut info, libc::WEXITED | libc::__WALL)
        };
        if waited == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn socket_pair() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut pair = [-1; 2];
    // SAFETY: the array has room for the two descriptors.
    let made =
        unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, pair.as_mut_ptr()) };
    if made != 0 {
        return Err(Error::last("make a socket pair for the lab's processes"));
    }
    // SAFETY: both are new and owned by nothing else.
    Ok(unsafe { (OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])) })
}

/// A descriptor of process `pid`.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and owned by nothing else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn receive_hosts(control: &OwnedFd) -> Result<[Holder; 2], Error> {
    let mut found: [Option<Holder>; 2] = [None, None];
    while found.iter().any(Option::is_none) {
        let (word, pid) = receive(control).map_err(Error::system("hear from the lab's processes"))?;
        if word.errno != 0 {
            let step = STEPS.get(usize::from(word.step)).copied().unwrap_or("start");
            let who = ["host a", "host b", "the anchor"].get(usize::from(word.who)).copied().unwrap_or("?");
            let source = io::Error::from_raw_os_error(word.errno);
            return Err(Error::System { step: format!("{step} ({who})"), source });
        }
        if let Some(slot) = found.get_mut(usize::from(word.who)) {
            let pidfd = pidfd_open(pid).map_err(Error::system("open a pidfd of a host"))?;
            let net = std::fs::File::open(format!("/proc/{pid}/ns/net"))
                .map_err(Error::system("open the network namespace of a host"))?;
            *slot = Some(Holder { pid, pidfd, net: net.into() });
        }
    }
    match found {
        [Some(a), Some(b)] => Ok([a, b]),
        _ => Err(Error::Gone),
    }
}

/// One word and, from the kernel, the sender's process id in our own pid namespace.
fn receive(control: &OwnedFd) -> io::Result<(Word, i32)> {
    let mut word = Word { who: 0, step: 0, errno: 0 };
    let mut ancillary = [0u64; 8];
    let mut iov = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<Word>() };
    // SAFETY: msghdr is plain data; every pointer in it outlives the call, with its true length beside it.
    let (got, pid) = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = ancillary.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&ancillary);
        let got = libc::recvmsg(control.as_raw_fd(), &raw mut message, 0);
        let mut pid = None;
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_CREDENTIALS {
                pid = Some(libc::CMSG_DATA(header).cast::<libc::ucred>().read_unaligned().pid);
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
        (got, pid)
    };
    match (got, pid) {
        (-1, _) => Err(io::Error::last_os_error()),
        (n, Some(pid)) if n as usize == size_of::<Word>() => Ok((word, pid)),
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "they ended before they were ready")),
    }
}

pub(crate) fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are plain data that live over the calls.
    unsafe {
        let (mut all, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

pub(crate) fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: the set came from `block_signals`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Forks with `flags`. The child has the caller's memory as it was (copy on write), and nothing else shared.
///
/// # Safety
/// The child must not return, allocate or take a lock: other threads of the caller may have held any of them.
pub(crate) unsafe fn clone_process(flags: libc::c_int, exit_signal: libc::c_int, pidfd: *mut libc::c_int) -> i32 {
    // SAFETY: clone_args is plain data, for which zeros mean "none".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from(flags as u32);
    args.exit_signal = exit_signal as u64;
    args.pidfd = pidfd as u64;
    // SAFETY: a valid clone_args of its size; without CLONE_VM and a stack this is a fork.
    unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) as i32 }
}

fn errno() -> i32 {
    // SAFETY: the location of this thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

fn say(control: RawFd, who: u8, step: u8, errno: i32) {
    let word = Word { who, step, errno };
    // SAFETY: sends the bytes of a live value. If no one receives it, the maker is gone, which ends this process anyway.
    unsafe { libc::send(control, (&raw const word).cast(), size_of::<Word>(), libc::MSG_NOSIGNAL) };
}

fn close_all_but(keep: [RawFd; 2]) {
    let (low, high) = (keep[0].min(keep[1]) as u32, keep[0].max(keep[1]) as u32);
    // SAFETY: plain system calls; no descriptor that is closed here is used again by this process.
    unsafe {
        if low > 0 {
            libc::syscall(libc::SYS_close_range, 0, low - 1, 0);
        }
        if high > low + 1 {
            libc::syscall(libc::SYS_close_range, low + 1, high - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, high + 1, u32::MAX, 0);
    }
}

/// The anchor. System calls only, see `clone_process`.
fn anchor_main(control: RawFd, maker: RawFd) -> ! {
    close_all_but([control, maker]);
    // SAFETY: system calls with valid arguments only.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"lab-anchor".as_ptr());
        // Out of the maker's session, so that a terminal's Ctrl-C and Ctrl-Z do not reach the lab behind its maker's back.
        if libc::setsid() < 0 {
            say(control, ANCHOR, 6, errno());
            libc::_exit(1);
        }
        // Orphans in the lab become children of this init: ignoring SIGCHLD has the kernel reap them.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        for who in 0..2 {
            let flags = libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWUTS;
            match clone_process(flags, libc::SIGCHLD, std::ptr::null_mut()) {
                0 => holder_main(control, who),
                n if n < 0 => {
                    say(control, ANCHOR, 1, errno());
                    libc::_exit(1);
                }
                _ => {}
            }
        }
        loop {
            let mut watched = [
                libc::pollfd { fd: control, events: 0, revents: 0 },
                libc::pollfd { fd: maker, events: libc::POLLIN, revents: 0 },
            ];
            if libc::poll(watched.as_mut_ptr(), 2, -1) > 0 {
                libc::_exit(0);
            }
        }
    }
}

/// What `ip netns exec` hides and a tracer inside a host needs: these stay as they are outside.
const KEPT: [&std::ffi::CStr; 4] = [c"/sys/fs/cgroup", c"/sys/fs/bpf", c"/sys/kernel/tracing", c"/sys/kernel/debug"];

/// The holder of one host. System calls only, see `clone_process`.
fn holder_main(control: RawFd, who: u8) -> ! {
    close_all_but([control, control]);
    let fail = |step: u8| -> ! {
        say(control, who, step, errno());
        // SAFETY: ends this process.
        unsafe { libc::_exit(1) }
    };
    let name: &std::ffi::CStr = if who == 0 { c"a" } else { c"b" };
    // SAFETY: system calls with valid, nul-terminated strings only.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, if who == 0 { c"lab-host-a" } else { c"lab-host-b" }.as_ptr());
        let none = std::ptr::null();
        if libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_SLAVE, none.cast()) != 0 {
            fail(2);
        }
        let strict = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        if libc::mount(c"proc".as_ptr(), c"/proc".as_ptr(), c"proc".as_ptr(), strict, none.cast()) != 0 {
            fail(3);
        }
        let tree = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as u32;
        let kept = KEPT.map(|path| libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), tree));
        // /sys shows the network namespace of whoever mounted it.
        if libc::mount(c"sysfs".as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), strict, none.cast()) != 0 {
            fail(4);
        }
        for (path, tree) in KEPT.iter().zip(kept) {
            if tree >= 0 {
                const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;
                let (here, flag) = (libc::AT_FDCWD, MOVE_MOUNT_F_EMPTY_PATH);
                libc::syscall(libc::SYS_move_mount, tree as i32, c"".as_ptr(), here, path.as_ptr(), flag);
                libc::close(tree as i32);
            }
        }
        if libc::sethostname(name.as_ptr(), 1) != 0 {
            fail(5);
        }
        say(control, who, 0, 0);
        close_all_but([-1, -1].map(|_: i32| i32::MAX - 1));
        loop {
            libc::pause();
        }
    }
}
