//! Reads the run of a trace.

use std::path::{Path, PathBuf};

use record::{ClosedConnection, Coverage, Event, Lost, Provenance};

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
    /// [`Error::NotARun`], [`Error::Read`], [`Error::Truncated`], [`Error::Malformed`], or
    /// [`Error::Unsupported`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = run_file::read(path, RunKind::Trace)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Where it comes from.
    pub fn provenance(&self) -> &Provenance {
        &self.file.provenance
    }

    /// What the path of the lab reported that the traced program lived in, with the lab's name in
    /// `lab`; `None` where no traced process was seen in a lab that has a name.
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

    /// Passes the totals of every connection that was followed to its end, or to the run's.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Truncated`], [`Error::Malformed`], [`Error::Unsupported`].
    pub fn totals(&self, each: impl FnMut(ClosedConnection)) -> Result<(), Error> {
        row::table(&self.path, each)
    }
}

macro_rules! tables {
    ([] $($(#[$doc:meta])* $table:ident: $variant:ident($holds:ty) of $record:ident, $presence:ident, $place:ident, $times:ident;)*) => {
        /// A table of one kind of record for each method: rows come in the order in which they were
        /// finished, one row group in memory at a time. A table that an earlier version did not
        /// write has no rows.
        impl Run {
            $(
                #[doc = concat!("Passes every [`record::", stringify!($record), "`] to `each`.")]
                ///
                /// # Errors
                /// [`Error::Read`], [`Error::Truncated`], [`Error::Malformed`],
                /// [`Error::Unsupported`].
                pub fn $table(&self, each: impl FnMut(record::$record)) -> Result<(), Error> {
                    tables!(@$presence row::table(&self.path, each))
                }
            )*

            /// Passes the records of every kind to `each` as events: those of one table after those
            /// of another, connections first. After each table, `read` gets what came of it, and
            /// how many rows there were.
            ///
            /// # Errors
            /// What `read` gives: the tables that follow are not read then.
            pub fn records<E>(
                &self,
                each: &mut dyn FnMut(Event),
                read: &mut dyn FnMut(Result<(), Error>) -> Result<(), E>,
            ) -> Result<Rows, E> {
                let mut rows = Rows::default();
                $(
                    let result = self.$table(|record| {
                        rows.$table += 1;
                        each(record.into());
                    });
                    read(result)?;
                )*
                let result = self.totals(|of| {
                    rows.totals += 1;
                    each(Event::Closed { connection: of.connection, totals: of.totals });
                });
                read(result)?;
                Ok(rows)
            }
        }
    };
    (@always $read:expr) => { $read };
    (@later $read:expr) => { optional($read) };
}

record::kinds!([tables]);

/// A table that an earlier version did not write has no rows.
fn optional(read: Result<(), Error>) -> Result<(), Error> {
    match read {
        Err(Error::NoTable { .. }) => Ok(()),
        read => read,
    }
}
