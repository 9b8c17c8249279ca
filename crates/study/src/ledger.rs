//! A study on disk: `run.json` (what, how, on what) and `trials.ndjson`, one trial a line, each
//! written whole and synced before the next begins, so that a study that was killed goes on where
//! it was. Beside it the tables of `store` grow in parts, and at the end comes `result.json`.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::Readers;
use record::table::{Cell, object};
use record::{Nanos, columns};
use serde::Serialize;

use crate::Error;
use crate::conclusion::Conclusion;
use crate::engine::Study;
use crate::outcome::Trial;
use crate::plan::MOST_COMBINATIONS;
use store::regular;

/// The version of the layout, that of all runs. Runs of version 1, which had some other keys, are
/// read too.
pub const SCHEMA: u32 = store::SCHEMA;

/// What made a study, on what, and how.
#[derive(Clone, Debug, PartialEq)]
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
    /// Host name; `None` in runs of versions that did not keep it.
    pub hostname: Option<String>,
    /// Machine hardware name.
    pub machine: String,
    /// CPUs online.
    pub cpus: u32,
    /// When it was first begun, `CLOCK_REALTIME`.
    pub start_ns: Nanos,
    /// Where all random draws begin.
    pub seed: u64,
    /// The study with its plans.
    pub study: Study,
}

columns! {
    Provenance: "study_run", "", blank = Provenance::blank();
    schema = schema, "version of the layout";
    kind = kind, "what the run is of: a study";
    state = state, "whether it was ended as it should";
    version = version, "version of Wirelapse";
    command_line = command_line, "its words, as a list";
    kernel = kernel, "kernel release";
    hostname = hostname, null "an earlier version wrote the run", "host name";
    machine = machine, "machine hardware name";
    cpus = cpus, "CPUs online";
    start_ns = start_ns, "when it was first begun, `CLOCK_REALTIME`";
    seed = seed, "where all random draws begin";
    // `put_run` has found that JSON holds it.
    study = |p| serde_json::to_value(&p.study).unwrap_or_default(), set |p, v| {
        p.study = serde_json::from_value(Cell::from_value(v)?).map_err(|_| "is no study with plans of this version")?;
        Ok(())
    }, "the study with its plans";
}

impl Provenance {
    fn blank() -> Self {
        Self {
            schema: SCHEMA,
            kind: store::RunKind::Study,
            state: store::State::Unfinished,
            version: String::new(),
            command_line: Vec::new(),
            kernel: String::new(),
            hostname: None,
            machine: String::new(),
            cpus: 0,
            start_ns: Nanos::ZERO,
            seed: 0,
            study: Study { name: String::new(), builtin: false, plans: Vec::new(), host: None },
        }
    }

    /// Of this machine and the moment.
    pub fn here(study: &Study, seed: u64, command_line: Vec<String>) -> Self {
        let machine::Names { host, kernel, hardware, cpus } = machine::Names::here();
        Self {
            schema: SCHEMA,
            kind: store::RunKind::Study,
            state: store::State::Unfinished,
            version: env!("CARGO_PKG_VERSION").into(),
            command_line,
            kernel,
            hostname: Some(host),
            machine: hardware,
            cpus,
            start_ns: Nanos(traffic::realtime().as_nanos()),
            seed,
            study: study.clone(),
        }
    }
}

/// A run directory that is open for more trials.
#[derive(Debug)]
pub struct Ledger {
    directory: PathBuf,
    trials: Arc<File>,
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

/// Writes a file, which is whole or not there.
fn put(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let write = || {
        let mut bytes = serde_json::to_vec_pretty(value)?;
        bytes.push(b'\n');
        Ok(files::write(path, &bytes, true, Readers::Owner)?)
    };
    write().map_err(failed(path))
}

/// Writes `run.json`. A field of a table cannot refuse, so the study is tried first: one that JSON
/// cannot hold is an error, and no run whose study is null.
fn put_run(directory: &Path, provenance: &Provenance) -> Result<(), Error> {
    let path = directory.join("run.json");
    serde_json::to_value(&provenance.study).map_err(|why| failed(&path)(why.into()))?;
    put(&path, &object::of(provenance))
}

/// A new journal of trials.
fn journal(path: &Path) -> Result<Arc<File>, Error> {
    files::growing(path, false, Readers::Owner).map_err(|error| failed(path)(error.into()))
}

/// Holds the run for this process: the lock ends with it, however it ends.
fn alone(trials: &File, directory: &Path) -> Result<(), Error> {
    trials.try_lock().map_err(|refused| match refused {
        TryLockError::WouldBlock => Error::Run {
            path: directory.into(),
            problem: "is being written by another process: wait for its end".into(),
        },
        TryLockError::Error(source) => Error::File { path: directory.into(), source },
    })
}

/// Refuses a run of another user before a byte of it is decoded: a study does what its run says, as
/// root and to the sysctls of this host. What is not there is found by whoever reads it.
fn refuse_others(directory: &Path) -> Result<(), Error> {
    let own = [Some(0), Some(rustix::process::geteuid().as_raw()), files::caller().and_then(|(user, _)| user)];
    let files = ["run.json", "trials.ndjson"].map(|name| directory.join(name));
    let found = files.iter().map(|file| (file.as_path(), file.symlink_metadata()));
    for (path, metadata) in std::iter::once((directory, directory.metadata())).chain(found) {
        let Ok(owner) = metadata.map(|of| of.uid()) else { continue };
        if !own.contains(&Some(owner)) {
            let problem =
                format!("belongs to user {owner}, and a study does what its run says: go on with a copy (cp -r)");
            return Err(Error::Run { path: path.into(), problem });
        }
    }
    Ok(())
}

impl Ledger {
    /// Begins a run in a directory that does not exist yet, and does not where it fails.
    ///
    /// # Errors
    /// [`Error::Run`] where it exists, [`Error::File`] and [`Error::Store`] where it cannot be
    /// written.
    pub fn create(directory: &Path, provenance: Provenance) -> Result<Self, Error> {
        let first = || {
            put_run(directory, &provenance)?;
            let trials = journal(&directory.join("trials.ndjson"))?;
            alone(&trials, directory)?;
            Ok((trials, store::study::Writer::open(directory, now())?))
        };
        let (trials, tables) = store::begin(directory, first).map_err(|error| match error {
            Error::Store(store::Error::Exists(path)) => Error::Run {
                path,
                problem: "exists already: give another directory with -o, or --resume to go on with that run".into(),
            },
            other => other,
        })?;
        Ok(Self { directory: directory.into(), trials, provenance, tables, kept: 0 })
    }

    /// Goes on with a run: gives its provenance and the trials that are whole. A last line that was
    /// cut short is taken off.
    ///
    /// # Errors
    /// [`Error::Run`] where that is no run of a study, or another user's; [`Error::File`] where it
    /// cannot be read.
    pub fn resume(directory: &Path) -> Result<(Self, Vec<Trial>), Error> {
        refuse_others(directory)?;
        load(directory)?;
        let path = directory.join("trials.ndjson");
        // A link is no journal of this program's: another file would be cut short.
        let file = match File::options().append(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => journal(&path)?,
            opened => Arc::new(opened.map_err(failed(&path))?),
        };
        alone(&file, directory)?;
        // Only now it is sure that no other process adds to it.
        let (mut provenance, trials, whole) = load(directory)?;
        // What is written from here on has the keys of this version; those of version 1 are still
        // understood.
        provenance.schema = SCHEMA;
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

    /// From here on the study goes on until its intervals are that narrow, which those who read it
    /// later must know.
    ///
    /// # Errors
    /// [`Error::File`] where the disk does not take it.
    pub fn go_on_until(&mut self, until: f64) -> Result<(), Error> {
        self.provenance.study.go_on_until(until);
        put_run(&self.directory, &self.provenance)
    }

    /// Adds a trial, to the journal first.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Store`] where the disk does not take it.
    pub fn add(&mut self, trial: &Trial) -> Result<(), Error> {
        let write = || {
            let mut line = serde_json::to_vec(trial)?;
            line.push(b'\n');
            (&*self.trials).write_all(&line)?;
            self.trials.sync_data()
        };
        write().map_err(failed(&self.directory.join("trials.ndjson")))?;
        self.tables.add(&crate::tables::rows(&self.provenance.study, self.kept, trial), now())?;
        self.kept += 1;
        Ok(())
    }

    /// Writes `result.json` and what is left of the tables, and in `run.json` whether the study
    /// came to its end.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Store`].
    pub fn conclude(&mut self, conclusion: &Conclusion, finished: bool) -> Result<(), Error> {
        put(&self.directory.join("result.json"), conclusion)?;
        self.tables.close()?;
        store::study::write_comparisons(&self.directory, &crate::tables::comparisons(conclusion))?;
        self.provenance.state = if finished { store::State::Finished } else { store::State::Unfinished };
        put_run(&self.directory, &self.provenance)
    }
}

/// The lock is of the open file, which a process that another thread has just forked shares until
/// it runs its program: closing it here alone would leave the run locked until then (flock(2)).
impl Drop for Ledger {
    fn drop(&mut self) {
        let _ = self.trials.unlock();
    }
}

/// Bytes of trials that are read at most: a hundred times what the longest study so far has
/// written.
const MOST_TRIALS: u64 = 4 << 30;

/// Reads a run: what made it, its trials, and how many bytes of them are whole lines.
///
/// # Errors
/// [`Error::Run`] where it is no run of a study, or cannot be read.
pub fn load(directory: &Path) -> Result<(Provenance, Vec<Trial>, u64), Error> {
    let unreadable = |path: &Path, source: &io::Error| Error::Run {
        path: path.into(),
        problem: format!("cannot be read: {source}"),
    };
    let path = directory.join("run.json");
    let text = regular::read(&path, store::LONGEST).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Run {
            path: directory.into(),
            problem: "holds no run.json: it is no run that could be resumed".into(),
        },
        _ => unreadable(&path, &source),
    })?;
    let wrong = |path: &Path, why: String| Error::Run {
        path: path.into(),
        problem: format!("is not what a study of this version writes: {why}"),
    };
    let file = serde_json::from_slice(&text).map_err(|e| wrong(&path, e.to_string()))?;
    let provenance: Provenance = object::read(&file).map_err(|why| wrong(&path, why))?;
    if !(store::EARLIEST_SCHEMA..=SCHEMA).contains(&provenance.schema) {
        return Err(store::Error::Unsupported { path, found: provenance.schema }.into());
    }
    // Pages draw each combination: a file that names billions is none of this program's.
    if provenance.study.plans.iter().any(|plan| plan.combinations() > MOST_COMBINATIONS) {
        return Err(wrong(&path, format!("a plan has more than {MOST_COMBINATIONS} combinations of levels")));
    }
    let path = directory.join("trials.ndjson");
    let bytes = match regular::read(&path, MOST_TRIALS) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(unreadable(&path, &source)),
    };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let trials = bytes[..whole]
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).map_err(|e| wrong(&path, e.to_string())))
        .collect::<Result<_, _>>()?;
    Ok((provenance, trials, whole as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_put_down_is_free_though_a_fork_still_has_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let study = Study { name: "s".into(), builtin: false, plans: Vec::new(), host: None };
        let ledger = Ledger::create(&run, Provenance::here(&study, 1, Vec::new())).unwrap();
        let of_a_fork = ledger.trials.try_clone().unwrap();
        assert!(Ledger::resume(&run).is_err(), "it is held");
        drop(ledger);
        assert!(Ledger::resume(&run).is_ok());
        drop(of_a_fork);
    }
}
