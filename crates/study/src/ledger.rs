//! A study on disk: `run.json` (what, how, on what) and `trials.ndjson`, one trial a line, each written whole and synced
//! before the next begins, so that a study that was killed goes on where it was. Beside it the tables of `store` grow in
//! parts, and at the end comes `result.json`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use record::Nanos;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::conclusion::Conclusion;
use crate::engine::Study;
use crate::outcome::Trial;

/// The version of the layout. A new key leaves it as it is; a change of meaning raises it.
pub const SCHEMA: u32 = 1;

/// What made a study, on what, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of the layout.
    pub schema: u32,
    /// Which kind of run it is.
    pub kind: store::RunKind,
    /// Whether it came to its end.
    pub state: store::State,
    /// The version of Wirelapse.
    pub version: String,
    /// The command line, word by word.
    pub command_line: Vec<String>,
    /// Kernel release.
    pub kernel: String,
    /// Machine hardware name.
    pub machine: String,
    /// CPUs online.
    pub cpus: usize,
    /// When it was first begun, `CLOCK_REALTIME`.
    pub start_ns: u64,
    /// Where all random draws begin.
    pub seed: u64,
    /// The study with its plans.
    pub study: Study,
}

impl Provenance {
    /// Of this machine and the moment.
    pub fn here(study: &Study, seed: u64, command_line: Vec<String>) -> Self {
        // SAFETY: utsname is plain bytes, for which zeros are valid; uname fills it.
        let name = unsafe {
            let mut name: libc::utsname = std::mem::zeroed();
            libc::uname(&raw mut name);
            name
        };
        let text = |field: &[libc::c_char]| {
            let bytes: Vec<u8> = field.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Self {
            schema: SCHEMA,
            kind: store::RunKind::Study,
            state: store::State::Unfinished,
            version: env!("CARGO_PKG_VERSION").into(),
            command_line,
            kernel: text(&name.release),
            machine: text(&name.machine),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            start_ns: traffic::realtime().as_nanos(),
            seed,
            study: study.clone(),
        }
    }
}

/// A run directory that is open for more trials.
#[derive(Debug)]
pub struct Ledger {
    directory: PathBuf,
    trials: File,
    provenance: Provenance,
    tables: store::study::Writer,
    /// Trials kept so far.
    kept: u64,
}

fn now() -> Nanos {
    Nanos(traffic::now().as_nanos())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

/// Writes a file under another name and renames it, so that it is whole or not there.
fn put(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let other = path.with_extension("part");
    let write = || {
        let mut file = File::create(&other)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&other, path)
    };
    write().map_err(failed(path))
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

impl Ledger {
    /// Begins a run in a directory that does not exist yet.
    ///
    /// # Errors
    /// [`Error::Run`] where it exists, [`Error::File`] where it cannot be written.
    pub fn create(directory: &Path, provenance: Provenance) -> Result<Self, Error> {
        fs::create_dir(directory).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Run {
                path: directory.into(),
                problem: "exists already: give another directory with -o, or --resume to go on with that run".into(),
            },
            _ => Error::File { path: directory.into(), source },
        })?;
        put(&directory.join("run.json"), &json(&provenance))?;
        let path = directory.join("trials.ndjson");
        let trials = File::create(&path).map_err(failed(&path))?;
        let tables = store::study::Writer::open(directory, now())?;
        Ok(Self { directory: directory.into(), trials, provenance, tables, kept: 0 })
    }

    /// Goes on with a run: gives its provenance and the trials that are whole. A last line that was cut short is taken
    /// off.
    ///
    /// # Errors
    /// [`Error::Run`] where that is no run of a study, [`Error::File`] where it cannot be read.
    pub fn resume(directory: &Path) -> Result<(Self, Vec<Trial>), Error> {
        let (provenance, trials, whole) = load(directory)?;
        let path = directory.join("trials.ndjson");
        let file = File::options().append(true).create(true).open(&path).map_err(failed(&path))?;
        file.set_len(whole).map_err(failed(&path))?;
        let mut tables = store::study::Writer::open(directory, now())?;
        for (number, trial) in (0..).zip(&trials) {
            tables.add(&crate::tables::rows(&provenance.study, number, trial), now())?;
        }
        tables.close()?;
        let kept = trials.len() as u64;
        Ok((Self { directory: directory.into(), trials: file, provenance, tables, kept }, trials))
    }

    /// What made the run.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// From here on the study goes on until its intervals are that narrow, which those who read it later must know.
    ///
    /// # Errors
    /// [`Error::File`] where the disk does not take it.
    pub fn go_on_until(&mut self, until: f64) -> Result<(), Error> {
        self.provenance.study.go_on_until(until);
        put(&self.directory.join("run.json"), &json(&self.provenance))
    }

    /// Adds a trial, to the journal first.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Store`] where the disk does not take it.
    pub fn add(&mut self, trial: &Trial) -> Result<(), Error> {
        let mut line = serde_json::to_vec(trial).unwrap_or_default();
        line.push(b'\n');
        let path = self.directory.join("trials.ndjson");
        self.trials.write_all(&line).and_then(|()| self.trials.sync_data()).map_err(failed(&path))?;
        self.tables.add(&crate::tables::rows(&self.provenance.study, self.kept, trial), now())?;
        self.kept += 1;
        Ok(())
    }

    /// Writes `result.json` and what is left of the tables, and in `run.json` whether the study came to its end.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Store`].
    pub fn conclude(&mut self, conclusion: &Conclusion, finished: bool) -> Result<(), Error> {
        put(&self.directory.join("result.json"), &json(conclusion))?;
        self.tables.close()?;
        store::study::write_comparisons(&self.directory, &crate::tables::comparisons(conclusion))?;
        self.provenance.state = if finished { store::State::Finished } else { store::State::Unfinished };
        put(&self.directory.join("run.json"), &json(&self.provenance))
    }
}

/// Reads a run: what made it, its trials, and how many bytes of them are whole lines.
///
/// # Errors
/// As [`Ledger::resume`].
pub fn load(directory: &Path) -> Result<(Provenance, Vec<Trial>, u64), Error> {
    let path = directory.join("run.json");
    let text = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Run {
            path: directory.into(),
            problem: "holds no run.json: it is no run that could be resumed".into(),
        },
        _ => Error::File { path: path.clone(), source },
    })?;
    let wrong = |path: &Path, e: serde_json::Error| Error::Run {
        path: path.into(),
        problem: format!("is not what a study of this version writes: {e}"),
    };
    let provenance: Provenance = serde_json::from_slice(&text).map_err(|e| wrong(&path, e))?;
    let path = directory.join("trials.ndjson");
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(Error::File { path, source }),
    };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let trials = bytes[..whole]
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).map_err(|e| wrong(&path, e)))
        .collect::<Result<_, _>>()?;
    Ok((provenance, trials, whole as u64))
}
