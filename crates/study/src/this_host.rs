//! Sysctls of the host that this runs on: their old values are written down before the first change, and put back by a
//! guardian process, which outlives this one however it ends.
//!
//! There is one way back, and every end takes it. The guardian waits until its maker lets go of a pipe or is dead, writes
//! the old values and removes the file that holds them. That file is locked by maker and guardian together, so a second
//! study is refused until the values are back. Where the guardian was killed too, the next start finds the file unlocked
//! and puts back what it says.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;

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
    names: Vec<String>,
    /// Closed to have the values put back.
    control: Option<OwnedFd>,
    guardian: libc::pid_t,
    record: PathBuf,
    /// Its lock, held here too, so that it stays where the guardian alone is killed.
    _lock: File,
}

impl ThisHost {
    /// Writes down the values of `names` and starts the guardian. The sysctls are those of the network namespace of the
    /// calling thread.
    ///
    /// # Errors
    /// [`Error::Run`] where another study has them, [`Error::Setting`] for a name that is none, [`Error::File`] where the
    /// values cannot be written down, [`Error::System`] where one cannot be set, or without a guardian.
    pub fn take(names: &[String]) -> Result<Self, Error> {
        let folder = Path::new(FOLDER);
        fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.into(), source })?;
        Self::take_in(folder, names)
    }

    fn take_in(folder: &Path, names: &[String]) -> Result<Self, Error> {
        let path = folder.join(format!("sysctls-{:x}.json", namespace()?));
        let mut file = lock(&path)?;
        put_back_what_was_left(&path, &mut file)?;
        let taken = Self::write_and_guard(&path, &mut file, names);
        if taken.is_err() {
            // Nothing was changed, so nothing is to be remembered.
            fs::remove_file(&path).ok();
        }
        let (guardian, control) = taken?;
        Ok(Self { names: names.to_vec(), control: Some(control), guardian, record: path, _lock: file })
    }

    fn write_and_guard(path: &Path, file: &mut File, names: &[String]) -> Result<(libc::pid_t, OwnedFd), Error> {
        let mut values = Vec::new();
        for name in names {
            let sysctl = sysctl_path(name)?;
            // Opened as it will be for the change: a missing privilege is reported before anything is changed.
            let old =
                fs::read_to_string(&sysctl).and_then(|old| File::options().write(true).open(&sysctl).map(|_| old));
            values.push((name.clone(), old.map_err(|source| Error::Sysctl { name: name.clone(), source })?));
        }
        let record = Record { boot_id: boot_id(), pid: std::process::id(), values };
        write_down(file, &record).map_err(|source| Error::File { path: path.into(), source })?;
        start_guardian(file, path, &record.values)
            .map_err(|source| Error::System { step: "start the process that puts sysctls back", source })
    }

    /// Sets one of them, and gives what it reads then.
    ///
    /// # Errors
    /// [`Error::Setting`] for one that was not written down, [`Error::Sysctl`] where the kernel does not take the value.
    pub fn set(&self, name: &str, value: &str) -> Result<String, Error> {
        if !self.names.iter().any(|known| known == name) {
            return Err(Error::Setting(format!("{name} was not written down when the study began: it stays as it is")));
        }
        let path = sysctl_path(name)?;
        let set = fs::write(&path, value).and_then(|()| fs::read_to_string(&path));
        set.map(|text| text.trim().to_owned()).map_err(|source| Error::Sysctl { name: name.into(), source })
    }

    /// Has everything put back, and says whether it was.
    ///
    /// # Errors
    /// [`Error::Run`] with the file that holds the old values where the guardian could not put one back.
    pub fn give_back(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        if self.control.take().is_none() {
            return Ok(());
        }
        let mut status = 0;
        loop {
            // SAFETY: waits for our own child; the status is written into a live integer.
            let waited = unsafe { libc::waitpid(self.guardian, &raw mut status, 0) };
            if waited == self.guardian {
                break;
            }
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                status = 1;
                break;
            }
        }
        if status == 0 {
            return Ok(());
        }
        Err(Error::Run {
            path: self.record.clone(),
            problem: "not every sysctl could be put back: this file holds the values of before".into(),
        })
    }
}

impl Drop for ThisHost {
    fn drop(&mut self) {
        // Whoever wants to know calls `give_back`; the file stays where it failed, and the next start tries again.
        self.finish().ok();
    }
}

/// The file of a sysctl, such as `net.ipv4.tcp_timestamps`.
fn sysctl_path(name: &str) -> Result<PathBuf, Error> {
    let relative = name.replace('.', "/");
    if !name.starts_with("net.") || relative.split('/').any(|part| part.is_empty() || part == "..") {
        return Err(Error::Setting(format!("{name} is no sysctl such as net.ipv4.tcp_timestamps")));
    }
    Ok(Path::new("/proc/sys").join(relative))
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// What names the network namespace of this thread: its cookie, which no other one has in this boot (Linux 5.14), or its
/// inode.
fn namespace() -> Result<u64, Error> {
    let cookie = || -> io::Result<u64> {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        let mut cookie = 0u64;
        let mut length = size_of::<u64>() as libc::socklen_t;
        // SAFETY: the buffer is a live u64 of the length given.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_NETNS_COOKIE,
                (&raw mut cookie).cast(),
                &raw mut length,
            )
        };
        if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
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
        // SAFETY: a plain system call on a descriptor that we own.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(failed(error));
            }
            let holder = read_down(&mut file);
            // A study that is gone has left its guardian to put the values back, which takes no time.
            // SAFETY: asks whether a process exists, and sends nothing.
            let gone = holder.as_ref().is_none_or(|r| unsafe { libc::kill(r.pid.cast_signed(), 0) } != 0);
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
        // A guardian may have removed the file between the two calls: then this lock is on a file that has no name.
        let mine = file.metadata().map_err(failed)?;
        if fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (mine.dev(), mine.ino())) {
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

/// What a study and its guardian left that were both killed.
fn put_back_what_was_left(path: &Path, file: &mut File) -> Result<(), Error> {
    // A file without a record: its maker was killed before it changed anything.
    let Some(record) = read_down(file).filter(|r| r.boot_id == boot_id()) else { return Ok(()) };
    for (name, value) in record.values.iter().rev() {
        let put = sysctl_path(name)
            .and_then(|p| fs::write(p, value).map_err(|source| Error::Sysctl { name: name.clone(), source }));
        put.map_err(|e| Error::Run {
            path: path.into(),
            problem: format!("a study that was killed left {name} changed, which was {}: {e}", value.trim()),
        })?;
    }
    Ok(())
}

/// Starts the guardian; gives its process id and the end of the pipe that it waits on.
fn start_guardian(lock: &File, record: &Path, values: &[(String, String)]) -> io::Result<(libc::pid_t, OwnedFd)> {
    use std::os::unix::ffi::OsStrExt as _;
    // Everything that it needs is made before the fork: after it, no lock and no memory may be taken.
    let record = CString::new(record.as_os_str().as_bytes())?;
    let mut back: Vec<(CString, &[u8])> = Vec::with_capacity(values.len());
    for (name, value) in values.iter().rev() {
        let path = sysctl_path(name).map_err(io::Error::other)?;
        back.push((CString::new(path.as_os_str().as_bytes())?, value.as_bytes()));
    }
    let mut pipe = [-1; 2];
    // SAFETY: plain system calls; the array has room for the two descriptors, which nothing else owns.
    let (theirs, ours, maker) = unsafe {
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        let (theirs, ours) = (OwnedFd::from_raw_fd(pipe[0]), OwnedFd::from_raw_fd(pipe[1]));
        let maker = libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0);
        if maker < 0 {
            return Err(io::Error::last_os_error());
        }
        (theirs, ours, OwnedFd::from_raw_fd(maker as RawFd))
    };
    // SAFETY: signal sets are plain data that live over the calls. The child runs `guard` alone, which makes system calls
    // on memory made before, and never returns.
    let child = unsafe {
        let (mut all, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let child = libc::fork();
        if child == 0 {
            guard([theirs.as_raw_fd(), maker.as_raw_fd(), lock.as_raw_fd()], &back, &record);
        }
        let failed = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if child < 0 {
            return Err(failed);
        }
        child
    };
    Ok((child, ours))
}

/// The guardian: system calls only, with every signal blocked, so that what ends a terminal's or a service's processes
/// with a catchable signal leaves it to its work.
fn guard(keep: [RawFd; 3], back: &[(CString, &[u8])], record: &CString) -> ! {
    let [control, maker, _lock] = keep;
    // SAFETY: system calls with valid arguments on memory that was made before the fork.
    unsafe {
        let mut sorted = keep.map(|fd| fd as u32);
        sorted.sort_unstable();
        let mut from = 0;
        for fd in sorted {
            if fd > from {
                libc::syscall(libc::SYS_close_range, from, fd - 1, 0);
            }
            from = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, from, u32::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, c"study-guardian".as_ptr());
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        loop {
            let mut watched = [
                libc::pollfd { fd: control, events: 0, revents: 0 },
                libc::pollfd { fd: maker, events: libc::POLLIN, revents: 0 },
            ];
            if libc::poll(watched.as_mut_ptr(), 2, -1) > 0 {
                break;
            }
        }
        let mut failed = 0;
        for (path, value) in back {
            let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            let length = value.len();
            if fd < 0 || libc::write(fd, value.as_ptr().cast(), length) != length.cast_signed() {
                failed = 1;
            }
            if fd >= 0 {
                libc::close(fd);
            }
        }
        if failed == 0 {
            libc::unlink(record.as_ptr());
        }
        libc::_exit(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{Config, Lab, Side};

    const NAME: &str = "net.ipv4.tcp_timestamps";

    /// A new network namespace as "this host".
    fn inside<T: Send>(task: impl FnOnce(&Path) -> T + Send) -> T {
        let lab = Lab::up(&Config::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        lab.host(Side::A).run(|| task(folder.path())).unwrap()
    }

    fn read() -> String {
        fs::read_to_string(sysctl_path(NAME).unwrap()).unwrap().trim().to_owned()
    }

    fn left(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn values_are_put_back_and_nothing_stays() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        inside(|folder| {
            fs::write(sysctl_path(NAME).unwrap(), "2").unwrap();
            let names = [NAME.to_owned(), "net.ipv4.tcp_rmem".to_owned()];
            let rmem = fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
            let host = ThisHost::take_in(folder, &names).unwrap();
            assert_eq!(host.set(NAME, "0").unwrap(), "0");
            host.set("net.ipv4.tcp_rmem", "4096 65536 70000").unwrap();
            assert!(matches!(host.set("net.ipv4.tcp_sack", "0"), Err(Error::Setting(_))));
            assert!(matches!(host.set(NAME, "horse"), Err(Error::Sysctl { .. })));
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
    fn what_a_killed_study_and_guardian_left_is_put_back_by_the_next() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        inside(|folder| {
            let before = read();
            let host = ThisHost::take_in(folder, &[NAME.to_owned()]).unwrap();
            host.set(NAME, "0").unwrap();
            // SAFETY: ends a process that this test started.
            unsafe { libc::kill(host.guardian, libc::SIGKILL) };
            let failed = host.give_back().unwrap_err();
            assert!(failed.to_string().contains("put back"), "{failed}");
            assert_eq!((read().as_str(), left(folder)), ("0", 1));
            let next = ThisHost::take_in(folder, &["net.ipv4.tcp_sack".to_owned()]).unwrap();
            assert_eq!(read(), before);
            drop(next);
            assert_eq!(left(folder), 0);
        });
    }

    #[test]
    fn what_cannot_be_is_told_before_anything_is_changed() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        inside(|folder| {
            let take = |name: &str| ThisHost::take_in(folder, &[name.to_owned()]).unwrap_err();
            assert!(take("net.ipv4.no_such_thing").to_string().contains("no_such_thing"));
            assert_eq!(left(folder), 0);
            for name in ["kernel.hostname", "net..ipv4", "net.ipv4/../../kernel/hostname"] {
                assert!(matches!(take(name), Error::Setting(_)), "{name}");
            }
        });
    }
}
