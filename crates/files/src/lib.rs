//! Files and directories that a measurement writes: whole or not there, and its user's.
//!
//! **Does:** opens files to write under a hidden name, which become visible whole or not at all
//! ([`OutputFile`]), and those that grow by whole blocks under their own name ([`growing`]); makes
//! directories that only the one who measures reads ([`directory`]).
//!
//! **Does not:** read, know what is in a file, or print.
//!
//! **Guarantees:** no link or second name that another user planted is followed or written
//! through; nothing is replaced unless that was asked for; where root measures for a user who
//! called `sudo`, what it writes is theirs; an error names the file that was asked for.

#![forbid(unsafe_code)]

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the names of files end in that are not whole yet. They begin with a dot.
pub const UNFINISHED: &str = ".unfinished";

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It exists, and replacing it was not asked for.
    #[error("{} exists: name another file, or add --force to overwrite it", .0.display())]
    Exists(PathBuf),
    /// It is a link.
    #[error("{} is a link: name the file that it leads to", .0.display())]
    Link(PathBuf),
    /// It cannot be opened.
    #[error("cannot write {}: {why}: name another file", path.display())]
    Open {
        /// The file that was asked for.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// It was opened, and cannot be written or given its name.
    #[error("cannot write {}: {why}", path.display())]
    Write {
        /// The file that was asked for.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

impl Error {
    /// Whether another name would have helped: the error is the caller's, and came before any work.
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::Exists(_) | Self::Link(_) => true,
            Self::Open { why, .. } => !is_full(why),
            Self::Write { .. } => false,
        }
    }
}

/// Whether a disk, or its user's share of it, is full.
pub fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The reason alone, for those whose own errors name the file.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Exists(_) => io::ErrorKind::AlreadyExists.into(),
            Error::Link(_) => Self::new(io::ErrorKind::InvalidInput, "it is a link"),
            Error::Open { why, .. } | Error::Write { why, .. } => why,
        }
    }
}

/// Who may read a file that is written.
#[derive(Clone, Copy, Debug)]
pub enum Readers<'a> {
    /// Those whom the umask lets, as with any file of the user.
    AsUmask,
    /// Its owner alone: it holds names of programs and addresses that no other file had.
    Owner,
    /// At most those who may read every file and directory that it is made from.
    AsInputs(&'a [Metadata]),
}

impl Readers<'_> {
    fn mode(self) -> u32 {
        match self {
            Self::AsUmask => 0o666,
            Self::Owner => 0o600,
            Self::AsInputs(inputs) => {
                inputs.iter().fold(0o666, |mode, input| mode & input.permissions().mode() | 0o600)
            }
        }
    }
}

/// A file that is being written. Dropped before [`Self::finish`], it is removed.
#[derive(Debug)]
pub struct OutputFile {
    file: Arc<File>,
    pending: Pending,
}

/// Takes the bytes of an [`OutputFile`]. Its errors name the file.
#[derive(Debug)]
pub struct Writer {
    file: Arc<File>,
    path: PathBuf,
    /// Bytes that the file has taken.
    written: u64,
}

/// The name that an [`OutputFile`] gets once it is whole.
#[derive(Debug)]
pub struct Pending {
    file: Arc<File>,
    path: PathBuf,
    force: bool,
    /// `None` for a pipe or a device, which is written in place.
    hidden: Option<tempfile::TempPath>,
}

impl OutputFile {
    /// Opens a file to write. One that exists stays as it is until [`Self::finish`].
    ///
    /// # Errors
    /// [`Error::Exists`] where it does and `force` is not given, [`Error::Link`], and
    /// [`Error::Open`] where its folder takes no file.
    pub fn create(path: &Path, force: bool, readers: Readers<'_>) -> Result<Self, Error> {
        refuse(path, force)?;
        if path.is_symlink() && !is_stream(path) {
            return Err(Error::Link(path.to_owned()));
        }
        let (file, hidden) = open(path, readers).map_err(|why| Error::Open { path: path.to_owned(), why })?;
        let file = Arc::new(file);
        Ok(Self { pending: Pending { file: Arc::clone(&file), path: path.to_owned(), force, hidden }, file })
    }

    /// The writer for one that keeps it, and the name for when that is done.
    pub fn into_parts(self) -> (Writer, Pending) {
        (Writer { file: self.file, path: self.pending.path.clone(), written: 0 }, self.pending)
    }

    /// The open file, for one that keeps it and whose errors name it already.
    pub fn handle(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Whether it gets its name at the end, and so needs its folder until then.
    pub const fn is_named_at_end(&self) -> bool {
        self.pending.hidden.is_some()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// As [`Pending::finish`].
    pub fn finish(self) -> Result<(), Error> {
        self.pending.finish()
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            Ok(taken) => {
                self.written += taken as u64;
                Ok(taken)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let (path, written) = (self.path.display(), quantity::bytes(self.written));
                Err(io::Error::new(error.kind(), format!("cannot write {path}: {error} (after {written})")))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Pending {
    /// Gives the file its name, once the disk has taken all of it: on file systems that allocate
    /// late a full disk shows only then.
    ///
    /// # Errors
    /// [`Error::Write`] where the disk is full, where a file of that name was made since, without
    /// `force`, and where the folder refuses.
    pub fn finish(self) -> Result<(), Error> {
        if self.hidden.is_some() {
            self.file.sync_data().map_err(|why| Error::Write { path: self.path.clone(), why })?;
        }
        self.name()
    }

    fn name(self) -> Result<(), Error> {
        let Self { path, force, hidden, .. } = self;
        let Some(hidden) = hidden else { return Ok(()) };
        let named = if force { hidden.persist(&path) } else { hidden.persist_noclobber(&path) };
        named.map_err(|tempfile::PathPersistError { error, .. }| Error::Write { path, why: error })
    }
}

/// Opens a file that has its name from now on: what its user writes is whole after each block, and
/// is to be kept however the writing ends. One that exists is replaced with `force`.
///
/// # Errors
/// As [`OutputFile::create`].
pub fn growing(path: &Path, force: bool, readers: Readers<'_>) -> Result<Arc<File>, Error> {
    let OutputFile { file, pending } = OutputFile::create(path, force, readers)?;
    pending.name()?;
    Ok(file)
}

/// Writes a whole file.
///
/// # Errors
/// As [`OutputFile::create`] and [`Pending::finish`].
pub fn write(path: &Path, bytes: &[u8], force: bool, readers: Readers<'_>) -> Result<(), Error> {
    let file = OutputFile::create(path, force, readers)?;
    file.handle().write_all(bytes).map_err(|why| Error::Write { path: path.to_owned(), why })?;
    file.finish()
}

/// Refuses a file that exists, unless `force` lets it be replaced, and one in a folder that is not
/// there: before long work, so that it is not in vain.
///
/// # Errors
/// [`Error::Exists`], [`Error::Open`].
pub fn refuse(path: &Path, force: bool) -> Result<(), Error> {
    if !force && path.symlink_metadata().is_ok() && !is_stream(path) {
        return Err(Error::Exists(path.to_owned()));
    }
    folder(path).metadata().map(drop).map_err(|why| Error::Open { path: path.to_owned(), why })
}

/// Makes a directory that is not there yet, and that only the one who measures reads: a run shows
/// addresses, programs and command lines.
///
/// # Errors
/// As [`std::fs::create_dir`].
pub fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    caller().map_or(Ok(()), |(user, group)| std::os::unix::fs::lchown(path, user, group))
}

/// User and group who called `sudo`, where this process is root because of that: what it writes is
/// theirs.
pub fn caller() -> Option<(Option<u32>, Option<u32>)> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let user = number("SUDO_UID").filter(|&user| user != 0 && rustix::process::geteuid().is_root())?;
    Some((Some(user), number("SUDO_GID")))
}

/// The folder of a file.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file that the bytes of `path` go to, and its hidden name beside it.
fn open(path: &Path, readers: Readers<'_>) -> io::Result<(File, Option<tempfile::TempPath>)> {
    if is_stream(path) {
        let follow = if is_of_the_system(path) { 0 } else { libc::O_NOFOLLOW };
        return Ok((File::options().write(true).custom_flags(follow).open(path)?, None));
    }
    if path.file_name().is_none() {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename));
    }
    let mode = readers.mode();
    // Opened here and not by `tempfile`, whose errors name the hidden file.
    let new = |hidden: &Path| File::options().write(true).create_new(true).mode(mode).open(hidden);
    let named = tempfile::Builder::new().prefix(".").suffix(UNFINISHED).rand_bytes(12).make_in(folder(path), new)?;
    if let Some((user, group)) = caller() {
        std::os::unix::fs::fchown(named.as_file(), user, group)?;
    }
    let (file, hidden) = named.into_parts();
    Ok((file, Some(hidden)))
}

/// Whether it is a pipe or a device, which has nothing to lose and is written in place. A link to
/// one is followed only where no other user can have made it.
fn is_stream(path: &Path) -> bool {
    let there = if is_of_the_system(path) { path.metadata() } else { path.symlink_metadata() };
    there.is_ok_and(|there| {
        let kind = there.file_type();
        kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
    })
}

/// Whether it is in a folder of the kernel's, such as `/dev/stdout`.
fn is_of_the_system(path: &Path) -> bool {
    ["/dev", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder)) && !path.starts_with("/dev/shm")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let half = OutputFile::create(&path, false, Readers::AsUmask).unwrap();
        half.handle().write_all(b"half").unwrap();
        assert!(!path.exists() && count(folder.path()) == 1);
        drop(half);
        assert_eq!(count(folder.path()), 0);
        write(&path, b"first", false, Readers::AsUmask).unwrap();
        assert!(matches!(write(&path, b"second", false, Readers::AsUmask), Err(Error::Exists(_))));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        write(&path, b"second", true, Readers::Owner).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path), count(folder.path())), (b"second".to_vec(), 0o600, 1));
    }

    #[test]
    fn errors_name_the_file_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("no/page.html");
        let error = write(&wanted, b"", false, Readers::AsUmask).unwrap_err();
        assert!(error.is_wrong_use());
        let said = error.to_string();
        assert!(said.starts_with(&format!("cannot write {}: No such file", wanted.display())), "{said}");
        assert!(!said.contains(UNFINISHED) && !io::Error::from(error).to_string().contains(UNFINISHED), "{said}");
    }

    #[test]
    fn a_file_that_was_made_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = OutputFile::create(&path, false, Readers::AsUmask).unwrap();
        fs::write(&path, "another's").unwrap();
        assert!(file.finish().unwrap_err().to_string().contains("cannot write"));
        assert_eq!((fs::read(&path).unwrap(), count(folder.path())), (b"another's".to_vec(), 1));
    }

    #[test]
    fn what_is_made_from_a_private_file_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = [("open", 0o644), ("private", 0o600)].map(|(name, mode)| {
            let input = folder.path().join(name);
            fs::write(&input, "").unwrap();
            fs::set_permissions(&input, Permissions::from_mode(mode)).unwrap();
            input.metadata().unwrap()
        });
        let made = |name: &str, inputs: &[Metadata]| {
            let path = folder.path().join(name);
            write(&path, b"", false, Readers::AsInputs(inputs)).unwrap();
            mode(&path)
        };
        assert_eq!((made("of both", &inputs), made("of one", &inputs[..1])), (0o600, 0o644));
    }

    #[test]
    fn a_growing_file_is_there_at_once_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["journal", "other"].map(|name| folder.path().join(name));
        growing(&path, false, Readers::Owner).unwrap().write_all(b"one\n").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path), count(folder.path())), (b"one\n".to_vec(), 0o600, 1));
        assert!(matches!(growing(&path, false, Readers::Owner), Err(Error::Exists(_))));
        // What has a second name is replaced under the one, and left as it is under the other.
        fs::hard_link(&path, &other).unwrap();
        growing(&path, true, Readers::Owner).unwrap().write_all(b"two\n").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"two\n".to_vec(), b"one\n".to_vec()));
    }

    #[test]
    fn a_device_is_written_in_place_and_an_error_says_where_and_how_far() {
        write(Path::new("/dev/null"), b"x", false, Readers::Owner).unwrap();
        let full = write(Path::new("/dev/full"), b"x", false, Readers::Owner).unwrap_err().to_string();
        assert!(full.starts_with("cannot write /dev/full: No space left"), "{full}");
        let (mut writer, _) = OutputFile::create(Path::new("/dev/full"), false, Readers::Owner).unwrap().into_parts();
        let full = writer.write_all(b"x").unwrap_err().to_string();
        assert!(full.starts_with("cannot write /dev/full: No space left") && full.ends_with("(after 0 B)"), "{full}");
    }

    #[test]
    fn a_link_is_neither_followed_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        for target in [folder.path().join("target"), "/dev/null".into()] {
            std::os::unix::fs::symlink(&target, &link).unwrap();
            let refused = [
                write(&link, b"new", true, Readers::AsUmask).unwrap_err(),
                growing(&link, true, Readers::Owner).unwrap_err(),
            ];
            assert!(refused.iter().all(|error| matches!(error, Error::Link(_))), "{refused:?}");
            assert!(!folder.path().join("target").exists() && link.is_symlink());
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn directories_are_the_owners() {
        let folder = tempfile::tempdir().unwrap();
        directory(&folder.path().join("run")).unwrap();
        assert_eq!(mode(&folder.path().join("run")), 0o700);
    }
}
