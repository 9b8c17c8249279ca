//! `ping-under-load`: latency before, during and after bulk transfers.
//!
//! Probes (a request over TCP, a UDP datagram, an ICMP echo) go out at fixed moments all the time;
//! streams load the path in the middle part. What the probes' round trips gain under load is
//! queueing, and **responsiveness** is how many of them fit into a minute: 60 s divided by the
//! median round trip of the loaded part.

mod bounded;
mod flent;
pub(crate) mod probe;
mod reading;

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

use clock::{Instant, Monotonic, Nanos, Realtime};
use serde::{Deserialize, Serialize};
use stats::{Distribution, DurationSummary, Precision};

use crate::error::Error;
use crate::progress::{Progress, STOPPED};
use crate::stop::{Stop, attended};
use crate::stream;
use crate::target::Target;
use crate::timing;

pub use flent::Flent;
use probe::Seen;
pub use reading::{Quantity, Series, Values};

/// Latency under load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The server, and how it is reached.
    #[serde(flatten)]
    pub target: Target,
    /// Which ways are loaded.
    pub direction: stream::Direction,
    /// Streams in each of them.
    pub flows: u32,
    /// Without load, before.
    #[serde(rename = "before_ns")]
    pub before: Nanos,
    /// Under load.
    #[serde(rename = "load_ns")]
    pub load: Nanos,
    /// Without load, after.
    #[serde(rename = "after_ns")]
    pub after: Nanos,
    /// Between two probes of the same type.
    #[serde(rename = "probe_interval_ns")]
    pub probe_interval: Nanos,
    /// Width of the streams' series.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
}

impl Config {
    /// Five seconds without load, ten with four streams each way, five without; a probe of each
    /// kind every 0.1 s.
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            direction: stream::Direction::Both,
            flows: 4,
            before: Nanos::from_secs(5),
            load: Nanos::from_secs(10),
            after: Nanos::from_secs(5),
            probe_interval: Nanos::from_millis(100),
            interval: Nanos::from_millis(200),
        }
    }
}

/// A kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// A byte each way over TCP.
    Tcp,
    /// A datagram that the server sends back.
    Udp,
    /// An ICMP echo.
    Icmp,
}

record::words! {
    ProbeKind: Tcp = "tcp", Udp = "udp", Icmp = "icmp";
}

impl std::fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Round {
    /// When it was meant to be sent, since the start.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// How much later this host sent it. That is the host's lateness, in no round trip.
    #[serde(rename = "late_ns")]
    pub late: Nanos,
    /// From sending it to the arrival of the answer, by the kernel's receive stamp where there is
    /// one; absent where no answer came.
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Option<Nanos>,
}

/// One phase: before, under or after the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Probes meant for it.
    pub sent: u64,
    /// Unanswered within two seconds after the end.
    pub lost: u64,
    /// Round trips of the others.
    pub round_trip: DurationSummary,
    /// How late this host sent them: a busy CPU, not the path.
    pub lateness: DurationSummary,
    /// Round trips a minute at the median; absent without an answer.
    pub round_trips_per_minute: Option<f64>,
}

/// What the probes of one kind saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// Which kind.
    pub probe: ProbeKind,
    /// Before the load.
    pub before: Phase,
    /// Under load, from the moment at which the streams have filled the path, and its first second
    /// excluded in any case.
    pub loaded: Phase,
    /// Without load again, its first second excluded: the queues are still emptying.
    pub after: Phase,
    /// What the median gained under load; absent where it is lower than before, or one of the two
    /// is not known.
    #[serde(rename = "added_by_load_ns")]
    pub added_by_load: Option<Nanos>,
    /// Answers with an arrival that the kernel stamped; the others arrived when the program read
    /// them.
    pub stamped: u64,
    /// Every probe.
    #[serde(skip_deserializing)]
    pub rounds: Vec<Round>,
    /// Why there are none, or what ended them early.
    pub error: Option<String>,
}

/// What all of it showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// When it began, on `CLOCK_REALTIME`.
    #[serde(rename = "started_realtime_ns")]
    pub started_realtime: Instant<Realtime>,
    /// How long it took.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// When data began to flow, since the start.
    #[serde(rename = "load_started_ns")]
    pub load_started: Nanos,
    /// When the streams had filled the path, since the start: from then on what arrived did not
    /// grow any more. Absent where it was growing to the end.
    #[serde(default, rename = "filled_ns")]
    pub filled: Option<Nanos>,
    /// When the streams stopped sending, since the start.
    #[serde(rename = "load_ended_ns")]
    pub load_ended: Nanos,
    /// When what they had sent had left the path and both ends had their results, since the start.
    #[serde(default, rename = "drained_ns")]
    pub drained: Nanos,
    /// Each kind of probe.
    pub probes: Vec<Probed>,
    /// The load.
    pub stream: Option<stream::Outcome>,
    /// Why it ended before its time, where it did.
    pub interrupted: Option<String>,
}

/// Excluded at the beginning of the loaded part and of the one after it, at most a quarter of
/// either.
const SETTLING: Nanos = Nanos::from_secs(1);

/// What is excluded at the beginning of a part of that length: there the streams still grow, or the
/// queues still empty.
pub fn settling(length: Nanos) -> Nanos {
    SETTLING.min(Nanos(length.0 / 4))
}

/// When the parts of a run began, since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moments {
    load_started: Nanos,
    filled: Option<Nanos>,
    load_ended: Nanos,
    drained: Nanos,
}

impl Moments {
    /// `growing` and `emptying` are in no figure.
    fn parts(self, config: &Config) -> [(&'static str, Range<Nanos>); 5] {
        let settled = self.load_started + settling(config.load);
        let loaded = self.filled.unwrap_or_default().max(settled).min(self.load_ended);
        // Of a run that was kept without it.
        let drained = self.drained.max(self.load_ended);
        let emptied = drained + settling(config.after);
        [
            ("before", Nanos::ZERO..self.load_started),
            ("growing", self.load_started..loaded),
            ("loaded", loaded..self.load_ended),
            ("emptying", self.load_ended..emptied),
            ("after", emptied..Nanos(u64::MAX)),
        ]
    }
}

impl Outcome {
    /// The parts of the run by name, each with the moments at which its probes are meant to be
    /// sent. `growing` and `emptying` are in no figure.
    pub fn parts(&self, config: &Config) -> [(&'static str, Range<Nanos>); 5] {
        let Self { load_started, filled, load_ended, drained, .. } = *self;
        Moments { load_started, filled, load_ended, drained }.parts(config)
    }

    /// From when on the streams had filled the path, since they began to send, and their first
    /// second excluded in any case.
    pub fn loaded_from(&self, config: &Config) -> Nanos {
        let [_, _, (_, loaded), ..] = self.parts(config);
        loaded.start.saturating_sub(self.load_started)
    }
}

/// A direction counts as filled as soon as a second of it carried this share of the most that one
/// did.
const FILLED: f64 = 0.8;

/// What a direction carried in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// Its beginning.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
    /// What it carried.
    pub bits: f64,
}

/// When a direction was filled: the end of the first second, of those that end with a stretch, that
/// carried four fifths of the most that one did. `None` where that is the last second: it was
/// growing still.
pub fn filled(stretches: &[Carried]) -> Option<Nanos> {
    let last = stretches.last()?.end;
    // A short load has less than a second to look at.
    let window = settling(last.saturating_sub(stretches.first()?.start));
    let second = |i: usize| {
        let from = Nanos(stretches[i].end.0.checked_sub(window.0)?);
        let within = stretches[..=i].iter().rev().take_while(|s| s.end > from);
        let (mut start, mut bits) = (stretches[i].end, 0.0);
        for s in within {
            (start, bits) = (s.start, bits + s.bits);
        }
        let width = stretches[i].end.saturating_sub(start);
        (start.saturating_sub(from) <= Nanos(window.0 / 4) && width > Nanos::ZERO)
            .then(|| (stretches[i].end, bits / width.as_secs_f64()))
    };
    let seconds: Vec<(Nanos, f64)> = (0..stretches.len()).filter_map(second).collect();
    let most = seconds.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let (at, _) = seconds.iter().find(|(_, rate)| *rate >= FILLED * most && *rate > 0.0)?;
    (*at + window <= last).then_some(*at)
}

/// When the streams had filled the path, all loaded directions of it, since they began.
fn filled_by(samples: &[stream::Sample]) -> Option<Nanos> {
    let mut latest = None;
    for sends in [true, false] {
        let mut slots: BTreeMap<Nanos, Carried> = BTreeMap::new();
        for s in samples.iter().filter(|s| s.sends == sends && s.end > s.start) {
            let bits = s.goodput_bits_per_second() * s.end.saturating_sub(s.start).as_secs_f64();
            slots.entry(s.end).or_insert(Carried { start: s.start, end: s.end, bits: 0.0 }).bits += bits;
        }
        let stretches: Vec<Carried> = slots.into_values().collect();
        if !stretches.is_empty() {
            latest = latest.max(Some(filled(&stretches)?));
        }
    }
    latest
}

/// Probes and loads the path. `progress` is called every 100 ms, and with the streams' intervals;
/// where it breaks, all ends.
///
/// # Errors
/// As [`stream::run`]; a kind of probe that is not possible is reported in [`Probed::error`]
/// instead.
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Outcome, Error> {
    if config.load == Nanos::ZERO || config.probe_interval < Nanos::from_millis(1) {
        return Err(Error::Config("a load takes some time, and probes are at least 1 ms apart".into()));
    }
    let total = config.before + config.load + config.after;
    let asked = Stop::new()?;
    let kinds = attended(progress, &asked, || probe::open(config, total, &asked))?;
    let (stop, started_realtime, start) = (AtomicBool::new(false), timing::realtime(), timing::now());
    let (load, loaded, results, broke) = std::thread::scope(|scope| {
        let stop = &stop;
        let probing: Vec<_> = kinds
            .into_iter()
            .map(|kind| {
                let name = kind.name;
                let thread = std::thread::Builder::new().name(format!("probe-{name}"));
                (name, thread.spawn_scoped(scope, move || kind.run(start, config.probe_interval, stop)))
            })
            .collect();
        let mut broke = wait(start, start.after(config.before), progress);
        let load_started = timing::now().saturating_since(start);
        let streams = stream::Config {
            direction: config.direction,
            flows: config.flows,
            duration: config.load,
            interval: config.interval,
            ..stream::Config::new(config.target.clone())
        };
        let load = if broke { None } else { Some(stream::run_from(&streams, progress)) };
        let drained = timing::now().saturating_since(start);
        let load = load.map(|load| load.map(|(outcome, began)| (outcome, began.saturating_since(start))));
        let cut = !matches!(&load, Some(Ok((o, _))) if o.interrupted.is_none());
        if !cut {
            broke = wait(start, timing::now().after(config.after), progress);
        }
        stop.store(true, Ordering::Relaxed);
        let results: Vec<_> = probing
            .into_iter()
            .map(|(name, thread)| {
                let failed = |why: String| Seen { error: Some(why), ..Seen::default() };
                let seen = match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|_| failed("its thread panicked".into())),
                    Err(error) => failed(format!("no thread for it: {error}")),
                };
                (name, seen)
            })
            .collect();
        (load, load_started..drained, results, broke || cut)
    });
    let (load, unreached) = match load.transpose() {
        // The server went away before the load: the probes until then are measured.
        Err(error @ (Error::Connect { .. } | Error::Gone { .. })) if config.before > Nanos::ZERO => {
            (None, Some(error.to_string()))
        }
        load => (load?, None),
    };
    let elapsed = timing::now().saturating_since(start);
    let (load_started, load_ended) = match &load {
        Some((outcome, began)) => (*began, *began + outcome.elapsed),
        None => (loaded.start, loaded.end),
    };
    let stream = load.map(|(outcome, _)| outcome);
    let filled = stream.as_ref().and_then(|s| filled_by(&s.series)).map(|at| load_started + at);
    let moments = Moments { load_started, filled, load_ended, drained: loaded.end };
    let [before, _, loaded, _, after] = moments.parts(config).map(|(_, range)| range);
    let probes = results
        .into_iter()
        .map(|(name, Seen { rounds, stamped, error })| {
            let part = |range: Range<Nanos>| part(rounds.iter().filter(|r| range.contains(&r.at)));
            let (before, loaded, after) = (part(before.clone()), part(loaded.clone()), part(after.clone()));
            let both = before.round_trip.n > 0 && loaded.round_trip.n > 0;
            let added = loaded.round_trip.p50.0.checked_sub(before.round_trip.p50.0).map(Nanos);
            Probed { probe: name, added_by_load: added.filter(|_| both), before, loaded, after, stamped, rounds, error }
        })
        .collect();
    let interrupted = stream
        .as_ref()
        .and_then(|s: &stream::Outcome| s.interrupted.clone())
        .or(unreached)
        .or(broke.then(|| STOPPED.to_owned()));
    let Moments { drained, .. } = moments;
    Ok(Outcome { started_realtime, elapsed, load_started, filled, load_ended, drained, probes, stream, interrupted })
}

fn part<'a>(rounds: impl Iterator<Item = &'a Round>) -> Phase {
    let (mut sent, mut lost) = (0, 0);
    let (mut latencies, mut late) = (Distribution::new(Precision::Fine), Distribution::new(Precision::Fine));
    for round in rounds {
        sent += 1;
        late.record(round.late.0);
        match round.round_trip {
            Some(round_trip) => latencies.record(round_trip.0),
            None => lost += 1,
        }
    }
    let round_trip = DurationSummary::of(&latencies).unwrap_or_default();
    let lateness = DurationSummary::of(&late).unwrap_or_default();
    let per_minute = (round_trip.n > 0).then(|| 60e9 / round_trip.p50.0.max(1) as f64);
    Phase { sent, lost, round_trip, lateness, round_trips_per_minute: per_minute }
}

/// Waits until then; whether the caller broke it off.
fn wait(
    start: Instant<Monotonic>,
    until: Instant<Monotonic>,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> bool {
    loop {
        let now = timing::now();
        if now >= until {
            return false;
        }
        std::thread::sleep(until.saturating_since(now).min(Nanos::from_millis(100)).into());
        if progress(Progress::Tick { elapsed: timing::now().saturating_since(start) }).is_break() {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(bits: &[f64]) -> Vec<Carried> {
        let fifth = Nanos::from_millis(200);
        let all = bits.iter().flat_map(|bits| [bits / 5.0; 5]).enumerate();
        all.map(|(i, bits)| Carried { start: Nanos(i as u64 * fifth.0), end: Nanos((i as u64 + 1) * fifth.0), bits })
            .collect()
    }

    #[test]
    fn a_path_is_filled_when_what_it_carries_grows_no_more() {
        let at = |bits: &[f64]| filled(&seconds(bits)).map(Nanos::as_secs_f64);
        assert_eq!(at(&[10.0; 8]), Some(1.0));
        // Slow start over a long way, and losses where the queue was full.
        assert_eq!(at(&[1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 6.0, 10.0]), Some(4.0));
        // It doubles to the end.
        assert_eq!(at(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]), None);
        assert_eq!(at(&[0.0; 8]), None);
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn the_load_is_as_long_as_asked_and_what_drains_is_no_part_of_it() {
        let s = Nanos::from_secs;
        let moments = Moments { load_started: s(5), filled: Some(s(9)), load_ended: s(15), drained: s(19) };
        let config = Config::new(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
        let parts = moments.parts(&config).map(|(name, range)| (name, range.start.0 / 1_000_000_000));
        assert_eq!(parts, [("before", 0), ("growing", 5), ("loaded", 9), ("emptying", 15), ("after", 20)]);
        let never = Moments { filled: None, ..moments }.parts(&config);
        assert_eq!(never[2], ("loaded", s(6)..s(15)));
    }

    #[test]
    fn responsiveness_is_round_trips_a_minute_at_the_median() {
        let rounds: Vec<Round> = [Some(10), Some(20), Some(30), None]
            .map(|ms| Round { at: Nanos::ZERO, late: Nanos::ZERO, round_trip: ms.map(Nanos::from_millis) })
            .into();
        let p = part(rounds.iter());
        assert_eq!((p.sent, p.lost, p.round_trip.n), (4, 1, 3));
        let per_minute = p.round_trips_per_minute.unwrap();
        assert!((per_minute - 3_000.0).abs() < 5.0, "{per_minute}");
        assert_eq!(part([].iter()).round_trips_per_minute, None);
    }
}
