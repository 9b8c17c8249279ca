//! The tables of a study: `trials`, `factors`, `series`, `pings` and `comparisons`.
//!
//! [`Writer`] adds trials as they finish and closes the parts by age, so that a crash leaves all
//! but the newest readable; those are in the study's own journal, from which the tables are written
//! anew where it goes on. What is concluded from all trials is written as a whole.

use std::path::Path;

use record::trial::Trial;
use record::{Nanos, columns};

use crate::part::{Failed, Parts, due, write_whole};
use crate::row;
use crate::{Error, RunKind, run_file};

/// The level that one factor had in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Factor {
    /// The trial's number.
    pub trial: u64,
    /// The factor's name.
    pub factor: String,
    /// Its level, as the plan writes it.
    pub level: String,
}

/// A point of a trial's series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// The trial's number.
    pub trial: u64,
    /// Since the transfer began.
    pub at_ns: Nanos,
    /// Goodput of the interval that ends here: from client to server, or the other way where the
    /// server alone sends.
    pub goodput_bits_per_second: f64,
    /// From server to client, where both send.
    pub goodput_down_bits_per_second: Option<f64>,
    /// Smoothed round trip at its end.
    pub srtt_ns: Nanos,
    /// Congestion window at its end.
    pub cwnd_bytes: u64,
    /// The largest window that the receiver offered in the interval.
    pub receive_window_bytes: Option<u64>,
    /// Memory of packets that the receiver has not read (`skmem` r).
    pub receive_used_bytes: Option<u64>,
    /// The most of that at present (`skmem` rb).
    pub receive_buffer_bytes: Option<u64>,
    /// Part of the warm-up.
    pub warm_up: bool,
}

/// One probe beside the streams of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// The trial's number.
    pub trial: u64,
    /// `tcp`, `udp` or `icmp`.
    pub probe: String,
    /// When it was meant to be sent, on the axis of the series.
    pub at_ns: Nanos,
    /// Until the answer; `None` where none came.
    pub round_trip_ns: Option<Nanos>,
}

/// One comparison of the conclusion. Ratios are less 1: 0.01 is 1 % more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// In words: what against what.
    pub what: String,
    /// Which response.
    pub response: String,
    /// Geometric mean of the ratios within blocks.
    pub ratio: f64,
    /// Lower end of its interval.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
    /// Blocks.
    pub blocks: u64,
    /// The p that belongs to that interval, among all comparisons of the study.
    pub p: f64,
    /// What first principles say.
    pub ratio_predicted: Option<f64>,
    /// The smallest that the run could have seen.
    pub ratio_smallest_seen: f64,
}

columns! {
    Factor: "factors", "", blank = Factor::default();
    trial = trial, "the trial";
    factor = factor, "its name, as in the plan";
    level = level, "its level, as in the plan";
}

columns! {
    Point: "series", "", blank = Point::default();
    trial = trial, "the trial";
    at_ns = at_ns, "end of the interval, since the transfer began";
    goodput_bits_per_second = goodput_bits_per_second, "received in the interval, from client to server; the other way where the server alone sends";
    goodput_down_bits_per_second = goodput_down_bits_per_second, null "only one end sends", "from server to client, where both send";
    srtt_ns = srtt_ns, "smoothed round trip at its end";
    cwnd_bytes = cwnd_bytes, "congestion window at its end";
    receive_window_bytes = receive_window_bytes, null "none of its ACKs was looked at", "the largest window that the receiver offered in the interval, by the packets";
    receive_used_bytes = receive_used_bytes, null "the kernel did not say", "memory of packets that the receiver has not read (`skmem` r)";
    receive_buffer_bytes = receive_buffer_bytes, null "the kernel did not say", "the most of that at present (`skmem` rb)";
    warm_up = warm_up, "1 where it is part of the warm-up, which does not count";
}

columns! {
    Ping: "pings", "", blank = Ping::default();
    trial = trial, "the trial";
    probe = probe, "`icmp`, `udp` or `tcp`";
    at_ns = at_ns, "when it was meant to be sent, on the axis of `series`";
    round_trip_ns = round_trip_ns, null "no answer came", "until the answer";
}

columns! {
    Comparison: "comparisons", "", blank = Comparison::default();
    what = what, "what against what, in words";
    response = response, "which response";
    ratio = ratio, "geometric mean of the ratios within the blocks, less 1: 0.01 is 1 % more";
    ratio_low = ratio_low, "lower end of its 95 % interval";
    ratio_high = ratio_high, "upper end";
    blocks = blocks, "n";
    p = p, "of the interval beside it: at most 0.05 exactly where that leaves zero out; all comparisons of the study are judged together";
    ratio_predicted = ratio_predicted, null "first principles say nothing of it", "what first principles say";
    ratio_smallest_seen = ratio_smallest_seen, "the smallest that this run sees four times in five";
}

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
