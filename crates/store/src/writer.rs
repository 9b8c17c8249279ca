//! Writes a run directory while a trace goes on.

use std::path::{Path, PathBuf};

use quantity::counted;
use record::{ClosedConnection, Coverage, End, Event, Instant, Lost, Monotonic, Nanos, Provenance, Sink, SinkError};

use crate::part::{Failed, Parts, due};
use crate::provenance::{Rows, RunFile, State};
use crate::run_file::RunKind;
use crate::{Error, HistogramRow, SCHEMA, run_file};

/// A run directory that is being written.
///
/// After an error the writer has nothing half-written and may be dropped; finished parts stay.
pub struct Writer {
    path: PathBuf,
    provenance: Provenance,
    lab_path: Option<serde_json::Value>,
    records: Records,
    totals: Parts<ClosedConnection>,
    /// Only an agent has them.
    histograms: Option<Parts<HistogramRow>>,
    start: Nanos,
    closed: Nanos,
}

impl Writer {
    /// Makes the directory and writes `run.json` with the state `unfinished`.
    ///
    /// # Errors
    /// [`Error::Exists`] where something of that name exists; [`Error::Create`] where it cannot be
    /// made or written into.
    pub fn create(path: &Path, provenance: Provenance) -> Result<Self, Error> {
        run_file::begin(path, || Self::begun(path, provenance))
    }

    fn begun(path: &Path, provenance: Provenance) -> Result<Self, Error> {
        let failed = |f: Failed| Error::Create { path: f.path, why: f.source };
        let start = Nanos(provenance.start_ns);
        let writer = Self {
            records: Records::create(path).map_err(failed)?,
            totals: Parts::create(path).map_err(failed)?,
            histograms: None,
            path: path.to_owned(),
            provenance,
            lab_path: None,
            start,
            closed: start,
        };
        writer
            .write_run_file(&RunFile {
                schema: SCHEMA,
                kind: RunKind::Trace,
                state: State::Unfinished,
                provenance: writer.provenance.clone(),
                path: None,
                end_ns: None,
                rows: None,
                lost: None,
                coverage: None,
            })
            .map_err(failed)?;
        Ok(writer)
    }

    /// Sets what the path of a lab reports, known at the end: `run.json` has it from
    /// [`Self::finish`] on.
    pub fn set_lab_path(&mut self, path: Option<serde_json::Value>) {
        self.lab_path = path;
    }

    /// Adds what a tracer reported.
    ///
    /// # Errors
    /// [`Error::Write`]: what was finished before stays readable.
    pub fn event(&mut self, event: &Event) -> Result<(), Error> {
        match event {
            Event::Closed { connection, totals } => {
                self.totals.push(&ClosedConnection { connection: *connection, totals: *totals })
            }
            event => self.records.push(event),
        }
        .map_err(|f| self.failed(f))
    }

    /// Adds a bucket of a histogram.
    ///
    /// # Errors
    /// As [`Writer::event`].
    pub(crate) fn histogram(&mut self, row: &HistogramRow) -> Result<(), Error> {
        if self.histograms.is_none() {
            self.histograms = Some(Parts::create(&self.path).map_err(|f| self.failed(f))?);
        }
        let pushed = self.histograms.as_mut().map_or(Ok(()), |table| table.push(row));
        pushed.map_err(|f| self.failed(f))
    }

    /// The table of histograms was written anew, with so many rows.
    pub(crate) fn joined(&mut self, rows: u64) {
        if let Some(histograms) = &mut self.histograms {
            histograms.finished = rows;
        }
    }

    /// Closes the parts whatever their age.
    ///
    /// # Errors
    /// As [`Writer::event`].
    pub(crate) fn close(&mut self) -> Result<Rows, Error> {
        self.close_parts().map_err(|f| self.failed(f))?;
        Ok(self.rows())
    }

    /// To be called now and then with the time: closes the parts when they are old enough, so that
    /// a crash loses at most ten seconds, or the last hundredth of a long run.
    ///
    /// # Errors
    /// As [`Writer::event`].
    pub fn tick(&mut self, now: Instant<Monotonic>) -> Result<(), Error> {
        let now = Nanos(now.as_nanos());
        if !due(self.start, self.closed, now) {
            return Ok(());
        }
        self.closed = now;
        self.close_parts().map_err(|f| self.failed(f))
    }

    /// Connections first: a send in a finished part then has its connection in one too.
    fn close_parts(&mut self) -> Result<(), Failed> {
        self.records.close_part()?;
        self.histograms.as_mut().map_or(Ok(()), Parts::close_part)?;
        self.totals.close_part()
    }

    /// Closes the last parts and writes `run.json` with the state `finished`.
    ///
    /// # Errors
    /// As [`Writer::event`].
    pub fn finish(mut self, end: Instant<Monotonic>, lost: Lost, coverage: Coverage) -> Result<Rows, Error> {
        let rows = self.close()?;
        self.write_run_file(&RunFile {
            schema: SCHEMA,
            kind: RunKind::Trace,
            state: State::Finished,
            provenance: self.provenance.clone(),
            path: self.lab_path.clone(),
            end_ns: Some(end.as_nanos()),
            rows: Some(rows),
            lost: Some(lost),
            coverage: Some(coverage),
        })
        .map_err(|f| self.failed(f))?;
        Ok(rows)
    }

    /// Rows in finished parts.
    fn rows(&self) -> Rows {
        Rows {
            histograms: self.histograms.as_ref().map_or(0, |table| table.finished),
            totals: self.totals.finished,
            ..self.records.rows()
        }
    }

    fn failed(&self, failed: Failed) -> Error {
        Error::Write { path: failed.path, run: self.path.clone(), rows: self.rows().sends, why: failed.source }
    }

    fn write_run_file(&self, run: &RunFile) -> Result<(), Failed> {
        run_file::put(&self.path, run)
    }
}

macro_rules! records {
    ([] $($(#[$doc:meta])* $table:ident: $variant:ident($holds:ty) of $record:ident, $presence:ident, $place:ident, $times:ident;)*) => {
        /// A table for each kind of record.
        struct Records {
            $($table: Parts<record::$record>,)*
        }

        impl Records {
            fn create(run: &Path) -> Result<Self, Failed> {
                Ok(Self { $($table: Parts::create(run)?,)* })
            }

            fn push(&mut self, event: &Event) -> Result<(), Failed> {
                match event {
                    $(Event::$variant(record) => self.$table.push(record),)*
                    // Not kept: the record of a connection is its `Connect`.
                    Event::SetUp(_)
                    | Event::Head(_)
                    | Event::Exchange(_)
                    | Event::CopyDropped(_)
                    | Event::Closed { .. } => Ok(()),
                }
            }

            fn close_part(&mut self) -> Result<(), Failed> {
                $(self.$table.close_part()?;)*
                Ok(())
            }

            /// Rows in finished parts.
            fn rows(&self) -> Rows {
                Rows { $($table: self.$table.finished,)* ..Rows::default() }
            }
        }
    };
}

record::kinds!([records]);

impl Sink for Writer {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.event(event).map_err(failed)
    }

    fn tick(&mut self, now: Instant<Monotonic>) -> Result<(), SinkError> {
        self.tick(now).map_err(failed)
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> Result<Option<String>, SinkError> {
        self.set_lab_path(end.path.cloned());
        if let Some(fired) = &mut self.provenance.fired {
            fired.times = end.fired;
        }
        let rows = (*self).finish(end.at, *end.lost, *end.coverage).map_err(failed)?;
        let more = [
            (rows.receives, "receive"),
            (rows.requests, "request"),
            (rows.packets, "packet"),
            (rows.datagrams, "datagram"),
        ];
        let more: String =
            more.into_iter().filter(|of| of.0 > 0).map(|(n, record)| counted(n, record) + ", ").collect();
        let [sends, connections] = [counted(rows.sends, "send"), counted(rows.connections, "connection")];
        Ok(Some(format!("{sends}, {more}{connections}")))
    }
}

fn failed(why: Error) -> SinkError {
    SinkError::new("run", why)
}
