//! Sysctls of the host that this runs on: their old values are written down before the first
//! change, and put back by a guardian process, which outlives this one however it ends.
//!
//! There is one way back, and every end takes it. The guardian waits until its maker lets go of a
//! pipe or is dead, writes the old values and removes the file that holds them. That file is locked
//! by maker and guardian together, so a second study is refused until the values are back. Where
//! the guardian alone was killed, its maker puts back what the file says; where both were, the next
//! start finds the file unlocked and does.

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use machine::forked::{self, block_signals, end, restore_signals};
use machine::locked::is_at;
use nix::sys::socket::getsockopt;
use nix::unistd::ForkResult;
use nix::{getsockopt_impl, sockopt_impl};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitOptions};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::named::Sysctl;

/// Where the old values are written down: a folder that a reboot empties, as it undoes sysctls.
const FOLDER: &str = "/run/wirelapse";

/// What is written down.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Values of an earlier boot count no more.
    boot_id: String,
    /// The study's process, for whoever is refused.
    pid: u32,
    /// Name and value as they were.
    values: Vec<(String, String)>,
}

/// Sysctls of this network namespace that a study may change until this is dropped.
#[derive(Debug)]
pub struct ThisHost {
    sysctls: Vec<Sysctl>,
    /// Closed to have the values put back.
    control: Option<OwnedFd>,
    guardian: Pid,
    record: PathBuf,
    /// That file and its lock, held here too, so that it stays where the guardian alone is killed.
    lock: File,
}

impl ThisHost {
    /// Writes down the values of `sysctls` and starts the guardian. The sysctls are those of the
    /// network namespace of the calling thread.
    ///
    /// # Errors
    /// [`Error::Run`] where another study has them, [`Error::Sysctl`] where one cannot be set,
    /// [`Error::File`] where the values cannot be written down, [`Error::System`] without a
    /// guardian.
    pub fn take(sysctls: &[Sysctl]) -> Result<Self, Error> {
        let folder = Path::new(FOLDER);
        fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.into(), source })?;
        Self::take_in(folder, sysctls)
    }

    fn take_in(folder: &Path, sysctls: &[Sysctl]) -> Result<Self, Error> {
        let path = folder.join(format!("sysctls-{:x}.json", namespace()?));
        let mut file = lock(&path)?;
        put_back_what_was_left(&path, &mut file)?;
        let taken = Self::write_and_guard(&path, &mut file, sysctls);
        if taken.is_err() {
            // Nothing was changed, so nothing is to be remembered.
            fs::remove_file(&path).ok();
        }
        let (guardian, control) = taken?;
        Ok(Self { sysctls: sysctls.to_vec(), control: Some(control), guardian, record: path, lock: file })
    }

    fn write_and_guard(path: &Path, file: &mut File, sysctls: &[Sysctl]) -> Result<(Pid, OwnedFd), Error> {
        let mut values = Vec::new();
        for sysctl in sysctls {
            let own = sysctl.path();
            // Opened as it will be for the change: a missing privilege is reported before anything
            // is changed.
            let old = fs::read_to_string(&own).and_then(|old| File::options().write(true).open(&own).map(|_| old));
            let refused = |source| Error::Sysctl { name: sysctl.to_string(), source };
            values.push((sysctl.to_string(), old.map_err(refused)?));
        }
        let record = Record { boot_id: boot_id(), pid: std::process::id(), values };
        write_down(file, &record).map_err(|source| Error::File { path: path.into(), source })?;
        start_guardian(file, path, &record.values)
            .map_err(|source| Error::System { step: "start the process that puts sysctls back", source })
    }

    /// Sets one of them, and gives what it reads then.
    ///
    /// # Errors
    /// [`Error::Setting`] for one that was not written down, [`Error::Sysctl`] where the kernel
    /// does not take the value.
    pub fn set(&self, sysctl: &Sysctl, value: &str) -> Result<String, Error> {
        if !self.sysctls.contains(sysctl) {
            return Err(Error::Setting(format!(
                "{sysctl} was not written down when the study began: it stays as it is"
            )));
        }
        let path = sysctl.path();
        let set = fs::write(&path, value).and_then(|()| fs::read_to_string(&path));
        set.map(|text| text.trim().to_owned()).map_err(|source| Error::Sysctl { name: sysctl.to_string(), source })
    }

    /// Has everything put back, and says whether it was.
    ///
    /// # Errors
    /// [`Error::Run`] with the file that holds the old values where one could not be put back.
    pub fn give_back(mut self) -> Result<(), Error> {
        self.finish()
    }

    /// Leaves everything as it is: nothing is put back.
    ///
    /// # Errors
    /// [`Error::System`] and [`Error::File`] where the guardian, or what it goes by, cannot be
    /// removed.
    pub fn keep(mut self) -> Result<(), Error> {
        let failed = |source: rustix::io::Errno| Error::System {
            step: "end the process that puts sysctls back",
            source: source.into(),
        };
        rustix::process::kill_process(self.guardian, rustix::process::Signal::KILL).map_err(failed)?;
        rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(self.guardian), WaitOptions::empty()))
            .map_err(failed)?;
        self.control = None;
        fs::remove_file(&self.record).map_err(|source| Error::File { path: self.record.clone(), source })
    }

    fn finish(&mut self) -> Result<(), Error> {
        if self.control.take().is_none() {
            return Ok(());
        }
        let waited = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(self.guardian), WaitOptions::empty()));
        if let Ok(Some((_, status))) = waited
            && status.exit_status() == Some(0)
        {
            return Ok(());
        }
        // Without its guardian, or where that could not: what the file says, as the next start
        // would.
        put_back_what_was_left(&self.record, &mut self.lock)?;
        fs::remove_file(&self.record).map_err(|source| Error::File { path: self.record.clone(), source })
    }
}

impl Drop for ThisHost {
    fn drop(&mut self) {
        // Whoever wants to know calls `give_back`; the file stays where it failed, and the next
        // start tries again.
        self.finish().ok();
    }
}

/// The file of a sysctl that is written down.
fn sysctl_path(name: &str) -> Result<PathBuf, Error> {
    let sysctl = Sysctl::new(name);
    sysctl
        .map(|sysctl| sysctl.path())
        .ok_or_else(|| Error::Setting(format!("{name} is no sysctl such as net.ipv4.tcp_timestamps")))
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

sockopt_impl!(
    /// The number that a socket's network namespace alone has in this boot.
    NetworkCookie,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_NETNS_COOKIE,
    u64
);

/// What names the network namespace of this thread: its cookie, which no other one has in this boot
/// (Linux 5.14), or its inode.
fn namespace() -> Result<u64, Error> {
    let cookie = || -> io::Result<u64> {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        Ok(getsockopt(&socket, NetworkCookie)?)
    };
    cookie()
        .or_else(|_| fs::metadata("/proc/thread-self/ns/net").map(|m| m.ino()))
        .map_err(|source| Error::System { step: "find out which network namespace this is", source })
}

/// Opens and locks the file of old values.
fn lock(path: &Path) -> Result<File, Error> {
    let failed = |source| Error::File { path: path.into(), source };
    let mut patience = 300;
    loop {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(failed)?;
        if let Err(refused) = file.try_lock() {
            if let TryLockError::Error(error) = refused {
                return Err(failed(error));
            }
            let holder = read_down(&mut file);
            // A study that is gone has left its guardian to put the values back, which takes no
            // time.
            let gone = holder.as_ref().is_none_or(|record| {
                let pid = Pid::from_raw(record.pid.cast_signed());
                pid.is_none_or(|pid| rustix::process::test_kill_process(pid).is_err())
            });
            if gone && patience > 0 {
                patience -= 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
                continue;
            }
            let who = holder.map_or_else(|| "another study".into(), |r| format!("the study of process {}", r.pid));
            return Err(Error::Run {
                path: path.into(),
                problem: format!("{who} has sysctls of this host changed: wait until it has ended and put them back"),
            });
        }
        // A guardian may have removed it between the two calls.
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

fn read_down(file: &mut File) -> Option<Record> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write_down(file: &mut File, record: &Record) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    serde_json::to_writer(&mut *file, record)?;
    file.write_all(b"\n")?;
    file.sync_all()
}

/// What a guardian left that was killed.
fn put_back_what_was_left(path: &Path, file: &mut File) -> Result<(), Error> {
    // A file without a record: its maker was killed before it changed anything.
    let Some(record) = read_down(file).filter(|r| r.boot_id == boot_id()) else { return Ok(()) };
    for (name, value) in record.values.iter().rev() {
        let put = sysctl_path(name)
            .and_then(|p| fs::write(p, value).map_err(|source| Error::Sysctl { name: name.clone(), source }));
        put.map_err(|e| Error::Run {
            path: path.into(),
            problem: format!("{name} was {} before a study, and cannot be put back: {e}", value.trim()),
        })?;
    }
    Ok(())
}

/// Starts the guardian; gives its process id and the end of the pipe that it waits on.
fn start_guardian(lock: &File, record: &Path, values: &[(String, String)]) -> io::Result<(Pid, OwnedFd)> {
    use std::os::unix::ffi::OsStrExt as _;
    // Everything that it needs is made before the fork: after it, no lock and no memory may be
    // taken.
    let record = CString::new(record.as_os_str().as_bytes())?;
    let mut back: Vec<(CString, &[u8])> = Vec::with_capacity(values.len());
    for (name, value) in values.iter().rev() {
        let path = sysctl_path(name).map_err(io::Error::other)?;
        back.push((CString::new(path.as_os_str().as_bytes())?, value.as_bytes()));
    }
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    let maker = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    let before = block_signals();
    // SAFETY: the child runs `guard` alone, which makes system calls on memory made before, and
    // never returns.
    let forked = unsafe { nix::unistd::fork() };
    if let Ok(ForkResult::Child) = forked {
        guard(theirs.as_fd(), maker.as_fd(), lock.as_fd(), &back, &record);
    }
    restore_signals(before);
    let ForkResult::Parent { child } = forked? else { end(1) };
    let child = Pid::from_raw(child.as_raw()).ok_or_else(|| io::Error::other("fork gave no process id"))?;
    Ok((child, ours))
}

/// The guardian: system calls only, with every signal blocked, so that what ends a terminal's or a
/// service's processes with a catchable signal leaves it to its work.
fn guard(
    control: BorrowedFd<'_>,
    maker: BorrowedFd<'_>,
    lock: BorrowedFd<'_>,
    back: &[(CString, &[u8])],
    record: &CStr,
) -> ! {
    // SAFETY: this process uses these alone, and those that it opens from now on. The lock is held
    // by being open.
    unsafe { forked::guard(c"study-guardian", [control, maker, lock].map(|fd| fd.as_raw_fd())) };
    loop {
        let mut watched = [PollFd::new(&control, PollFlags::empty()), PollFd::new(&maker, PollFlags::IN)];
        if poll(&mut watched, None).is_ok_and(|ready| ready > 0) {
            break;
        }
    }
    let mut failed = false;
    for (path, value) in back {
        let file = rustix::fs::open(path.as_c_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        failed |= file.and_then(|file| rustix::io::write(file, value)) != Ok(value.len());
    }
    if !failed {
        rustix::fs::unlink(record).ok();
    }
    end(failed.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{Config, Lab, Side};

    fn sysctl(name: &str) -> Sysctl {
        Sysctl::new(name).unwrap()
    }

    const TIMESTAMPS: Sysctl = Sysctl::TIMESTAMPS;

    /// A new network namespace as "this host".
    fn inside<T: Send>(task: impl FnOnce(&Path) -> T + Send) -> T {
        let lab = Lab::up(&Config::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        lab.host(Side::A).run(|| task(folder.path())).unwrap()
    }

    fn read() -> String {
        fs::read_to_string(TIMESTAMPS.path()).unwrap().trim().to_owned()
    }

    fn left(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn values_are_put_back_and_nothing_stays() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        inside(|folder| {
            fs::write(TIMESTAMPS.path(), "2").unwrap();
            let names = [TIMESTAMPS, Sysctl::RECEIVE_BUFFERS];
            let rmem = fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
            let host = ThisHost::take_in(folder, &names).unwrap();
            assert_eq!(host.set(&TIMESTAMPS, "0").unwrap(), "0");
            host.set(&Sysctl::RECEIVE_BUFFERS, "4096 65536 70000").unwrap();
            assert!(matches!(host.set(&sysctl("net.ipv4.tcp_sack"), "0"), Err(Error::Setting(_))));
            assert!(matches!(host.set(&TIMESTAMPS, "horse"), Err(Error::Sysctl { .. })));
            // A second study is refused, and the message names the first.
            let refused = ThisHost::take_in(folder, &names).unwrap_err();
            assert!(
                refused.is_wrong_use() && refused.to_string().contains(&std::process::id().to_string()),
                "{refused}"
            );
            assert_eq!(read(), "0");
            host.give_back().unwrap();
            assert_eq!((read().as_str(), left(folder)), ("2", 0));
            assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap(), rmem);
        });
    }

    #[test]
    fn what_is_kept_stays_and_nothing_of_the_guardian_does() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        inside(|folder| {
            let host = ThisHost::take_in(folder, &[TIMESTAMPS]).unwrap();
            let guardian = host.guardian;
            host.set(&TIMESTAMPS, "0").unwrap();
            host.keep().unwrap();
            assert_eq!((read().as_str(), left(folder)), ("0", 0));
            assert!(rustix::process::test_kill_process(guardian).is_err());
        });
    }

    #[test]
    fn where_the_guardian_alone_is_killed_the_study_puts_back() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        inside(|folder| {
            let before = read();
            for explicit in [true, false] {
                let host = ThisHost::take_in(folder, &[TIMESTAMPS]).unwrap();
                host.set(&TIMESTAMPS, "0").unwrap();
                rustix::process::kill_process(host.guardian, rustix::process::Signal::KILL).unwrap();
                match explicit {
                    true => host.give_back().unwrap(),
                    false => drop(host),
                }
                assert_eq!((read(), left(folder)), (before.clone(), 0));
            }
        });
    }

    #[test]
    fn what_a_killed_study_and_guardian_left_is_put_back_by_the_next() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        inside(|folder| {
            let before = read();
            let host = ThisHost::take_in(folder, &[TIMESTAMPS]).unwrap();
            let (path, written) = (host.record.clone(), fs::read(&host.record).unwrap());
            host.set(&TIMESTAMPS, "0").unwrap();
            host.give_back().unwrap();
            // As it is where both were killed.
            fs::write(path, written).unwrap();
            fs::write(TIMESTAMPS.path(), "0").unwrap();
            assert_eq!((read().as_str(), left(folder)), ("0", 1));
            let next = ThisHost::take_in(folder, &[sysctl("net.ipv4.tcp_sack")]).unwrap();
            assert_eq!(read(), before);
            drop(next);
            assert_eq!(left(folder), 0);
        });
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_changed() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        inside(|folder| {
            let none = [TIMESTAMPS, sysctl("net.ipv4.no_such_thing")];
            let refused = ThisHost::take_in(folder, &none).unwrap_err();
            assert!(refused.to_string().contains("no_such_thing"), "{refused}");
            assert_eq!(left(folder), 0);
        });
    }
}
