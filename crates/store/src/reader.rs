//! Reads the run of a trace.

use std::path::{Path, PathBuf};

use record::{Connection, Coverage, Datagram, Lost, Packet, Provenance, Receive, Request, Send};

use crate::column::Column;
use crate::provenance::{Rows, RunFile, State};
use crate::row::{self, Bad, Row};
use crate::run_file::RunKind;
use crate::totals::ClosedConnection;
use crate::{Error, connections, datagrams, packets, receives, requests, run_file, sends, totals};

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

    /// What was lost; `None` where the run is unfinished and nobody knows.
    pub fn lost(&self) -> Option<Lost> {
        self.file.lost
    }

    /// What share was seen; `None` where the run is unfinished.
    pub fn coverage(&self) -> Option<Coverage> {
        self.file.coverage.map(Coverage::from)
    }

    /// Passes every connection to `each`, in the order they were picked up.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Truncated`], [`Error::Malformed`], [`Error::Unsupported`].
    pub fn connections(&self, each: impl FnMut(Connection)) -> Result<(), Error> {
        self.table("connections", connections::COLUMNS, connections::read, each)
    }

    /// Passes every send to `each`, in the order they were finished. Holds one row group in memory.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn sends(&self, each: impl FnMut(Send)) -> Result<(), Error> {
        self.table("sends", sends::COLUMNS, sends::read, each)
    }

    /// Passes every receive to `each`; none where received bytes were not followed.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn receives(&self, each: impl FnMut(Receive)) -> Result<(), Error> {
        optional(self.table("receives", receives::COLUMNS, receives::read, each))
    }

    /// Passes every request to `each`; none where requests were not asked for.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn requests(&self, each: impl FnMut(Request)) -> Result<(), Error> {
        optional(self.table("requests", requests::COLUMNS, requests::read, each))
    }

    /// Passes every packet of TCP to `each`; none where packets were not asked for.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn packets(&self, each: impl FnMut(Packet)) -> Result<(), Error> {
        optional(self.table("packets", packets::COLUMNS, packets::read, each))
    }

    /// Passes every datagram of UDP to `each`; none where UDP was not asked for.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn datagrams(&self, each: impl FnMut(Datagram)) -> Result<(), Error> {
        optional(self.table("datagrams", datagrams::COLUMNS, datagrams::read, each))
    }

    /// Passes the totals of every connection that was followed to its end, or to the run's.
    ///
    /// # Errors
    /// As [`Run::connections`].
    pub fn totals(&self, each: impl FnMut(ClosedConnection)) -> Result<(), Error> {
        self.table("totals", totals::COLUMNS, totals::read, each)
    }

    fn table<T>(
        &self,
        name: &str,
        columns: &'static [Column<T>],
        read: fn(Row<'_>) -> Result<T, Bad>,
        each: impl FnMut(T),
    ) -> Result<(), Error> {
        row::table(&self.path, name, columns, read, each)
    }
}

/// A table that an earlier version did not write has no rows.
fn optional(read: Result<(), Error>) -> Result<(), Error> {
    match read {
        Err(Error::NoTable { .. }) => Ok(()),
        read => read,
    }
}
