//! `run.json`: what every kind of run says about the run, read and written.

use std::fs;
use std::io;
use std::path::Path;

use files::Readers;
use record::words;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::part::Failed;
use crate::{EARLIEST_SCHEMA, Error, SCHEMA, regular};

/// What a run is of, in `run.json` as `kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Sends, as a tracer saw them. Also where `kind` is missing.
    #[default]
    Trace,
    /// A planned experiment.
    Study,
    /// The connections of a capture.
    Capture,
    /// Traffic of a known shape, and what became of it.
    Workload,
}

words! {
    RunKind: Trace = "trace", Study = "study", Capture = "capture", Workload = "workload";
}

impl std::fmt::Display for RunKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Trace => "a trace",
            Self::Study => "a study",
            Self::Capture => "a capture",
            Self::Workload => "a workload",
        })
    }
}

/// Makes the directory of a run and what the run begins with: both, or nothing.
///
/// # Errors
/// [`Error::Exists`], [`Error::Create`], and those of `first`.
pub fn begin<T, E: From<Error>>(run: &Path, first: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    files::directory(run).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists(run.to_owned()),
        _ => Error::Create { path: run.to_owned(), why: source },
    })?;
    first().inspect_err(|_| {
        // An empty directory would keep the same name from the next try.
        fs::remove_dir_all(run).ok();
    })
}

/// Bytes of a `run.json` that are read at most.
pub const LONGEST: u64 = 64 << 20;

/// What kind of run the directory holds.
///
/// # Errors
/// [`Error::NotARun`], [`Error::Read`], [`Error::Truncated`], [`Error::Malformed`], or
/// [`Error::Unsupported`].
pub fn kind(run: &Path) -> Result<RunKind, Error> {
    kind_of(run, &value(run)?)
}

/// `run.json` as it is, where its schema is known.
fn value(run: &Path) -> Result<serde_json::Value, Error> {
    let path = run.join("run.json");
    let text = regular::read(&path, LONGEST).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::NotARun(run.to_owned()),
        _ => Error::Read { path: path.clone(), why: source },
    })?;
    let any: serde_json::Value = serde_json::from_slice(&text).map_err(|e| match e.is_eof() {
        true => Error::Truncated { path: path.clone(), detail: e.to_string() },
        false => Error::Malformed { path: path.clone(), detail: e.to_string() },
    })?;
    let schema = any
        .get("schema")
        .and_then(serde_json::Value::as_u64)
        .ok_or_else(|| Error::Malformed { path: path.clone(), detail: "it has no number \"schema\"".into() })?;
    if !(u64::from(EARLIEST_SCHEMA)..=u64::from(SCHEMA)).contains(&schema) {
        return Err(Error::Unsupported { path, found: u32::try_from(schema).unwrap_or(u32::MAX) });
    }
    Ok(any)
}

fn kind_of(run: &Path, any: &serde_json::Value) -> Result<RunKind, Error> {
    any.get("kind").map_or(Ok(RunKind::Trace), |kind| {
        RunKind::deserialize(kind)
            .map_err(|e| Error::Malformed { path: run.join("run.json"), detail: format!("its kind: {e}") })
    })
}

/// `run.json` of a run of this kind.
///
/// # Errors
/// As [`kind`], and [`Error::OtherKind`].
pub fn read<T: DeserializeOwned>(run: &Path, wanted: RunKind) -> Result<T, Error> {
    let any = value(run)?;
    let found = kind_of(run, &any)?;
    if found != wanted {
        return Err(Error::OtherKind { path: run.to_owned(), found, wanted });
    }
    serde_json::from_value(any).map_err(|e| Error::Malformed { path: run.join("run.json"), detail: e.to_string() })
}

/// Writes a JSON file of a run, which is whole or not there.
pub(crate) fn put(run: &Path, value: &impl Serialize) -> Result<(), Failed> {
    let path = run.join("run.json");
    let write = || {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        Ok(files::write(&path, &text, true, Readers::Owner)?)
    };
    write().map_err(|source| Failed { path: path.clone(), source })
}
