//! The tables of a study: `trials`, `factors`, `series`, `pings` and `comparisons`.
//!
//! [`Writer`] adds trials as they finish and closes the parts by age, so that a crash leaves all but the newest readable;
//! those are in the study's own journal, from which the tables are written anew where it goes on. What is concluded from
//! all trials is written as a whole.

use std::collections::BTreeMap;
use std::path::Path;

use record::table::{Cell as _, Value};
use record::{Nanos, columns};

use crate::part::{Failed, Parts, due, write_whole};
use crate::row;
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
    pub started_ns: Nanos,
    /// How long it took, all in.
    pub took_ns: Nanos,
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
    pub at_ns: Nanos,
    /// Goodput of the interval that ends here: from client to server, or the other way where the server alone sends.
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

/// What a trial can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its name in plans.
    pub name: &'static str,
    /// The unit of its values; those in `ns` are whole nanoseconds.
    pub unit: &'static str,
}

macro_rules! responses {
    ($($name:literal as $column:ident, $unit:literal: $doc:literal;)*) => {
        /// Everything that a trial can measure.
        pub const RESPONSES: [Response; [$($name),*].len()] =
            [$(Response { name: $name, unit: $unit }),*];

        columns! {
            Trial: "trials", "", blank = Trial::default();
            trial = trial, "its number in the order of the run, from 0";
            plan = plan, "which plan of the study";
            block = block, "its block, from 0";
            position = position, "its place in the block's random order, from 0";
            started_ns = started_ns, "when it began, `CLOCK_REALTIME`";
            took_ns = took_ns, "how long it took, all in";
            broken = broken, null "it counts", "why it counts nowhere";
            frames = frames, "frames looked at";
            frames_dropped = frames_dropped, "frames that were not read in time";
            $($column = |t| t.responses.get($name).copied(), set |t, v| t.measured($name, v), null "the workload does not measure it", $doc;)*
        }
    };
}

responses! {
    "goodput" as goodput_bits_per_second, "bit/s": "received by the application";
    "goodput_down" as goodput_down_bits_per_second, "bit/s": "the same from server to client, where both send";
    "transactions" as transactions_per_second, "1/s": "requests answered";
    "latency_p50" as latency_p50_ns, "ns": "of a request, from first byte sent to last byte read: the median";
    "latency_p99" as latency_p99_ns, "ns": "of a request, from first byte sent to last byte read: 99th percentile";
    "round_trip" as round_trip_ns, "ns": "TCP's smoothed round trip, median over the trial";
    "min_round_trip" as min_round_trip_ns, "ns": "the shortest round trip that the sender saw";
    "queueing" as queueing_ns, "ns": "the RTT less that of the path itself";
    "retransmitted" as retransmitted_segments, "segments": "by the sender";
    "fairness" as fairness_share, "share": "Jain's index over the flows";
    "rival_share" as rival_share, "share": "of the goodput that the other congestion control took";
    "receive_window" as receive_window_bytes, "bytes": "the largest that was offered, by the packets";
    "receive_space" as receive_space_bytes, "bytes": "what `TCP_INFO` says that the receive buffer was tuned to, at most";
    "receive_buffer" as receive_buffer_bytes, "bytes": "the largest receive buffer (`skmem` rb)";
    "receive_used" as receive_used_bytes, "bytes": "the most memory of packets in it that wait to be read (`skmem` r)";
    "send_buffer" as send_buffer_bytes, "bytes": "the largest send buffer (`skmem` tb)";
    "rtt_deviation" as rtt_deviation_ns, "ns": "TCP's mean deviation of the round trip, median";
    "cpu_per_gigabyte" as cpu_seconds_per_gigabyte, "s": "both ends";
    "datagrams_lost" as datagrams_lost_share, "share": "of the datagrams sent, those that never came";
    "one_way_p50" as one_way_p50_ns, "ns": "one-way delay of datagrams where the ends share a clock: the median";
    "one_way_p99" as one_way_p99_ns, "ns": "one-way delay of datagrams where the ends share a clock: 99th percentile";
}

impl Trial {
    fn measured(&mut self, name: &str, value: Value<'_>) -> Result<(), &'static str> {
        if let Some(value) = Option::<f64>::from_value(value)? {
            self.responses.insert(name.to_owned(), value);
        }
        Ok(())
    }
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
    /// Begins the tables in a run directory, in place of any that are there. `now` is any clock that only goes forward, the
    /// same for every call.
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
