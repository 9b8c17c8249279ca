//! The tables of a study: `trials`, `factors`, `series`, `pings` and `comparisons`.
//!
//! [`Writer`] adds trials as they finish and closes the parts by age, so that a crash leaves all
//! but the newest readable; those are in the study's own journal, from which the tables are written
//! anew where it goes on. What is concluded from all trials is written as a whole.

use std::path::Path;

use record::Nanos;
use record::trial::{Comparison, Factor, Ping, Point, Trial};

use crate::part::{Failed, Parts, due, write_whole};
use crate::row;
use crate::{Error, RunKind, run_file};

/// One trial with its rows of every table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The trial.
    pub trial: Trial,
    /// The levels that it had.
    pub factors: Vec<Factor>,
    /// What was measured over time.
    pub series: Vec<Point>,
    /// Its probes.
    pub pings: Vec<Ping>,
}

/// The tables of a study that goes on.
pub struct Writer {
    trials: Parts<Trial>,
    factors: Parts<Factor>,
    series: Parts<Point>,
    pings: Parts<Ping>,
    start: Nanos,
    closed: Nanos,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins the tables in a run directory, in place of any that are there. `now` is any clock
    /// that only goes forward, the same for every call.
    ///
    /// # Errors
    /// [`Error::Keep`].
    pub fn open(run: &Path, now: Nanos) -> Result<Self, Error> {
        Ok(Self {
            trials: Parts::open(run)?,
            factors: Parts::open(run)?,
            series: Parts::open(run)?,
            pings: Parts::open(run)?,
            start: now,
            closed: now,
        })
    }

    /// Adds a trial that has finished; closes the parts where they are ten seconds old, or a
    /// hundredth of a long run.
    ///
    /// # Errors
    /// [`Error::Keep`]; parts closed before stay whole.
    pub fn add(&mut self, rows: &Rows, now: Nanos) -> Result<(), Error> {
        rows.factors.iter().try_for_each(|row| self.factors.push(row))?;
        rows.series.iter().try_for_each(|row| self.series.push(row))?;
        rows.pings.iter().try_for_each(|row| self.pings.push(row))?;
        self.trials.push(&rows.trial)?;
        if due(self.start, self.closed, now) {
            self.closed = now;
            self.close()?;
        }
        Ok(())
    }

    /// Closes the parts: all that was added is readable then. Trials come last, so that a trial of
    /// a finished part has its levels and series in one too.
    ///
    /// # Errors
    /// As [`Writer::add`].
    pub fn close(&mut self) -> Result<(), Error> {
        let mut close = || -> Result<(), Failed> {
            self.factors.close_part()?;
            self.series.close_part()?;
            self.pings.close_part()?;
            self.trials.close_part()
        };
        Ok(close()?)
    }
}

/// Writes what the conclusion compares, in place of what an earlier call wrote.
///
/// # Errors
/// [`Error::Keep`].
pub fn write_comparisons(run: &Path, comparisons: &[Comparison]) -> Result<(), Error> {
    Ok(write_whole(run, comparisons)?)
}

/// All tables of a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// Its trials.
    pub trials: Vec<Trial>,
    /// The levels that they had.
    pub factors: Vec<Factor>,
    /// What was measured over time.
    pub series: Vec<Point>,
    /// Its probes.
    pub pings: Vec<Ping>,
    /// What the conclusion compares.
    pub comparisons: Vec<Comparison>,
}

impl Tables {
    /// Reads them: of a study that is under way or was killed, what is finished.
    ///
    /// # Errors
    /// [`Error::NoTable`] where there are none, and those of [`crate::Run::sends`].
    pub fn read(run: &Path) -> Result<Self, Error> {
        run_file::read::<serde_json::Value>(run, RunKind::Study)?;
        let mut tables = Self::default();
        row::table(run, |t| tables.trials.push(t))?;
        row::table(run, |f| tables.factors.push(f))?;
        row::table(run, |p| tables.series.push(p))?;
        // Not there before probes had a table, nor before anything was concluded.
        optional(row::table(run, |p| tables.pings.push(p)))?;
        optional(row::table(run, |c| tables.comparisons.push(c)))?;
        Ok(tables)
    }
}

fn optional(read: Result<(), Error>) -> Result<(), Error> {
    match read {
        Err(Error::NoTable { .. }) => Ok(()),
        read => read,
    }
}
