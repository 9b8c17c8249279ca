//! Pages and images that commands write, by the rules of the crate `files`.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use ::files::{Readers, caller, folder, refuse, write};
use anyhow::Context as _;
use paper::document::Document;
use paper::html;
use paper::plot::image;
use rustix::fs::Access;

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

    /// The directories.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.svg, &self.png].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// Whether the directory of a run can be made; it is made when there is something to write. With
/// `force` it may be there, if it is a run: nothing else is removed.
///
/// # Errors
/// What is there, or why nothing can be made there; see [`BadInput`].
pub fn check_run(run: &Path, force: bool) -> anyhow::Result<()> {
    if let Ok(there) = run.symlink_metadata() {
        match there.is_dir() && run.join("run.json").is_file() {
            true if force => {}
            true => {
                let problem =
                    format!("{} exists: name another run, or add --force to overwrite this one", run.display());
                return Err(BadInput(problem).into());
            }
            false => return Err(BadInput(store::Error::Exists(run.to_owned()).to_string()).into()),
        }
    }
    if let Err(error) = rustix::fs::access(folder(run), Access::WRITE_OK | Access::EXEC_OK) {
        let error = std::io::Error::from(error);
        return Err(BadInput(format!(
            "cannot make a directory in {}: {error}; name another place for -o",
            folder(run).display()
        ))
        .into());
    }
    Ok(())
}

/// Removes a run that is to be overwritten with `force`: as late as possible, so that what cannot
/// start removes nothing.
///
/// # Errors
/// Where it cannot be removed.
pub fn remove_run(run: &Path, force: bool) -> anyhow::Result<()> {
    if !force || !run.is_dir() {
        return Ok(());
    }
    let removed = std::fs::remove_dir_all(run);
    removed.map_err(|error| BadInput(format!("cannot overwrite the run {}: {error}", run.display())).into())
}

/// Keeps what it takes to decode these runs, and to write a page and images: that they can be
/// written is found here, and directories for them are made. With `names`, also what it takes to
/// ask for the names of hosts.
///
/// # Errors
/// A page that exists, without `force`; a directory that cannot be made; a right that cannot be
/// given up.
pub fn keep_for_runs<'a>(
    runs: impl IntoIterator<Item = &'a Path>,
    (page, force): (Option<&Path>, bool),
    images: &Images,
    names: bool,
) -> anyhow::Result<()> {
    page.map_or(Ok(()), |page| refuse(page, force))?;
    for folder in images.folders().filter(|folder| !folder.is_dir()) {
        let made = std::fs::create_dir_all(folder);
        // Whoever called `sudo` writes into it.
        let given = |()| caller().map_or(Ok(()), |(user, group)| std::os::unix::fs::lchown(folder, user, group));
        made.and_then(given).with_context(|| format!("cannot make the directory {}", folder.display()))?;
    }
    let folders: Vec<&Path> = page.map(folder).into_iter().chain(images.folders()).collect();
    let runs: Vec<&Path> = runs.into_iter().collect();
    Ok(rights::keep_for_runs(&runs, &folders, names)?)
}

/// Writes the plots of documents, each with what its files' names begin with, into the directories
/// that were asked for ([`keep_for_runs`] makes them); gives the files.
pub fn write_images(
    images: &Images,
    documents: &[(String, &Document)],
    force: bool,
    readers: Readers<'_>,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    if !images.any() {
        return Ok(written);
    }
    for (prefix, document) in documents {
        for (dir, kind) in [(&images.svg, "svg"), (&images.png, "png")] {
            let Some(dir) = dir else { continue };
            let mut put = |id: &str, image: Vec<u8>| -> anyhow::Result<()> {
                let path = dir.join(format!("{prefix}{id}.{kind}"));
                write(&path, &image, force, readers)?;
                written.push(path);
                Ok(())
            };
            for plot in document.plots() {
                let alone = std::slice::from_ref(plot);
                let image = if kind == "svg" { image::svg(alone)?.into_bytes() } else { image::png(alone)? };
                put(&plot.id, image)?;
            }
            for graph in document.graphs() {
                let image =
                    if kind == "svg" { image::graph_svg(graph)?.into_bytes() } else { image::graph_png(graph)? };
                put(&graph.id, image)?;
            }
        }
    }
    Ok(written)
}

/// Writes a page of documents.
pub fn write_page(path: &Path, documents: &[Document], force: bool, readers: Readers<'_>) -> anyhow::Result<()> {
    Ok(write(path, html::page(documents, &made_by())?.as_bytes(), force, readers)?)
}

/// What says who may read the files and directories that something is made of: of a run, its
/// directory and the file that says what it is of. What is not there, such as a bucket, is left
/// out.
pub fn inputs<'a>(of: impl IntoIterator<Item = &'a Path>) -> Vec<Metadata> {
    let both = of.into_iter().flat_map(|input| [input.to_owned(), input.join("run.json")]);
    both.filter_map(|input| input.metadata().ok()).collect()
}

/// Who may read what is made of them: where none is a file here, the owner alone.
pub fn readers(inputs: &[Metadata]) -> Readers<'_> {
    if inputs.is_empty() { Readers::Owner } else { Readers::AsInputs(inputs) }
}

/// What a page says it was made by.
pub fn made_by() -> String {
    format!("Made by wirelapse {}.", env!("CARGO_PKG_VERSION"))
}

/// What a run is called: its directory's own name.
pub fn name(run: &Path) -> String {
    let whole = run.canonicalize().ok();
    let last = whole.as_deref().unwrap_or(run).file_name().unwrap_or(run.as_os_str());
    last.to_string_lossy().into_owned()
}
