//! The study as it is kept in a directory: its outcome, and the findings of the source beside it.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Beside, Outcome, compare};

/// The file of a directory that holds the study.
pub const FILE: &str = "reception.json";

/// What the file holds.
#[derive(Debug, Serialize)]
pub struct Kept<'a> {
    outcome: &'a Outcome,
    findings: Vec<Beside>,
}

impl<'a> Kept<'a> {
    /// The outcome with the findings that follow from it.
    pub fn of(outcome: &'a Outcome) -> Self {
        Self { outcome, findings: compare(outcome) }
    }
}

/// Why a kept study cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no outcome of this study.
    #[error("{} does not hold an outcome of study reception: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where, and what.
        source: serde_json::Error,
    },
}

/// Whether the directory holds the study.
pub fn is_kept(directory: &Path) -> bool {
    directory.join(FILE).is_file()
}

/// Reads the outcome back; the findings follow from it.
///
/// # Errors
/// Those of [`enum@Error`].
pub fn read(directory: &Path) -> Result<Outcome, Error> {
    #[derive(Deserialize)]
    struct File {
        outcome: Outcome,
    }
    let path = directory.join(FILE);
    let bytes =
        store::regular::read(&path, store::LONGEST).map_err(|source| Error::Read { path: path.clone(), source })?;
    let file: File = serde_json::from_slice(&bytes).map_err(|source| Error::Malformed { path, source })?;
    Ok(file.outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reception::beside::tests::outcome;

    #[test]
    fn an_outcome_reads_back_equal() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_kept(dir.path()));
        assert!(matches!(read(dir.path()), Err(Error::Read { .. })));
        let kept = outcome([0.9, 0.8, 1.0], [2.0, 3.0, 4.0]);
        std::fs::write(dir.path().join(FILE), serde_json::to_vec(&Kept::of(&kept)).unwrap()).unwrap();
        assert!(is_kept(dir.path()));
        assert_eq!(read(dir.path()).unwrap(), kept);
        std::fs::write(dir.path().join(FILE), b"{}").unwrap();
        let error = read(dir.path()).unwrap_err();
        assert!(error.to_string().contains("does not hold an outcome"), "{error}");
    }
}
