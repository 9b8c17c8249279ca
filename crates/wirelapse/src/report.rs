//! `wirelapse report`.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ::report::document::Document;
use ::report::plot::image;
use ::report::{html, page, terminal as renderer};
use anyhow::Context as _;
use store::RunKind;

use crate::exit::BadInput;
use crate::options::FORCE;
use crate::terminal;

/// Show what runs say: on the terminal, as one HTML file, or as images
///
/// A run is a directory that `trace -o`, `study -o` or `analyze -o` made. The HTML file needs nothing else: no network, no second
/// file. With none of --html, --png and --svg the report goes to the terminal.
#[derive(clap::Args)]
pub struct Args {
    /// Run directories, shown one after the other
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Write one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    images: Images,
    /// Open the HTML file in a browser
    #[arg(long, requires = "html")]
    open: bool,
    #[arg(long, help = FORCE)]
    force: bool,
}

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

pub fn run(args: &Args) -> anyhow::Result<()> {
    // Before any run is read: what cannot be written is found at once.
    args.html.as_deref().map_or(Ok(()), |path| refuse(path, args.force))?;
    let documents = args.runs.iter().map(|run| document(run)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut written = Vec::new();
    if let Some(path) = &args.html {
        write_page(path, &documents, args.force)?;
        written.push(path.clone());
    }
    let named: Vec<(String, &Document)> = args
        .runs
        .iter()
        .zip(&documents)
        .map(|(run, document)| (if args.runs.len() > 1 { format!("{}-", name(run)) } else { String::new() }, document))
        .collect();
    written.extend(write_images(&args.images, &named, args.force)?);
    let mut out = io::stdout().lock();
    if written.is_empty() && !args.images.any() {
        out.write_all(renderer::text(&terminal::canvas(), &documents).as_bytes())?;
    }
    for path in &written {
        let bytes = path.metadata().map_or(0, |m| m.len());
        writeln!(out, "{}: {}", path.display(), quantity::bytes(bytes))?;
    }
    out.flush()?;
    if let (true, Some(path)) = (args.open, &args.html) {
        open(path)?;
    }
    Ok(())
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
    let Some(file) = path.file_name() else {
        return Err(BadInput(format!("{} is no name for a file", path.display())).into());
    };
    let mut hidden = OsStr::new(".unfinished-").to_owned();
    hidden.push(file);
    let hidden = path.with_file_name(hidden);
    std::fs::write(&hidden, bytes).and_then(|()| std::fs::rename(&hidden, path)).map_err(|error| {
        let _ = std::fs::remove_file(&hidden);
        anyhow::Error::from(error).context(format!("cannot write {}", path.display()))
    })
}

/// What a run is called: its directory's own name.
pub fn name(run: &Path) -> String {
    let whole = run.canonicalize().ok();
    let last = whole.as_deref().unwrap_or(run).file_name().unwrap_or(run.as_os_str());
    last.to_string_lossy().into_owned()
}

fn document(run: &Path) -> anyhow::Result<Document> {
    let name = name(run);
    match store::kind(run)? {
        RunKind::Trace => {
            let run = store::Run::open(run)?;
            Ok(page::trace::document(&name, &run)?)
        }
        RunKind::Study => {
            let (provenance, trials, _) = ::study::ledger::load(run).map_err(|e| BadInput(e.to_string()))?;
            Ok(page::study::document(&name, &provenance, &trials))
        }
        RunKind::Capture => {
            let (run, state) = store::capture::Run::read(run)?;
            Ok(page::capture::document(&name, &run, state))
        }
    }
}

/// Hands the file to the desktop's own opener.
fn open(path: &Path) -> anyhow::Result<()> {
    let opened = std::process::Command::new("xdg-open").arg(path).stdout(std::process::Stdio::null()).spawn();
    opened.map(|_| ()).with_context(|| format!("cannot start xdg-open: open {} yourself", path.display()))
}
