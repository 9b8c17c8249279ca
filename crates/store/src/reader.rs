//! Reads the run of a trace.

use std::path::{Path, PathBuf};

use record::{
    ClosedConnection, Connect, Connection, Coverage, Datagram, Lost, Packet, Provenance, Receive, Request, Send,
};

use crate::provenance::{Rows, RunFile, State};
use crate::row;
use crate::run_file::RunKind;
use crate::{Error, run_file};

/// A run that was opened for reading.
#[derive(Debug)]
pub struct Run {
    path: PathBuf,
    file: RunFile,
}

impl Run {
    /// Opens the run in this directory, by its `run.json`.
    ///
    /// # Errors
    /// [`Error::NotARun`], [`Error::Read`], [`Error::Truncated`], [`Error::Malformed`], or [`Error::Unsupported`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = run_file::read(path, RunKind::Trace)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Where it comes from.
    pub fn provenance(&self) -> &Provenance {
        &self.file.provenance
    }

    /// What the path of the lab reported that the traced program lived in, with the lab's name in `lab`; `None` where no traced process
    /// was seen in a lab that has a name.
    pub fn lab_path(&self) -> Option<&serde_json::Value> {
        self.file.path.as_ref()
    }

    /// Whether it came to its end.
    pub fn state(&self) -> State {
        self.file.state
    }

    /// When tracing ended, `CLOCK_MONOTONIC` nanoseconds; `None` where the run is unfinished.
    pub fn end_ns(&self) -> Option<u64> {
        self.file.end_ns
    }

    /// How many rows its tables have, by `run.json`; `None` where the run is unfinished.
    pub fn rows(&self) -> Option<Rows> {
        self.file.rows
    }

    /// What was lost; `None` where the run is unfinished and that is not known.
    pub fn lost(&self) -> Option<Lost> {
        self.file.lost
    }

    /// What share was seen; `None` where the run is unfinished.
    pub fn coverage(&self) -> Option<Coverage> {
        self.file.coverage
    }

    /// Passes every connection to `each`, in the order they were picked up.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Truncated`], [`Error::Malformed`], [`Error::Unsupported`].
    pub fn connections(&self, each: impl FnMut(Connection)) -> Result<(), Error> {
        row::table(&self.path, each)
    }

    /// Passes every attempt to set up a connection to `each`; none in a run of an earlier version.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn connects(&self, each: impl FnMut(Connect)) -> Result<(), Error> {
        optional(row::table(&self.path, each))
    }

    /// Passes every send to `each`, in the order they were finished. Holds one row group in memory.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn sends(&self, each: impl FnMut(Send)) -> Result<(), Error> {
        row::table(&self.path, each)
    }

    /// Passes every receive to `each`; none where received bytes were not followed.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn receives(&self, each: impl FnMut(Receive)) -> Result<(), Error> {
        optional(row::table(&self.path, each))
    }

    /// Passes every request to `each`; none where requests were not asked for.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn requests(&self, each: impl FnMut(Request)) -> Result<(), Error> {
        optional(row::table(&self.path, each))
    }

    /// Passes every packet of TCP to `each`; none where packets were not asked for.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn packets(&self, each: impl FnMut(Packet)) -> Result<(), Error> {
        optional(row::table(&self.path, each))
    }

    /// Passes every datagram of UDP to `each`; none where UDP was not asked for.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn datagrams(&self, each: impl FnMut(Datagram)) -> Result<(), Error> {
        optional(row::table(&self.path, each))
    }

    /// Passes the totals of every connection that was followed to its end, or to the run's.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn totals(&self, each: impl FnMut(ClosedConnection)) -> Result<(), Error> {
        row::table(&self.path, each)
    }
}

/// A table that an earlier version did not write has no rows.
fn optional(read: Result<(), Error>) -> Result<(), Error> {
    match read {
        Err(Error::NoTable { .. }) => Ok(()),
        read => read,
    }
}
