//! The tables of a study: `trials`, `factors`, `series`, `pings` and `comparisons`.
//!
//! [`Writer`] adds trials as they finish and closes the parts by age, so that a crash leaves all but the newest readable;
//! those are in the study's own journal, from which the tables are written anew where it goes on. What is concluded from
//! all trials is written as a whole.

use std::collections::BTreeMap;
use std::path::Path;

use record::Nanos;

use crate::column::{Cell, Column, Kind};
use crate::part::{Failed, Table, due, write_whole};
use crate::row::{self, Bad, Row};
use crate::{Error, RunKind, run_file};

/// One trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// Its number in the order of the run, from 0.
    pub trial: u64,
    /// Which plan of the study, by name.
    pub plan: String,
    /// Its block, from 0.
    pub block: u64,
    /// Its place in the block's order, from 0.
    pub position: u64,
    /// When it began, `CLOCK_REALTIME`.
    pub started_ns: u64,
    /// How long it took, all in.
    pub took_ns: u64,
    /// Why it counts nowhere; `None` where it counts.
    pub broken: Option<String>,
    /// Frames looked at.
    pub frames: u64,
    /// Frames that were not seen because they were not read in time.
    pub frames_dropped: u64,
    /// What was measured, by the name of its column (see [`RESPONSES`]).
    pub responses: BTreeMap<String, f64>,
}

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
    pub at_ns: u64,
    /// Goodput of the interval that ends here: from client to server, or the other way where the server alone sends.
    pub goodput_bits_per_second: f64,
    /// From server to client, where both send.
    pub goodput_down_bits_per_second: Option<f64>,
    /// Smoothed round trip at its end.
    pub srtt_ns: u64,
    /// Congestion window at its end.
    pub cwnd_bytes: u64,
    /// The window that the receiver offers.
    pub receive_window_bytes: u64,
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
    pub at_ns: u64,
    /// Until the answer; `None` where none came.
    pub round_trip_ns: Option<u64>,
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
    /// Student's p among all comparisons of the study (Holm).
    pub p: f64,
    /// What first principles say.
    pub ratio_predicted: Option<f64>,
    /// The smallest that the run could have seen.
    pub ratio_smallest_seen: f64,
}

/// The columns of `trials` that hold what was measured: the name of the response, and of its column.
pub const RESPONSES: [(&str, &str); 18] = [
    ("goodput", "goodput_bits_per_second"),
    ("goodput_down", "goodput_down_bits_per_second"),
    ("transactions", "transactions_per_second"),
    ("latency_p50", "latency_p50_ns"),
    ("latency_p99", "latency_p99_ns"),
    ("round_trip", "round_trip_ns"),
    ("min_round_trip", "min_round_trip_ns"),
    ("queueing", "queueing_ns"),
    ("retransmitted", "retransmitted_segments"),
    ("fairness", "fairness_share"),
    ("rival_share", "rival_share"),
    ("receive_window", "receive_window_bytes"),
    ("receive_space", "receive_space_bytes"),
    ("receive_buffer", "receive_buffer_bytes"),
    ("receive_used", "receive_used_bytes"),
    ("send_buffer", "send_buffer_bytes"),
    ("rtt_deviation", "rtt_deviation_ns"),
    ("cpu_per_gigabyte", "cpu_seconds_per_gigabyte"),
];

fn measured(trial: &Trial, name: &str) -> Cell<'static> {
    trial.responses.get(name).copied().into()
}

fn number(value: u64) -> Cell<'static> {
    Cell::Number(value)
}

pub(crate) const TRIALS: &[Column<Trial>] = &[
    Column::new("trial", Kind::Int, |t| number(t.trial)),
    Column::new("plan", Kind::Text, |t| t.plan.as_str().into()),
    Column::new("block", Kind::Int, |t| number(t.block)),
    Column::new("position", Kind::Int, |t| number(t.position)),
    Column::new("started_ns", Kind::Time, |t| number(t.started_ns)),
    Column::new("took_ns", Kind::Time, |t| number(t.took_ns)),
    Column::or_null("broken", Kind::Text, |t| t.broken.as_deref().map_or(Cell::Null, Cell::from)),
    Column::new("frames", Kind::Int, |t| number(t.frames)),
    Column::new("frames_dropped", Kind::Int, |t| number(t.frames_dropped)),
    Column::or_null(RESPONSES[0].1, Kind::Real, |t| measured(t, RESPONSES[0].0)),
    Column::or_null(RESPONSES[1].1, Kind::Real, |t| measured(t, RESPONSES[1].0)),
    Column::or_null(RESPONSES[2].1, Kind::Real, |t| measured(t, RESPONSES[2].0)),
    Column::or_null(RESPONSES[3].1, Kind::Real, |t| measured(t, RESPONSES[3].0)),
    Column::or_null(RESPONSES[4].1, Kind::Real, |t| measured(t, RESPONSES[4].0)),
    Column::or_null(RESPONSES[5].1, Kind::Real, |t| measured(t, RESPONSES[5].0)),
    Column::or_null(RESPONSES[6].1, Kind::Real, |t| measured(t, RESPONSES[6].0)),
    Column::or_null(RESPONSES[7].1, Kind::Real, |t| measured(t, RESPONSES[7].0)),
    Column::or_null(RESPONSES[8].1, Kind::Real, |t| measured(t, RESPONSES[8].0)),
    Column::or_null(RESPONSES[9].1, Kind::Real, |t| measured(t, RESPONSES[9].0)),
    Column::or_null(RESPONSES[10].1, Kind::Real, |t| measured(t, RESPONSES[10].0)),
    Column::or_null(RESPONSES[11].1, Kind::Real, |t| measured(t, RESPONSES[11].0)),
    Column::or_null(RESPONSES[12].1, Kind::Real, |t| measured(t, RESPONSES[12].0)),
    Column::or_null(RESPONSES[13].1, Kind::Real, |t| measured(t, RESPONSES[13].0)),
    Column::or_null(RESPONSES[14].1, Kind::Real, |t| measured(t, RESPONSES[14].0)),
    Column::or_null(RESPONSES[15].1, Kind::Real, |t| measured(t, RESPONSES[15].0)),
    Column::or_null(RESPONSES[16].1, Kind::Real, |t| measured(t, RESPONSES[16].0)),
    Column::or_null(RESPONSES[17].1, Kind::Real, |t| measured(t, RESPONSES[17].0)),
];

pub(crate) const FACTORS: &[Column<Factor>] = &[
    Column::new("trial", Kind::Int, |f| number(f.trial)),
    Column::new("factor", Kind::Text, |f| f.factor.as_str().into()),
    Column::new("level", Kind::Text, |f| f.level.as_str().into()),
];

pub(crate) const SERIES: &[Column<Point>] = &[
    Column::new("trial", Kind::Int, |p| number(p.trial)),
    Column::new("at_ns", Kind::Time, |p| number(p.at_ns)),
    Column::new("goodput_bits_per_second", Kind::Real, |p| Cell::Real(p.goodput_bits_per_second)),
    Column::or_null("goodput_down_bits_per_second", Kind::Real, |p| p.goodput_down_bits_per_second.into()),
    Column::new("srtt_ns", Kind::Time, |p| number(p.srtt_ns)),
    Column::new("cwnd_bytes", Kind::Int, |p| number(p.cwnd_bytes)),
    Column::new("receive_window_bytes", Kind::Int, |p| number(p.receive_window_bytes)),
    Column::or_null("receive_used_bytes", Kind::Int, |p| p.receive_used_bytes.map_or(Cell::Null, number)),
    Column::or_null("receive_buffer_bytes", Kind::Int, |p| p.receive_buffer_bytes.map_or(Cell::Null, number)),
    Column::new("warm_up", Kind::Int, |p| number(p.warm_up.into())),
];

pub(crate) const PINGS: &[Column<Ping>] = &[
    Column::new("trial", Kind::Int, |p| number(p.trial)),
    Column::new("probe", Kind::Text, |p| p.probe.as_str().into()),
    Column::new("at_ns", Kind::Time, |p| number(p.at_ns)),
    Column::or_null("round_trip_ns", Kind::Time, |p| p.round_trip_ns.map_or(Cell::Null, number)),
];

pub(crate) const COMPARISONS: &[Column<Comparison>] = &[
    Column::new("what", Kind::Text, |c| c.what.as_str().into()),
    Column::new("response", Kind::Text, |c| c.response.as_str().into()),
    Column::new("ratio", Kind::Real, |c| Cell::Real(c.ratio)),
    Column::new("ratio_low", Kind::Real, |c| Cell::Real(c.ratio_low)),
    Column::new("ratio_high", Kind::Real, |c| Cell::Real(c.ratio_high)),
    Column::new("blocks", Kind::Int, |c| number(c.blocks)),
    Column::new("p", Kind::Real, |c| Cell::Real(c.p)),
    Column::or_null("ratio_predicted", Kind::Real, |c| c.ratio_predicted.into()),
    Column::new("ratio_smallest_seen", Kind::Real, |c| Cell::Real(c.ratio_smallest_seen)),
];

fn real(row: Row<'_>, column: &str) -> Result<f64, Bad> {
    row.real_or_null(column)?.ok_or_else(|| row.bad(column, "is null"))
}

fn read_trial(row: Row<'_>) -> Result<Trial, Bad> {
    let mut responses = BTreeMap::new();
    for (name, column) in RESPONSES {
        if let Some(value) = row.real_or_null(column)? {
            responses.insert(name.to_owned(), value);
        }
    }
    Ok(Trial {
        trial: row.number("trial")?,
        plan: row.owned("plan")?,
        block: row.number("block")?,
        position: row.number("position")?,
        started_ns: row.number("started_ns")?,
        took_ns: row.number("took_ns")?,
        broken: row.text_or_null("broken")?.map(str::to_owned),
        frames: row.number("frames")?,
        frames_dropped: row.number("frames_dropped")?,
        responses,
    })
}

fn read_factor(row: Row<'_>) -> Result<Factor, Bad> {
    Ok(Factor { trial: row.number("trial")?, factor: row.owned("factor")?, level: row.owned("level")? })
}

fn read_point(row: Row<'_>) -> Result<Point, Bad> {
    Ok(Point {
        trial: row.number("trial")?,
        at_ns: row.number("at_ns")?,
        goodput_bits_per_second: real(row, "goodput_bits_per_second")?,
        goodput_down_bits_per_second: row.real_or_null("goodput_down_bits_per_second")?,
        srtt_ns: row.number("srtt_ns")?,
        cwnd_bytes: row.number("cwnd_bytes")?,
        receive_window_bytes: row.number("receive_window_bytes")?,
        receive_used_bytes: row.number_or_null("receive_used_bytes")?,
        receive_buffer_bytes: row.number_or_null("receive_buffer_bytes")?,
        warm_up: row.number("warm_up")? > 0,
    })
}

fn read_ping(row: Row<'_>) -> Result<Ping, Bad> {
    Ok(Ping {
        trial: row.number("trial")?,
        probe: row.owned("probe")?,
        at_ns: row.number("at_ns")?,
        round_trip_ns: row.number_or_null("round_trip_ns")?,
    })
}

fn read_comparison(row: Row<'_>) -> Result<Comparison, Bad> {
    Ok(Comparison {
        what: row.owned("what")?,
        response: row.owned("response")?,
        ratio: real(row, "ratio")?,
        ratio_low: real(row, "ratio_low")?,
        ratio_high: real(row, "ratio_high")?,
        blocks: row.number("blocks")?,
        p: real(row, "p")?,
        ratio_predicted: row.real_or_null("ratio_predicted")?,
        ratio_smallest_seen: real(row, "ratio_smallest_seen")?,
    })
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
    trials: Table<Trial>,
    factors: Table<Factor>,
    series: Table<Point>,
    pings: Table<Ping>,
    start: Nanos,
    closed: Nanos,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins the tables in a run directory, in place of any that are there. `now` is any clock that only goes forward, the
    /// same for every call.
    ///
    /// # Errors
    /// [`Error::Keep`].
    pub fn open(run: &Path, now: Nanos) -> Result<Self, Error> {
        Ok(Self {
            trials: Table::open(run, "trials", TRIALS)?,
            factors: Table::open(run, "factors", FACTORS)?,
            series: Table::open(run, "series", SERIES)?,
            pings: Table::open(run, "pings", PINGS)?,
            start: now,
            closed: now,
        })
    }

    /// Adds a trial that has finished; closes the parts where they are ten seconds old, or a hundredth of a long run.
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

    /// Closes the parts: all that was added is readable then. Trials come last, so that a trial of a finished part has its
    /// levels and series in one too.
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
    Ok(write_whole(run, "comparisons", COMPARISONS, comparisons)?)
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
        row::table(run, "trials", TRIALS, read_trial, |t| tables.trials.push(t))?;
        row::table(run, "factors", FACTORS, read_factor, |f| tables.factors.push(f))?;
        row::table(run, "series", SERIES, read_point, |p| tables.series.push(p))?;
        // Not there before probes had a table, nor before anything was concluded.
        optional(row::table(run, "pings", PINGS, read_ping, |p| tables.pings.push(p)))?;
        optional(row::table(run, "comparisons", COMPARISONS, read_comparison, |c| tables.comparisons.push(c)))?;
        Ok(tables)
    }
}

fn optional(read: Result<(), Error>) -> Result<(), Error> {
    match read {
        Err(Error::NoTable { .. }) => Ok(()),
        read => read,
    }
}
