//! Files that commands write: under a hidden name until they are whole, so that a file is whole or
//! not there.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use paper::document::Document;
use paper::html;
use paper::plot::image;

use crate::exit::BadInput;
use crate::options::heading;

/// Where plots go as images.
#[derive(clap::Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub struct Images {
    /// Write each plot as a PNG file into this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    png: Option<PathBuf>,
    /// Write each plot as an SVG file into this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    svg: Option<PathBuf>,
}

impl Images {
    /// Whether any was asked for.
    pub fn any(&self) -> bool {
        self.png.is_some() || self.svg.is_some()
    }
}

/// Who may read a file that a command writes.
#[derive(Clone, Copy, Debug)]
pub enum Readers<'a> {
    /// Those whom the umask lets, as with any file of the user.
    AsUmask,
    /// Its owner alone: it holds names of programs and addresses that no other file had.
    Owner,
    /// At most those who may read the file that it is made from.
    AsInput(&'a File),
}

/// A file that a command writes. Dropped before [`Self::finish`], it is removed.
#[derive(Debug)]
pub struct OutputFile {
    writer: Writer,
    pending: Pending,
}

/// Takes the bytes of an [`OutputFile`]. Its errors name the file.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    /// Bytes that the file has taken.
    written: u64,
}

/// The name that an [`OutputFile`] gets once it is whole.
#[derive(Debug)]
pub struct Pending {
    path: PathBuf,
    force: bool,
    /// `None` for a pipe or a device, which is written in place.
    hidden: Option<tempfile::TempPath>,
}

impl OutputFile {
    /// Opens a file to write. One that exists stays as it is until [`Self::finish`].
    ///
    /// # Errors
    /// [`BadInput`] where it exists and `force` is not given, and where its folder takes no file.
    pub fn create(path: &Path, force: bool, readers: Readers<'_>) -> anyhow::Result<Self> {
        refuse(path, force)?;
        if path.is_symlink() && !is_stream(path) {
            return Err(BadInput(format!("{} is a link: name the file that it leads to", path.display())).into());
        }
        let (file, hidden) = open(path, readers)
            .map_err(|error| BadInput(format!("cannot write {}: {error}: name another file", path.display())))?;
        let path = path.to_owned();
        Ok(Self { writer: Writer { file, path: path.clone(), written: 0 }, pending: Pending { path, force, hidden } })
    }

    /// The writer for one that keeps it, and the name for when that is done.
    pub fn into_parts(self) -> (Writer, Pending) {
        (self.writer, self.pending)
    }

    /// Whether it gets its name at the end, and so needs its folder until then.
    pub const fn is_named_at_end(&self) -> bool {
        self.pending.hidden.is_some()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// As [`Pending::finish`].
    pub fn finish(self) -> anyhow::Result<()> {
        Ok(self.pending.finish()?)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
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
    /// Gives the file its name.
    ///
    /// # Errors
    /// Where a file of that name was made since, without `force`; where the folder refuses.
    pub fn finish(self) -> io::Result<()> {
        let Some(hidden) = self.hidden else { return Ok(()) };
        let named = if self.force { hidden.persist(&self.path) } else { hidden.persist_noclobber(&self.path) };
        named.map_err(|tempfile::PathPersistError { error, .. }| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", self.path.display()))
        })
    }
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
    let mode = match readers {
        Readers::AsUmask => 0o666,
        Readers::Owner => 0o600,
        Readers::AsInput(input) => input.metadata()?.permissions().mode() & 0o666 | 0o600,
    };
    let mode = std::fs::Permissions::from_mode(mode);
    let file = tempfile::Builder::new().prefix(".unfinished-").permissions(mode).tempfile_in(folder(path))?;
    store::private::give_to_caller(file.as_file())?;
    let (file, hidden) = file.into_parts();
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

/// Refuses a file that exists, unless `force` lets it be replaced, and one in a folder that is not
/// there: before long work, so that it is not in vain.
pub fn refuse(path: &Path, force: bool) -> Result<(), BadInput> {
    if !force && path.symlink_metadata().is_ok() && !is_stream(path) {
        return Err(BadInput(format!("{} exists: name another file, or add --force to overwrite it", path.display())));
    }
    let no_place = |error| BadInput(format!("cannot write {}: {error}: name another file", path.display()));
    folder(path).metadata().map(drop).map_err(no_place)
}

/// Writes a whole file.
///
/// # Errors
/// As [`OutputFile`].
pub fn write(path: &Path, bytes: &[u8], force: bool, readers: Readers<'_>) -> anyhow::Result<()> {
    let mut file = OutputFile::create(path, force, readers)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Writes the plots of documents, each with what its files' names begin with, into the directories
/// that were asked for; gives the files.
pub fn write_images(images: &Images, documents: &[(String, &Document)], force: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    if !images.any() {
        return Ok(written);
    }
    for (prefix, document) in documents {
        for (dir, kind) in [(&images.svg, "svg"), (&images.png, "png")] {
            let Some(dir) = dir else { continue };
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
            for plot in document.plots() {
                let path = dir.join(format!("{prefix}{}.{kind}", plot.id));
                let plot = std::slice::from_ref(plot);
                let image = match kind {
                    "svg" => image::svg(plot)?.into_bytes(),
                    _ => image::png(plot)?,
                };
                write(&path, &image, force, Readers::AsUmask)?;
                written.push(path);
            }
        }
    }
    Ok(written)
}

/// Writes a page of documents.
pub fn write_page(path: &Path, documents: &[Document], force: bool) -> anyhow::Result<()> {
    write(path, html::page(documents, &made_by()).as_bytes(), force, Readers::AsUmask)
}

/// What a page says it was made by.
pub fn made_by() -> String {
    format!("Made by wirelapse {}.", env!("CARGO_PKG_VERSION"))
}

/// The folder of a file.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What a run is called: its directory's own name.
pub fn name(run: &Path) -> String {
    let whole = run.canonicalize().ok();
    let last = whole.as_deref().unwrap_or(run).file_name().unwrap_or(run.as_os_str());
    last.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        let mut half = OutputFile::create(&path, false, Readers::AsUmask).unwrap();
        half.write_all(b"half").unwrap();
        assert!(!path.exists() && files() == 1);
        drop(half);
        assert_eq!(files(), 0);
        write(&path, b"first", false, Readers::AsUmask).unwrap();
        assert!(write(&path, b"second", false, Readers::AsUmask).unwrap_err().is::<BadInput>());
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        write(&path, b"second", true, Readers::Owner).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), mode(&path), files()), (b"second".to_vec(), 0o600, 1));
        let nowhere = write(&folder.path().join("no/page.html"), b"", false, Readers::AsUmask).unwrap_err();
        assert!(nowhere.is::<BadInput>() && nowhere.to_string().contains("no/page.html"), "{nowhere}");
    }

    #[test]
    fn a_file_that_was_made_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = OutputFile::create(&path, false, Readers::AsUmask).unwrap();
        std::fs::write(&path, "another's").unwrap();
        assert!(file.finish().unwrap_err().to_string().contains("cannot write"));
        assert_eq!(std::fs::read(&path).unwrap(), b"another's");
    }

    #[test]
    fn what_is_made_from_a_private_file_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
        std::fs::write(&input, "").unwrap();
        std::fs::set_permissions(&input, std::fs::Permissions::from_mode(0o600)).unwrap();
        write(&output, b"", false, Readers::AsInput(&File::open(&input).unwrap())).unwrap();
        assert_eq!(mode(&output), 0o600);
    }

    #[test]
    fn a_device_is_written_in_place_and_an_error_says_where_and_how_far() {
        write(Path::new("/dev/null"), b"x", false, Readers::Owner).unwrap();
        let full = write(Path::new("/dev/full"), b"x", false, Readers::Owner).unwrap_err().to_string();
        assert!(full.starts_with("cannot write /dev/full: No space left") && full.ends_with("(after 0 B)"), "{full}");
    }

    #[test]
    fn a_link_is_neither_followed_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        for target in [folder.path().join("target"), "/dev/null".into()] {
            std::os::unix::fs::symlink(&target, &link).unwrap();
            let refused = write(&link, b"new", true, Readers::AsUmask).unwrap_err();
            assert!(refused.is::<BadInput>() && refused.to_string().contains("is a link"), "{refused}");
            assert!(!folder.path().join("target").exists() && link.is_symlink());
            std::fs::remove_file(&link).unwrap();
        }
    }
}
