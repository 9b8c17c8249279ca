//! `ping-under-load`: latency before, during and after bulk transfers.
//!
//! Probes (a request over TCP, a UDP datagram, an ICMP echo) go out at fixed moments all the time; streams load the path
//! in the middle part. What the probes' round trips gain under load is queueing, and **responsiveness** is how many of
//! them fit into a minute: 60 s divided by the median round trip of the loaded part.

mod flent;
mod probe;
mod reading;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stats::{Distribution, DurationSummary, Precision};

use crate::clock;
use crate::error::Error;
use crate::progress::Progress;
use crate::stream;
use crate::target::Target;

pub use flent::Flent;
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
    pub before_ns: u64,
    /// Under load.
    pub load_ns: u64,
    /// Without load, after.
    pub after_ns: u64,
    /// Between two probes of a kind.
    pub probe_interval_ns: u64,
    /// Width of the streams' series.
    pub interval_ns: u64,
}

impl Config {
    /// Five seconds without load, ten with four streams each way, five without; a probe of each kind every 0.1 s.
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            direction: stream::Direction::Both,
            flows: 4,
            before_ns: 5_000_000_000,
            load_ns: 10_000_000_000,
            after_ns: 5_000_000_000,
            probe_interval_ns: 100_000_000,
            interval_ns: 200_000_000,
        }
    }
}

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Round {
    /// When it was meant to be sent, since the start.
    pub at_ns: u64,
    /// From then to the answer; absent where none came.
    pub round_trip_ns: Option<u64>,
}

/// One part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Part {
    /// Probes meant for it.
    pub sent: u64,
    /// Unanswered within two seconds after the end.
    pub lost: u64,
    /// Round trips of the others.
    pub round_trip: DurationSummary,
    /// Round trips a minute at the median; absent without an answer.
    pub round_trips_per_minute: Option<f64>,
}

/// What the probes of one kind saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probed {
    /// `tcp`, `udp` or `icmp`.
    pub probe: &'static str,
    /// Before the load.
    pub before: Part,
    /// Under load, its first second left out: the streams are still growing.
    pub loaded: Part,
    /// After the load, its first second left out: the queues are still emptying.
    pub after: Part,
    /// What the median gained under load.
    pub added_by_load_ns: Option<u64>,
    /// Every probe.
    pub rounds: Vec<Round>,
    /// Why there are none, or what ended them early.
    pub error: Option<String>,
}

/// What all of it showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// When it began, on `CLOCK_REALTIME`.
    pub started_realtime_ns: u64,
    /// How long it took.
    pub elapsed_ns: u64,
    /// When data began to flow, since the start.
    pub load_started_ns: u64,
    /// Each kind of probe.
    pub probes: Vec<Probed>,
    /// The load.
    pub stream: Option<stream::Outcome>,
    /// Why it ended before its time, where it did.
    pub interrupted: Option<String>,
}

/// Left out at the beginning of the loaded part and of the one after it, at most a quarter of either.
const SETTLING_NS: u64 = 1_000_000_000;

/// What is left out at the beginning of a part of that length: there the streams still grow, or the queues still empty.
pub fn settling_ns(length_ns: u64) -> u64 {
    SETTLING_NS.min(length_ns / 4)
}

/// Probes and loads the path. `progress` is told every 100 ms, and of the streams' intervals; where it breaks, all ends.
///
/// # Errors
/// As [`stream::run`]; a kind of probe that cannot be had is told in [`Probed::error`] instead.
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Outcome, Error> {
    if config.load_ns == 0 || config.probe_interval_ns < 1_000_000 {
        return Err(Error::Config("a load takes some time, and probes are at least 1 ms apart".into()));
    }
    let total = config.before_ns.saturating_add(config.load_ns).saturating_add(config.after_ns);
    let kinds = probe::open(config, total)?;
    let (stop, started_realtime_ns, start_ns) = (AtomicBool::new(false), clock::realtime_ns(), clock::monotonic_ns());
    let (load, loaded, results, broke) = std::thread::scope(|scope| {
        let stop = &stop;
        let probing: Vec<_> = kinds
            .into_iter()
            .map(|kind| (kind.name, scope.spawn(move || kind.run(start_ns, config.probe_interval_ns, stop))))
            .collect();
        let mut broke = wait(start_ns, start_ns.saturating_add(config.before_ns), progress);
        let load_started_ns = clock::monotonic_ns() - start_ns;
        let streams = stream::Config {
            direction: config.direction,
            flows: config.flows,
            duration_ns: config.load_ns,
            interval_ns: config.interval_ns,
            ..stream::Config::new(config.target.clone())
        };
        let load = if broke { None } else { Some(stream::run(&streams, progress)) };
        let load_ended_ns = clock::monotonic_ns() - start_ns;
        let cut = !matches!(&load, Some(Ok(o)) if o.interrupted.is_none());
        if !cut {
            broke = wait(start_ns, clock::monotonic_ns().saturating_add(config.after_ns), progress);
        }
        stop.store(true, Ordering::Relaxed);
        let results: Vec<_> = probing
            .into_iter()
            .map(|(name, thread)| (name, thread.join().unwrap_or((Vec::new(), Some("its thread panicked".into())))))
            .collect();
        (load, load_started_ns..load_ended_ns, results, broke || cut)
    });
    let stream = load.transpose()?;
    let elapsed_ns = clock::monotonic_ns() - start_ns;
    let (load_started_ns, load_ended_ns) = (loaded.start, loaded.end);
    let loaded = load_started_ns + settling_ns(config.load_ns)..load_ended_ns;
    let after = load_ended_ns + settling_ns(config.after_ns)..u64::MAX;
    let probes = results
        .into_iter()
        .map(|(name, (rounds, error))| {
            let part = |range: std::ops::Range<u64>| part(rounds.iter().filter(|r| range.contains(&r.at_ns)));
            let (before, loaded, after) = (part(0..load_started_ns), part(loaded.clone()), part(after.clone()));
            let both = before.round_trip.n > 0 && loaded.round_trip.n > 0;
            Probed {
                probe: name,
                added_by_load_ns: both.then(|| loaded.round_trip.p50.0.saturating_sub(before.round_trip.p50.0)),
                before,
                loaded,
                after,
                rounds,
                error,
            }
        })
        .collect();
    let interrupted = stream
        .as_ref()
        .and_then(|s: &stream::Outcome| s.interrupted.clone())
        .or(broke.then(|| "stopped before its time".to_owned()));
    Ok(Outcome { started_realtime_ns, elapsed_ns, load_started_ns, probes, stream, interrupted })
}

fn part<'a>(rounds: impl Iterator<Item = &'a Round>) -> Part {
    let (mut sent, mut lost, mut latencies) = (0, 0, Distribution::new(Precision::Fine));
    for round in rounds {
        sent += 1;
        match round.round_trip_ns {
            Some(ns) => latencies.record(ns),
            None => lost += 1,
        }
    }
    let round_trip = DurationSummary::of(&latencies).unwrap_or_default();
    let per_minute = (round_trip.n > 0).then(|| 60e9 / round_trip.p50.0.max(1) as f64);
    Part { sent, lost, round_trip, round_trips_per_minute: per_minute }
}

/// Waits until then; whether the caller broke it off.
fn wait(start_ns: u64, until_ns: u64, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> bool {
    loop {
        let now = clock::monotonic_ns();
        if now >= until_ns {
            return false;
        }
        std::thread::sleep(Duration::from_nanos((until_ns - now).min(100_000_000)));
        if progress(Progress::Tick { elapsed_ns: clock::monotonic_ns() - start_ns }).is_break() {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responsiveness_is_round_trips_a_minute_at_the_median() {
        let rounds: Vec<Round> = [Some(10), Some(20), Some(30), None]
            .map(|ms| Round { at_ns: 0, round_trip_ns: ms.map(|m: u64| m * 1_000_000) })
            .into();
        let p = part(rounds.iter());
        assert_eq!((p.sent, p.lost, p.round_trip.n), (4, 1, 3));
        let per_minute = p.round_trips_per_minute.unwrap();
        assert!((per_minute - 3_000.0).abs() < 5.0, "{per_minute}");
        assert_eq!(part([].iter()).round_trips_per_minute, None);
    }
}
