//! What can go wrong with a run directory.

use std::io;
use std::path::PathBuf;

/// An error of writing or reading a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory to write exists.
    #[error("{} exists, and a run never goes into an existing directory: name another one, or move this one away", .0.display())]
    Exists(PathBuf),
    /// The directory cannot be made.
    #[error("cannot make the run directory {}: {why}", path.display())]
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// Writing failed while the run went on.
    #[error(
        "cannot write {}: {why}; the {rows} sends written before are whole and readable in {}{}",
        path.display(), run.display(),
        if why.kind() == io::ErrorKind::StorageFull { ": free some space, or put the next run on another disk" } else { "" }
    )]
    Write {
        /// Which file.
        path: PathBuf,
        /// The run directory.
        run: PathBuf,
        /// How many sends lie in finished parts.
        rows: u64,
        /// Why.
        why: io::Error,
    },
    /// A run that is written at once could not be written.
    #[error(
        "cannot write {}: {why}{}", path.display(),
        if why.kind() == io::ErrorKind::StorageFull { ": free some space, or name another disk" } else { "" }
    )]
    Keep {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// Reading failed.
    #[error("cannot read {}: {why}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The directory is not a run.
    #[error("{} is not a run: {}; name a directory that `trace -o`, `study -o`, `analyze -o` or a workload such as `stream -o` made", .0.display(), if .0.exists() { "it has no run.json (yet)" } else { "there is no such directory (yet)" })]
    NotARun(PathBuf),
    /// The run is of another kind than what is asked of it.
    #[error("{} is {found}, and {wanted} is needed here", path.display())]
    OtherKind {
        /// The run.
        path: PathBuf,
        /// What it is.
        found: crate::RunKind,
        /// What is needed.
        wanted: crate::RunKind,
    },
    /// A table of the run is not there.
    #[error("{} has no table {table}: it was not copied whole, or an earlier version wrote it", run.display())]
    NoTable {
        /// The run.
        run: PathBuf,
        /// Which.
        table: String,
    },
    /// A file ends too early.
    #[error("{} is cut short: {detail}; it was not written by a finished run, or was not copied whole", path.display())]
    Truncated {
        /// Which file.
        path: PathBuf,
        /// What is missing.
        detail: String,
    },
    /// A file says something that cannot be.
    #[error("{} is malformed: {detail}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where and what.
        detail: String,
    },
    /// A file of another version.
    #[error("{} has schema {found}, and this program reads schema {} to {}: read it with the version that wrote it", path.display(), crate::EARLIEST_SCHEMA, crate::SCHEMA)]
    Unsupported {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}
