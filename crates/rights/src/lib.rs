//! Giving up rights once everything that takes them is open.
//!
//! **Does:** leaves a thread, and all that it starts afterwards, with what its work still takes:
//! capabilities, user, folders that are written (Landlock) and system calls (seccomp).
//!
//! **Does not:** give anything back. What is given up is gone until the process ends.
//!
//! **Guarantees:** where the kernel lacks Landlock or seccomp the rest is given up all the same;
//! whatever else fails is an error, and nothing goes on with more than was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use files::folder;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _,
};
use rustix::fs::Access;
pub use rustix::thread::CapabilitySet;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// A right that cannot be given up.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {why}")]
pub struct Error {
    what: &'static str,
    why: Box<dyn StdError + Send + Sync>,
}

impl Error {
    fn of<E: Into<Box<dyn StdError + Send + Sync>>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |why| Self { what, why: why.into() }
    }
}

/// What a command still needs.
#[derive(Debug)]
pub struct Kept<'a> {
    /// Capabilities.
    pub capabilities: CapabilitySet,
    /// Files below these directories are made, written, renamed and removed.
    pub written: &'a [&'a Path],
    /// Files and directories that are read beside `/proc` and `/sys`. What is not there is skipped.
    pub read: &'a [&'a Path],
    /// TCP ports that are connected to, and none is bound any more; `None` restricts nothing.
    pub connected: Option<&'a [u16]>,
    /// Whether network namespaces are still entered.
    pub namespaces: bool,
    /// Whether the system calls that no measuring process makes are denied to the threads that are
    /// there already too.
    pub all_threads: bool,
    /// Whether other processes are still looked into, for their namespaces. Landlock forbids that,
    /// so access to files stays as it was.
    pub processes: bool,
    /// Whether any file is still read that this process's user may read.
    pub reads_all: bool,
    /// Whether programs are still started. What they have is at most what this process keeps.
    pub programs: bool,
    /// Whether root stays root. Else it becomes the user who called `sudo`, or nobody.
    pub root: bool,
    /// Whether nothing is done any more but to decode what is open and to write files: every other
    /// system call is denied.
    pub decodes: bool,
    /// Whether maps of BPF programs that are loaded are still read and written. Before Linux 5.19
    /// that takes `CAP_BPF` where `kernel.unprivileged_bpf_disabled` is set.
    pub maps: bool,
    /// Whether what is decoded is sent as frames, on a socket that is open.
    pub sends: bool,
}

impl Kept<'_> {
    /// Only what is open already.
    pub const NOTHING: Self = Self {
        capabilities: CapabilitySet::empty(),
        written: &[],
        read: &[],
        connected: None,
        namespaces: false,
        all_threads: false,
        processes: false,
        reads_all: false,
        programs: false,
        root: true,
        decodes: false,
        maps: false,
        sends: false,
    };
}

/// The user that every Linux has for whoever should own nothing.
const NOBODY: u32 = 65_534;

/// System calls that no measuring process makes: those that start programs, enter or change
/// namespaces and mounts, look into other processes, and change the kernel. They fail with `EPERM`.
const DENIED: [libc::c_long; 31] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
];

/// System calls that decoding takes, and writing a report: memory and threads, what is open, and
/// files in the folders that Landlock leaves.
const DECODING: &[libc::c_long] = &[
    // What is open.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_ppoll,
    // Files that are written.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_getcwd,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_geteuid,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    // Threads, and how they end.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_prctl,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Chance and time.
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
];

/// The same by their old names, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const DECODING_OLD: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_access,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_poll,
];
#[cfg(not(target_arch = "x86_64"))]
const DECODING_OLD: &[libc::c_long] = &[];

/// Keeps no more than `kept`, for good: for the calling thread and all that it starts afterwards.
/// Threads that are there already keep theirs, so this comes before they are started, but for
/// [`Kept::all_threads`]. Where the kernel lacks Landlock or seccomp the rest is done all the same
/// (`doctor` says what there is).
///
/// # Errors
/// Where a right that is no longer needed cannot be given up.
pub fn keep_only(kept: &Kept<'_>) -> Result<(), Error> {
    keep(kept, !kept.written.is_empty())
}

/// The same; whether a file may be opened is decided as before where some are (`opened`).
fn keep(kept: &Kept<'_>, opened: bool) -> Result<(), Error> {
    if !kept.root && rustix::process::geteuid().is_root() {
        leave_root(opened)?;
    }
    drop_capabilities(kept)?;
    rustix::thread::set_no_new_privs(true).map_err(Error::of("set no_new_privs"))?;
    if !kept.processes {
        restrict_files(kept).map_err(Error::of("restrict access to files (Landlock)"))?;
    }
    deny_calls(kept)
}

/// Keeps what a capture needs once its sockets and programs are open: the folders of the files that
/// it writes, and with hardware stamps the right to put the NIC's setting back.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_capture<'a>(hardware: bool, files: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    let folders: Vec<&Path> = files.into_iter().map(folder).collect();
    let hardware = if hardware { CapabilitySet::NET_ADMIN } else { CapabilitySet::empty() };
    let writing = to_reach(&folders, &[]);
    keep_only(&Kept { capabilities: hardware | writing, written: &folders, maps: true, ..Kept::NOTHING })
}

/// Keeps what it takes to decode files that are open, written by nobody knows whom, and to write
/// what was found into these files; with `names`, also to ask for the names of hosts.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_decoding<'a>(files: impl IntoIterator<Item = &'a Path>, names: bool) -> Result<(), Error> {
    let folders: Vec<&Path> = files.into_iter().map(folder).collect();
    keep_for_runs(&[], &folders, names)
}

/// The same for runs and other files that are opened one after the other while they are decoded,
/// and to write into these folders.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_runs(runs: &[&Path], folders: &[&Path], names: bool) -> Result<(), Error> {
    // The resolver's system calls are those of whatever modules the system has for it.
    let resolver = if names { &RESOLVER[..] } else { &[] };
    let read: Vec<&Path> = runs.iter().copied().chain(resolver.iter().map(Path::new)).collect();
    let capabilities = to_reach(folders, runs);
    let root = is_root_by_another_name(capabilities);
    let kept = Kept { capabilities, written: folders, read: &read, root, decodes: !names, ..Kept::NOTHING };
    keep(&kept, !(folders.is_empty() && runs.is_empty()))
}

/// Keeps what it takes to decode a capture that is open, and to send its frames on a socket that is
/// open.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_replay() -> Result<(), Error> {
    keep_only(&Kept { root: false, decodes: true, sends: true, ..Kept::NOTHING })
}

/// Keeps what queries take: to read the runs below `place`, what links there lead to included, and
/// to write into these folders; a network, and threads. What is kept in the folders `spare` saves
/// time, and no right is kept for it.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_queries(place: Option<&Path>, folders: &[&Path], spare: &[&Path]) -> Result<(), Error> {
    let capabilities = to_reach(folders, place.as_slice());
    let root = is_root_by_another_name(capabilities);
    // Those of root are not there for the user who called `sudo`.
    let spare = spare.iter().copied().filter(|folder| may_write(&[folder]));
    let written: Vec<&Path> = folders.iter().copied().chain(spare).collect();
    keep(&Kept { capabilities, written: &written, reads_all: true, root, ..Kept::NOTHING }, true)
}

/// Who may write and give away the files of others is root by another name.
fn is_root_by_another_name(capabilities: CapabilitySet) -> bool {
    capabilities.intersects(CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN)
}

/// Keeps what a trace needs once everything is attached and open: to write its run, which is there,
/// to give files beside it their names, and to read below the folders `read`.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_trace(run: Option<&Path>, files: &[PathBuf], read: &[PathBuf]) -> Result<(), Error> {
    let written: Vec<&Path> = run.into_iter().chain(files.iter().map(|file| folder(file))).collect();
    let read: Vec<&Path> = read.iter().map(PathBuf::as_path).collect();
    let capabilities = to_reach(&written, &[]);
    keep_only(&Kept { capabilities, written: &written, read: &read, maps: true, ..Kept::NOTHING })
}

/// Keeps what the process that walks the sockets for a trace needs: to find the network namespaces
/// of other programs, to enter them, and to see which BPF programs are loaded.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_walks() -> Result<(), Error> {
    keep_only(&Kept { capabilities: WALKS, namespaces: true, processes: true, ..Kept::NOTHING })
}

/// The same, and what it takes to find out which process has a socket: the descriptors of the
/// processes of other users.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_walks_and_owners() -> Result<(), Error> {
    let capabilities = WALKS | CapabilitySet::DAC_READ_SEARCH;
    keep_only(&Kept { capabilities, namespaces: true, processes: true, ..Kept::NOTHING })
}

/// Keeps what the process needs that walks the sockets, finds their owners and starts `wirelapse
/// trace`: what a trace attaches its programs with, and makes its run in `folder` with.
///
/// # Errors
/// As [`keep_only`].
pub fn keep_for_recordings(folder: &Path) -> Result<(), Error> {
    let attaching = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::NET_ADMIN;
    let capabilities = WALKS | CapabilitySet::DAC_READ_SEARCH | attaching | for_others(&[folder]);
    keep_only(&Kept { capabilities, namespaces: true, processes: true, programs: true, ..Kept::NOTHING })
}

/// What looking up the name of a host reads, the modules of the name service among them.
pub const RESOLVER: [&str; 11] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/run/systemd/resolve",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/etc/ld.so.cache",
];

/// What a walk through the sockets of all network namespaces takes.
const WALKS: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_PTRACE);

/// Prepares this thread to write into these folders and to read these runs, and gives the
/// capabilities that it takes. Root without capabilities is a user like any other: it writes into
/// no folder of the user who called `sudo`, reads none of their runs, and gives no file away. So
/// files are opened and made as that user from here on, which takes no capability. Where that user
/// may not do so there, capabilities are kept; Landlock holds them to these folders and runs, where
/// the kernel has it.
fn to_reach(folders: &[&Path], runs: &[&Path]) -> CapabilitySet {
    if folders.is_empty() && runs.is_empty() {
        return CapabilitySet::empty();
    }
    if let Some((Some(user), group)) = files::caller() {
        let ids = (user, group.unwrap_or(file_ids().1));
        if without_rights(ids, || may_write(folders) && may_read(runs)) && set_file_ids(ids) {
            return CapabilitySet::empty();
        }
    }
    let mut taken = if folders.is_empty() { CapabilitySet::empty() } else { for_others(folders) };
    taken.set(CapabilitySet::DAC_READ_SEARCH, !without_rights(file_ids(), || may_read(runs)));
    taken
}

/// The capabilities that it takes to write into these folders where this user may not, and to give
/// files to the user who called `sudo`.
fn for_others(folders: &[&Path]) -> CapabilitySet {
    let mut taken = CapabilitySet::empty();
    taken.set(CapabilitySet::DAC_OVERRIDE, !without_rights(file_ids(), || may_write(folders)));
    taken.set(CapabilitySet::CHOWN, files::caller().is_some());
    taken
}

/// Whether this kernel lets no one without `CAP_BPF` read an open map: tried without it.
fn maps_take_rights() -> bool {
    const MAP_LOOKUP_ELEM: libc::c_int = 1;
    // `map_fd`, `key`, `value` and `flags` of `union bpf_attr` (<linux/bpf.h>).
    let no_map = [u64::from(u32::MAX), 0, 0, 0];
    let refused = || {
        // SAFETY: the kernel reads so many bytes of the array, and finds that they name no map.
        unsafe { libc::syscall(libc::SYS_bpf, MAP_LOOKUP_ELEM, no_map.as_ptr(), size_of_val(&no_map)) };
        io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
    };
    without_rights(file_ids(), refused)
}

/// What a thread finds allowed that opens files as this user and group, without the groups that
/// root has and without any capability: as it is once rights are given up. Where no thread can be
/// made, nothing is.
fn without_rights(ids: (u32, u32), allowed: impl FnOnce() -> bool + Send) -> bool {
    let look = || {
        // Without the right to change them they stay, here and later.
        let _ = rustix::thread::set_thread_groups(&[]);
        let Ok(have) = rustix::thread::capabilities(None) else { return false };
        let none = rustix::thread::CapabilitySets { effective: CapabilitySet::empty(), ..have };
        set_file_ids(ids) && rustix::thread::set_capabilities(None, none).is_ok() && allowed()
    };
    std::thread::scope(|scope| {
        let looking = std::thread::Builder::new().spawn_scoped(scope, look);
        looking.is_ok_and(|thread| thread.join().unwrap_or(false))
    })
}

fn may_write(folders: &[&Path]) -> bool {
    folders.iter().all(|folder| may(folder, Access::WRITE_OK | Access::EXEC_OK))
}

/// How many files and directories are asked for. A place with more has so many runs that asking
/// takes longer than many a query.
const ASKED: usize = 20_000;

/// Whether everything in these runs may be read, where they are not too many to find out.
fn may_read(runs: &[&Path]) -> bool {
    let mut left: Vec<PathBuf> = runs.iter().map(|&run| run.to_owned()).collect();
    // A link back up would be followed for ever.
    let mut seen = BTreeSet::new();
    for _ in 0..ASKED {
        let Some(path) = left.pop() else { return true };
        if !path.is_dir() {
            if !may(&path, Access::READ_OK) {
                return false;
            }
            continue;
        }
        let inside = || -> io::Result<Vec<PathBuf>> {
            if !seen.insert(path.canonicalize()?) {
                return Ok(Vec::new());
            }
            path.read_dir()?.map(|entry| Ok(entry?.path())).collect()
        };
        match may(&path, Access::READ_OK | Access::EXEC_OK).then(inside) {
            Some(Ok(inside)) => left.extend(inside),
            _ => return false,
        }
    }
    false
}

/// Whether the kernel allows it, or there is nothing.
fn may(path: &Path, access: Access) -> bool {
    let allowed = rustix::fs::accessat(rustix::fs::CWD, path, access, rustix::fs::AtFlags::EACCESS);
    matches!(allowed, Ok(()) | Err(rustix::io::Errno::NOENT))
}

/// Sets the user and group by which the kernel decides on this thread's access to files, and to
/// which new files belong (setfsuid(2)). Says whether they are these: the calls report no failure,
/// and without the right to change them they change nothing.
fn set_file_ids(ids: (u32, u32)) -> bool {
    swap_file_ids(ids);
    file_ids() == ids
}

/// The user and group by which the kernel decides on this thread's access to files.
fn file_ids() -> (u32, u32) {
    // Nobody has this number: nothing is changed.
    swap_file_ids((u32::MAX, u32::MAX))
}

/// Sets them, and gives what they were before.
fn swap_file_ids((user, group): (u32, u32)) -> (u32, u32) {
    // SAFETY: takes a number.
    let group = unsafe { libc::setfsgid(group) };
    // SAFETY: takes a number.
    let user = unsafe { libc::setfsuid(user) };
    (user.cast_unsigned(), group.cast_unsigned())
}

/// What access to files leaves: reading and writing below the directories given; `/proc`, in which
/// the process reads about its own threads and memory; and `/sys`, where libpcap reads what an
/// interface dropped (it takes a file that it cannot read for a count of 0).
fn restrict_files(kept: &Kept<'_>) -> Result<(), Box<dyn StdError + Send + Sync>> {
    // The newest level that this asks for; the kernel's own where that is older.
    let all = AccessFs::from_all(ABI::V5);
    let mut rules = Ruleset::default().handle_access(all)?;
    if kept.connected.is_some() {
        rules = rules.handle_access(AccessNet::from_all(ABI::V5))?;
    }
    let mut rules = rules.create()?;
    for port in kept.connected.unwrap_or_default() {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    let below = |path: &Path, access| -> Result<_, PathFdError> { Ok(PathBeneath::new(PathFd::new(path)?, access)) };
    for kernel in ["/proc", "/sys"] {
        rules = rules.add_rule(below(Path::new(kernel), AccessFs::from_read(ABI::V5))?)?;
    }
    if kept.reads_all {
        rules = rules.add_rule(below(Path::new("/"), AccessFs::from_read(ABI::V5) & !AccessFs::Execute)?)?;
    }
    // A pipe has no place in the tree that a rule could name, and none restricts it.
    for path in kept.read.iter().filter(|path| path.is_dir() || path.is_file()) {
        let access = if path.is_dir() { AccessFs::from_read(ABI::V5) } else { AccessFs::ReadFile.into() };
        rules = rules.add_rule(below(path, access & !AccessFs::Execute)?)?;
    }
    for path in kept.written {
        rules = rules.add_rule(below(path, all & !AccessFs::Execute)?)?;
    }
    rules.restrict_self()?;
    Ok(())
}

/// Becomes the user who called `sudo`, or nobody, in this thread and those that it starts; whether
/// a file may be opened is still decided as before where some are (`opened`). Root that may not
/// become somebody else (in a container, say, that has no other user) stays what it is.
fn leave_root(opened: bool) -> Result<(), Error> {
    let caller = files::caller();
    let user = caller.and_then(|(user, _)| user).unwrap_or(NOBODY);
    let group = caller.and_then(|(_, group)| group).unwrap_or(NOBODY);
    let ids = opened.then(file_ids);
    let have = rustix::thread::capabilities(None).map_err(Error::of("read this process's capabilities"))?;
    // The change takes capabilities from whoever is not root any more; what is to be kept of them
    // is decided after it.
    rustix::thread::set_keep_capabilities(true).map_err(Error::of("keep capabilities"))?;
    let changed = (|| {
        rustix::thread::set_thread_groups(&[])?;
        let (group, user) = (rustix::process::Gid::from_raw(group), rustix::process::Uid::from_raw(user));
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)
    })();
    match changed {
        Ok(()) | Err(rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {}
        Err(error) => return Err(Error::of("become another user")(error)),
    }
    rustix::thread::set_capabilities(None, have).map_err(Error::of("keep capabilities"))?;
    if let Some(ids) = ids {
        set_file_ids(ids);
    }
    Ok(())
}

fn drop_capabilities(kept: &Kept<'_>) -> Result<(), Error> {
    let have = rustix::thread::capabilities(None).map_err(Error::of("read this process's capabilities"))?;
    let maps = if kept.maps && maps_take_rights() { CapabilitySet::BPF } else { CapabilitySet::empty() };
    let held = (kept.capabilities | maps) & have.permitted;
    // Whoever is not root has programs inherit them, where that was so before.
    let inheritable = if kept.programs { held & have.inheritable } else { CapabilitySet::empty() };
    let sets = rustix::thread::CapabilitySets { effective: held, permitted: held, inheritable };
    rustix::thread::set_capabilities(None, sets).map_err(Error::of("drop capabilities"))
}

fn deny_calls(kept: &Kept<'_>) -> Result<(), Error> {
    // An architecture that the library does not know goes without.
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let (calls, otherwise, action): (Vec<i64>, _, _) = if kept.decodes {
        let sending = kept.sends.then_some(&libc::SYS_sendmmsg);
        (DECODING.iter().chain(DECODING_OLD).chain(sending).copied().collect(), denied, SeccompAction::Allow)
    } else {
        let needed = [(kept.namespaces, libc::SYS_setns), (kept.programs, libc::SYS_execve)];
        let calls = DENIED.into_iter().filter(|call| !needed.contains(&(true, *call)));
        (calls.collect(), SeccompAction::Allow, denied)
    };
    let rules: BTreeMap<i64, _> = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let what = "deny system calls (seccomp)";
    let filter = SeccompFilter::new(rules, otherwise, action, architecture);
    let program = match filter.and_then(BpfProgram::try_from) {
        Ok(program) => program,
        Err(error) => return Err(Error::of(what)(error)),
    };
    let apply = if kept.all_threads { seccompiler::apply_filter_all_threads } else { seccompiler::apply_filter };
    match apply(&program) {
        Ok(()) => Ok(()),
        Err(seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error))
            if error.raw_os_error() == Some(libc::EINVAL) =>
        {
            Ok(())
        }
        Err(error) => Err(Error::of(what)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What is given up is given up by the thread alone, so each case has one.
    fn confined<T: Send>(kept: &Kept<'_>, act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                keep_only(kept).unwrap();
                act()
            });
            thread.join().unwrap()
        })
    }

    fn has_landlock() -> bool {
        fs::read_to_string("/sys/kernel/security/lsm").map_or(true, |all| all.contains("landlock"))
            && machine::landlock_level().is_some()
    }

    #[test]
    fn files_are_written_only_where_it_was_said() {
        if !has_landlock() {
            return tier::skip("rights::files_are_written_only_where_it_was_said", "this kernel has no Landlock");
        }
        let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("there"), "already").unwrap();
        let kept = Kept { written: &[mine.path()], ..Kept::NOTHING };
        confined(&kept, || {
            fs::write(mine.path().join("a"), "b").unwrap();
            fs::rename(mine.path().join("a"), mine.path().join("c")).unwrap();
            let refused = |result: io::Result<()>| {
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            };
            refused(fs::write(other.path().join("x"), "y"));
            refused(fs::read(other.path().join("there")).map(drop));
            refused(fs::remove_file(other.path().join("there")));
            assert!(fs::read_to_string("/proc/thread-self/status").unwrap().contains("NoNewPrivs:\t1"));
            fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        });
    }

    #[test]
    fn only_the_ports_that_were_named_are_connected_to_and_none_is_bound() {
        // Landlock knows ports from its fourth level on.
        if !has_landlock() || machine::landlock_level() < Some(4) {
            return tier::skip(
                "rights::only_the_ports_that_were_named_are_connected_to_and_none_is_bound",
                "this kernel has no Landlock that knows ports",
            );
        }
        let listeners = [(), ()].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let [named, other] = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap());
        confined(&Kept { connected: Some(&[named.port()]), ..Kept::NOTHING }, || {
            std::net::TcpStream::connect(named).unwrap();
            let refused =
                [std::net::TcpStream::connect(other).map(drop), std::net::TcpListener::bind("127.0.0.1:0").map(drop)];
            for refused in refused {
                assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            }
        });
    }

    #[test]
    fn no_program_is_started_and_no_namespace_entered() {
        confined(&Kept::NOTHING, || {
            // SAFETY: a null argument list is refused before anything is read of it, were the call
            // let through.
            let result = unsafe { libc::execve(c"/bin/true".as_ptr(), std::ptr::null(), std::ptr::null()) };
            let refused = io::Error::last_os_error();
            assert_eq!((result, refused.raw_os_error()), (-1, Some(libc::EPERM)));
            let namespace = fs::File::open("/proc/self/ns/net").unwrap();
            let entered = rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), None);
            assert_eq!(entered, Err(rustix::io::Errno::PERM));
            let held = rustix::thread::capabilities(None).unwrap();
            assert!(held.effective.is_empty() && held.permitted.is_empty());
        });
    }

    #[test]
    fn who_decodes_is_nobody_and_opens_no_socket_but_writes_and_starts_threads() {
        let folder = tempfile::tempdir().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let kept = Kept { written: &[folder.path()], root: false, decodes: true, ..Kept::NOTHING };
        let users = confined(&kept, || {
            let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            // SAFETY: sends no signal; the call only asks whether it might.
            assert_eq!(unsafe { libc::kill(1, 0) }, -1);
            fs::write(folder.path().join("a"), "b").unwrap();
            fs::rename(folder.path().join("a"), folder.path().join("c")).unwrap();
            std::thread::spawn(|| fs::read_to_string("/proc/thread-self/status").unwrap()).join().unwrap()
        });
        let users = users.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
        // Files are written as before.
        assert!(!is_root || users.trim() == "65534\t65534\t65534\t0", "{users}");
    }

    #[test]
    fn what_may_be_read_is_found_as_whoever_will_read_it() {
        use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
        tier::needs!(tier::Need::Root);
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        // A way back up has no end.
        symlink(folder.path(), run.join("up")).unwrap();
        let mut path = run.clone();
        for below in ["sends.parquet", "deeper", "still"] {
            path = path.join(below);
            fs::create_dir(&path).unwrap();
        }
        let file = path.join("part");
        fs::write(&file, "").unwrap();
        let reads = |user: u32| without_rights((user, user), || may_read(&[&run]));
        assert!(reads(0) && reads(777));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(reads(0) && !reads(777));
        chown(&file, Some(777), Some(777)).unwrap();
        assert!(!reads(0) && reads(777));
        // This thread is who it was.
        assert_eq!((file_ids(), may_read(&[&run])), ((0, 0), true));
    }
}
