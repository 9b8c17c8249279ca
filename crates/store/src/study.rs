//! The tables of a study: `trials`, `factors`, `series` and `comparisons`.
//!
//! They are written as wholes whenever a study ends or is interrupted; until then, and after a crash, what was measured is
//! in the study's own journal, from which they are made.

use std::collections::BTreeMap;
use std::path::Path;

use crate::column::{Cell, Column, Kind};
use crate::part::write_whole;
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
    /// Goodput of the interval that ends here.
    pub goodput_bits_per_second: f64,
    /// Smoothed round trip at its end.
    pub srtt_ns: u64,
    /// Congestion window at its end.
    pub cwnd_bytes: u64,
    /// The window that the receiver offers.
    pub receive_window_bytes: u64,
    /// Part of the warm-up.
    pub warm_up: bool,
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
pub const RESPONSES: [(&str, &str); 13] = [
    ("goodput", "goodput_bits_per_second"),
    ("transactions", "transactions_per_second"),
    ("latency_p50", "latency_p50_ns"),
    ("latency_p99", "latency_p99_ns"),
    ("round_trip", "round_trip_ns"),
    ("queueing", "queueing_ns"),
    ("retransmitted", "retransmitted_segments"),
    ("fairness", "fairness_share"),
    ("rival_share", "rival_share"),
    ("receive_window", "receive_window_bytes"),
    ("receive_buffer", "receive_buffer_bytes"),
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
    Column::new("srtt_ns", Kind::Time, |p| number(p.srtt_ns)),
    Column::new("cwnd_bytes", Kind::Int, |p| number(p.cwnd_bytes)),
    Column::new("receive_window_bytes", Kind::Int, |p| number(p.receive_window_bytes)),
    Column::new("warm_up", Kind::Int, |p| number(p.warm_up.into())),
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
        srtt_ns: row.number("srtt_ns")?,
        cwnd_bytes: row.number("cwnd_bytes")?,
        receive_window_bytes: row.number("receive_window_bytes")?,
        warm_up: row.number("warm_up")? > 0,
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

/// All tables of a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// Its trials.
    pub trials: Vec<Trial>,
    /// The levels that they had.
    pub factors: Vec<Factor>,
    /// What was measured over time.
    pub series: Vec<Point>,
    /// What the conclusion compares.
    pub comparisons: Vec<Comparison>,
}

impl Tables {
    /// Writes them into the run directory, in place of what an earlier call wrote there.
    ///
    /// # Errors
    /// [`Error::Keep`]; tables written before it stay whole.
    pub fn write(&self, run: &Path) -> Result<(), Error> {
        write_whole(run, "trials", TRIALS, &self.trials)?;
        write_whole(run, "factors", FACTORS, &self.factors)?;
        write_whole(run, "series", SERIES, &self.series)?;
        Ok(write_whole(run, "comparisons", COMPARISONS, &self.comparisons)?)
    }

    /// Reads them back.
    ///
    /// # Errors
    /// [`Error::NoTable`] where the study was killed before it wrote them, and those of [`crate::Run::sends`].
    pub fn read(run: &Path) -> Result<Self, Error> {
        run_file::read::<serde_json::Value>(run, RunKind::Study)?;
        let mut tables = Self::default();
        row::table(run, "trials", TRIALS, read_trial, |t| tables.trials.push(t))?;
        row::table(run, "factors", FACTORS, read_factor, |f| tables.factors.push(f))?;
        row::table(run, "series", SERIES, read_point, |p| tables.series.push(p))?;
        row::table(run, "comparisons", COMPARISONS, read_comparison, |c| tables.comparisons.push(c))?;
        Ok(tables)
    }
}
