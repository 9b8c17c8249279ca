//! The run of a workload: tables as its crate describes them, and `run.json` with what was asked
//! and what came of it.
//!
//! It is there whole or not at all: it is written under a hidden name beside its place, and renamed
//! at the end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use record::ClockReading;
use record::columns;
use record::table::Record;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::part::write_whole;
use crate::provenance::State;
use crate::row;
use crate::{Error, RunKind, SCHEMA, run_file};

/// What made the run, and on what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The version of Wirelapse.
    pub version: String,
    /// The command line, word by word, without a token.
    pub command_line: Vec<String>,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine hardware name (`uname -m`).
    pub machine: String,
    /// CPUs online.
    pub cpus: u32,
    /// How to get from `CLOCK_MONOTONIC` to the time of day.
    pub clock: ClockReading,
}

columns! {
    Provenance: "workload_run", "", blank = Provenance {
        version: String::new(),
        command_line: Vec::new(),
        kernel: String::new(),
        machine: String::new(),
        cpus: 0,
        clock: ClockReading { realtime_offset_ns: 0, realtime_offset_error_ns: 0 },
    };
    version = version, "version of Wirelapse";
    command_line = command_line, "its words, as a list, without a token";
    kernel = kernel, "kernel release";
    machine = machine, "machine hardware name";
    cpus = cpus, "CPUs online";
    "clock.realtime_offset_ns" = clock.realtime_offset_ns, "what to add to a moment of `CLOCK_MONOTONIC` to get the time of day (`CLOCK_REALTIME`)";
    "clock.realtime_offset_error_ns" = clock.realtime_offset_error_ns, "error bound of the offset, to either side";
}

/// `run.json`: all but the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// What made it.
    pub provenance: Provenance,
    /// Which workload: the command's name.
    pub workload: String,
    /// What was asked for.
    pub config: Value,
    /// What came of it, without what is in tables.
    pub outcome: Value,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    kind: RunKind,
    state: State,
    #[serde(flatten, with = "record::table::object")]
    provenance: Provenance,
    workload: String,
    config: Value,
    outcome: Value,
}

/// A number of the outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// Its keys in the outcome, joined by dots.
    pub name: String,
    /// Its value.
    pub value: f64,
}

columns! {
    Figure: "figures", "", blank = Figure::default();
    figure = name, "its key in the outcome, with that of the object that it is in before it and a dot between, such as `up.goodput_bits_per_second`";
    value = value, "its value, in the unit that its name ends in";
}

/// Refuses a place where something is.
///
/// # Errors
/// [`Error::Exists`].
pub fn refuse(path: &Path) -> Result<(), Error> {
    if path.symlink_metadata().is_ok() { Err(Error::Exists(path.to_owned())) } else { Ok(()) }
}

/// A run that is being written. Dropped before [`Writer::finish`] it leaves nothing.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    hidden: PathBuf,
}

impl Writer {
    /// Begins a run that is going to be at `path`.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Create`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        refuse(path)?;
        let failed = |why| Error::Create { path: path.to_owned(), why };
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let hidden =
            path.with_file_name(format!(".{}.{}{}", name.to_string_lossy(), std::process::id(), files::UNFINISHED));
        files::directory(&hidden).map_err(failed)?;
        Ok(Self { path: path.to_owned(), hidden })
    }

    /// Adds a table.
    ///
    /// # Errors
    /// [`Error::Keep`].
    pub fn table<T: Record>(&self, rows: &[T]) -> Result<(), Error> {
        Ok(write_whole(&self.hidden, rows)?)
    }

    /// Ends the run: it is in its place afterwards.
    ///
    /// # Errors
    /// [`Error::Keep`], [`Error::Exists`] where something has taken the place since.
    pub fn finish(self, head: Head) -> Result<(), Error> {
        let mut figures = Vec::new();
        numbers(&head.outcome, String::new(), &mut |name, value| figures.push(Figure { name, value }));
        self.table(&figures)?;
        let Head { provenance, workload, config, outcome } = head;
        let (kind, state) = (RunKind::Workload, State::Finished);
        run_file::put(&self.hidden, &File { schema: SCHEMA, kind, state, provenance, workload, config, outcome })?;
        refuse(&self.path)?;
        fs::rename(&self.hidden, &self.path).map_err(|why| Error::Keep { path: self.path.clone(), why })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Not there any more where the run was finished.
        fs::remove_dir_all(&self.hidden).ok();
    }
}

/// What a run says beside its tables. Its real numbers are those of the table `figures`, to the
/// last bit.
///
/// # Errors
/// Those of [`crate::kind`], and [`Error::OtherKind`].
pub fn head(path: &Path) -> Result<Head, Error> {
    let File { provenance, workload, config, mut outcome, .. } = run_file::read(path, RunKind::Workload)?;
    let mut figures = BTreeMap::new();
    row::table(path, |Figure { name, value }| {
        figures.insert(name, value);
    })?;
    exact(&mut outcome, String::new(), &figures);
    Ok(Head { provenance, workload, config, outcome })
}

/// The rows of a table.
///
/// # Errors
/// Those of [`crate::Run::sends`].
pub fn rows<T: Record>(path: &Path) -> Result<Vec<T>, Error> {
    let mut rows = Vec::new();
    row::table(path, |row| rows.push(row))?;
    Ok(rows)
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn numbers(value: &Value, path: String, each: &mut impl FnMut(String, f64)) {
    match value {
        Value::Number(n) => n.as_f64().into_iter().for_each(|n| each(path.clone(), n)),
        Value::Object(object) => object.iter().for_each(|(key, value)| numbers(value, below(&path, key), each)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| numbers(value, below(&path, &i.to_string()), each));
        }
        _ => {}
    }
}

/// Puts real numbers back as they were: their decimal text is read to the last digit but one.
fn exact(value: &mut Value, path: String, figures: &BTreeMap<String, f64>) {
    match value {
        Value::Number(n) if n.is_f64() => {
            if let Some(exact) = figures.get(&path).and_then(|value| serde_json::Number::from_f64(*value)) {
                *n = exact;
            }
        }
        Value::Object(object) => object.iter_mut().for_each(|(key, value)| exact(value, below(&path, key), figures)),
        Value::Array(list) => {
            list.iter_mut().enumerate().for_each(|(i, value)| exact(value, below(&path, &i.to_string()), figures));
        }
        _ => {}
    }
}
