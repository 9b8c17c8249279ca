//! Files that commands write for people: pages and pictures of documents.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use paper::document::Document;
use paper::html;
use paper::plot::image;

use crate::exit::BadInput;

/// Where plots go as images.
#[derive(clap::Args)]
pub struct Images {
    /// Write each plot as a PNG file into this directory
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
    /// Write each plot as an SVG file into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl Images {
    /// Whether any was asked for.
    pub fn any(&self) -> bool {
        self.png.is_some() || self.svg.is_some()
    }
}

/// Refuses a file that exists, unless it may be written over.
pub fn refuse(path: &Path, force: bool) -> Result<(), BadInput> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(BadInput(format!("{} exists: name another file, or add --force to write over it", path.display())));
    }
    Ok(())
}

/// Writes the plots of documents, each with what its files' names begin with, into the directories that were asked for; gives
/// the files.
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
                refuse(&path, force)?;
                let plot = std::slice::from_ref(plot);
                match kind {
                    "svg" => place(&path, image::svg(plot)?.as_bytes())?,
                    _ => place(&path, &image::png(plot)?)?,
                }
                written.push(path);
            }
        }
    }
    Ok(written)
}

/// Writes a page of documents.
pub fn write_page(path: &Path, documents: &[Document], force: bool) -> anyhow::Result<()> {
    refuse(path, force)?;
    place(path, html::page(documents, &made_by()).as_bytes())
}

/// What a page says it was made by.
pub fn made_by() -> String {
    format!("Made by wirelapse {}.", env!("CARGO_PKG_VERSION"))
}

/// Writes a file: under a hidden name first, so that it is whole or not there.
pub fn place(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if path.file_name().is_none() {
        return Err(BadInput(format!("{} is no name for a file", path.display())).into());
    }
    let write = || {
        let mut hidden = unfinished(path)?;
        hidden.write_all(bytes)?;
        hidden.persist(path).map_err(|error| error.error)
    };
    write().map(drop).with_context(|| format!("cannot write {}", path.display()))
}

/// A new file beside `path` under a hidden name that cannot be foretold, which becomes `path` once it is whole. It has the mode that
/// the umask leaves, as any file of the user, and belongs to the one who called `sudo`.
pub fn unfinished(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let file = tempfile::Builder::new().prefix(".unfinished-").permissions(mode).tempfile_in(folder(path))?;
    store::private::give_to_caller(file.as_file())?;
    Ok(file)
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
