//! `rr` and `crr`: request and response, over a few connections or over a connection each.
//!
//! **Latency** is from the moment a request was meant to be sent to the moment the last byte of its
//! response was read. Under an open loop (a rate is given) the meant moments are fixed beforehand,
//! so a slow response lengthens the latency of those that had to wait behind it; under a closed
//! loop the next request is meant for when the last is done.

mod client;
pub(crate) mod connections;

use clock::{Conversion, Instant, Monotonic, Nanos, Realtime};
use serde::{Deserialize, Serialize};
use stats::{Distribution, DurationSummary, Precision};

use crate::error::Error;
use crate::options::SocketOptions;
use crate::target::Target;
use crate::tcp_info::TcpInfo;
use crate::timing::CpuTime;

pub use crate::exchange::Exchange;
pub use client::run;

/// Request and response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The server, and how it is reached.
    #[serde(flatten)]
    pub target: Target,
    /// A connection for each transaction (`crr`) instead of lasting ones (`rr`).
    pub connect_each: bool,
    /// The shape of a transaction.
    pub exchange: Exchange,
    /// Connections (`rr`), or transactions at the same time (`crr`).
    pub connections: u32,
    /// Requests under way on one connection (`rr`).
    pub outstanding: u32,
    /// Transactions a second in all, sent at fixed moments; without it each is sent when the one
    /// before is done.
    pub rate_per_second: Option<f64>,
    /// How long to measure.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// Done before that and not counted.
    #[serde(rename = "warm_up_ns")]
    pub warm_up: Nanos,
    /// Width of the series.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// CPU for this side's threads.
    pub cpu: Option<usize>,
}

impl Config {
    /// Ten seconds of one byte each way over one connection, closed loop, sockets as the kernel has
    /// them.
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            connect_each: false,
            exchange: Exchange {
                request_bytes: 1,
                response_bytes: 1,
                request_writes: 1,
                response_writes: 1,
                think: Nanos::ZERO,
            },
            connections: 1,
            outstanding: 1,
            rate_per_second: None,
            duration: Nanos::from_secs(10),
            warm_up: Nanos::ZERO,
            interval: Nanos::from_secs(1),
            cpu: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.target.options.validate()?;
        self.exchange.check().map_err(Error::Config)?;
        let wrong = |text: &str| Err(Error::Config(text.into()));
        match self {
            Self { connections: 0, .. } => wrong("at least one connection is needed"),
            Self { outstanding: 0, .. } => wrong("at least one outstanding request is needed"),
            Self { outstanding: 65_537.., .. } => wrong("at most 65,536 outstanding requests"),
            Self { connections: 65_537.., .. } => wrong("at most 65,536 connections"),
            Self { connect_each: true, outstanding: 2.., .. } => {
                wrong("a connection each has one request: more at once are --connections")
            }
            Self { duration: Nanos::ZERO, .. } => wrong("a duration is needed"),
            Self { rate_per_second: Some(rate), .. } if !(*rate > 0.0 && *rate <= 1e9) => {
                wrong("a rate is above 0 and at most 10⁹ a second")
            }
            _ => Ok(()),
        }
    }
}

/// One interval of the transactions of one connection (`crr`: of one of those at once).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Which connection, from 0.
    pub connection: u32,
    /// Since the start of measuring.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// Since the start of measuring.
    #[serde(rename = "end_ns")]
    pub end: Nanos,
    /// Their latencies.
    pub latency: DurationSummary,
}

/// One transaction that took long, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slow {
    /// Which connection, from 0.
    pub connection: u32,
    /// This end's port: with it the transaction is found in a trace or a capture.
    pub local_port: u16,
    /// When it was meant to begin, on `CLOCK_MONOTONIC`.
    #[serde(rename = "at_monotonic_ns")]
    pub at_monotonic: Instant<Monotonic>,
    /// The same on `CLOCK_REALTIME`, by an offset measured once.
    #[serde(rename = "at_realtime_ns")]
    pub at_realtime: Instant<Realtime>,
    /// From the meant moment to the last byte.
    #[serde(rename = "latency_ns")]
    pub latency: Nanos,
    /// Of it: waiting behind others before it was sent.
    #[serde(rename = "queued_ns")]
    pub queued: Nanos,
    /// Of it: the connection's handshake (`crr`).
    #[serde(rename = "connect_ns")]
    pub connect: Nanos,
    /// Of it: from sending to the first bytes of the response.
    #[serde(rename = "first_byte_ns")]
    pub first_byte: Nanos,
    /// Of it: from there to the last.
    #[serde(rename = "rest_ns")]
    pub rest: Nanos,
}

/// What request and response showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// When measuring began, on `CLOCK_REALTIME`.
    #[serde(rename = "started_realtime_ns")]
    pub started_realtime: Instant<Realtime>,
    /// How long it measured.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// Transactions measured.
    pub transactions: u64,
    /// A second.
    pub transactions_per_second: f64,
    /// Begun and not done at the end.
    pub unfinished: u64,
    /// How long the oldest of them had waited then.
    #[serde(default, rename = "unfinished_waited_ns")]
    pub unfinished_waited: Nanos,
    /// Meant for a moment before the end (open loop) and never sent.
    pub never_sent: u64,
    /// Connections that failed (`crr`), each a transaction not done.
    pub failed: u64,
    /// Latencies.
    pub latency: DurationSummary,
    /// Of them, the handshake (`crr`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<DurationSummary>,
    /// Every bucket of the latencies: upper bound in nanoseconds, and how many.
    #[serde(rename = "latency_buckets_ns", default)]
    pub latency_buckets: Vec<(Nanos, u64)>,
    /// The slowest, slowest first.
    #[serde(skip_deserializing)]
    pub slowest: Vec<Slow>,
    /// The series.
    #[serde(skip_deserializing)]
    pub series: Vec<Interval>,
    /// CPU time of this side's threads.
    pub cpu: CpuTime,
    /// CPU time for each transaction.
    #[serde(rename = "cpu_per_transaction_ns")]
    pub cpu_per_transaction: Option<Nanos>,
    /// The first connection at the end (`rr`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpInfo>,
    /// The congestion control of the first connection, as its kernel names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Why the first of the failed connections failed (`crr`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What was set on the sockets of both ends; all else was as the kernel has it.
    pub socket_options: SocketOptions,
    /// Why it ended before its time, where it did.
    pub interrupted: Option<String>,
}

/// From this wait on an unfinished transaction is not one that the end of the test cut short, nor
/// one of which a segment is retransmitted.
const SILENCE: Nanos = Nanos::from_secs(1);

impl Outcome {
    /// Whether the server answered no more at the end: a transaction is unfinished that had waited
    /// for a second and three times as long as any that was finished.
    pub fn fell_silent(&self) -> bool {
        let ever = self.latency.max.0.saturating_mul(3);
        self.unfinished > 0 && self.unfinished_waited >= SILENCE && self.unfinished_waited.0 >= ever
    }
}

/// What one thread gathers; allocated before it starts.
pub(crate) struct Gathered {
    connection: u32,
    pub all: Distribution,
    pub connects: Option<Distribution>,
    now: Distribution,
    pub series: Vec<Interval>,
    pub slowest: Vec<Slow>,
    start: Instant<Monotonic>,
    interval: Nanos,
    next: Instant<Monotonic>,
    to_realtime: Conversion<Monotonic, Realtime>,
}

/// How many of the slowest are kept.
const SLOWEST: usize = 10;

impl Gathered {
    fn new(connection: u32, config: &Config, start: Instant<Monotonic>) -> Self {
        let interval = config.interval.max(Nanos::from_millis(1));
        let intervals = (config.duration.0 / interval.0).min(1_000_000) as usize;
        Self {
            connection,
            all: Distribution::new(Precision::Fine),
            connects: config.connect_each.then(|| Distribution::new(Precision::Fine)),
            now: Distribution::new(Precision::Fine),
            series: Vec::with_capacity(intervals + 2),
            slowest: Vec::with_capacity(SLOWEST + 1),
            start,
            interval,
            next: start.after(interval),
            to_realtime: timestamping::conversion(),
        }
    }

    /// One transaction is done at `done`; those meant before the start are warm-up.
    #[inline]
    fn done(&mut self, meant: Instant<Monotonic>, done: Instant<Monotonic>, slow: impl FnOnce() -> Slow) {
        if meant < self.start {
            return;
        }
        if done >= self.next {
            self.close_intervals(done);
        }
        let latency = done.saturating_since(meant);
        self.all.record(latency.0);
        self.now.record(latency.0);
        if self.slowest.len() < SLOWEST || self.slowest.last().is_some_and(|s| latency > s.latency) {
            self.keep(slow(), meant, latency);
        }
    }

    #[cold]
    fn keep(&mut self, slow: Slow, meant: Instant<Monotonic>, latency: Nanos) {
        let real = meant.as_nanos().saturating_add_signed(self.to_realtime.offset);
        let slow = Slow {
            connection: self.connection,
            at_monotonic: meant,
            at_realtime: Instant::from_nanos(real),
            latency,
            ..slow
        };
        let at = self.slowest.partition_point(|s| s.latency >= latency);
        self.slowest.insert(at, slow);
        self.slowest.truncate(SLOWEST);
    }

    #[cold]
    fn close_intervals(&mut self, now: Instant<Monotonic>) {
        let end = self.next.saturating_since(self.start);
        self.series.push(Interval {
            connection: self.connection,
            start: end.saturating_sub(self.interval),
            end,
            latency: DurationSummary::of(&self.now).unwrap_or_default(),
        });
        self.now = Distribution::new(Precision::Fine);
        // Intervals in which nothing was done are rows too, with n = 0.
        self.next = self.next.after(self.interval);
        while self.next <= now && self.series.len() < self.series.capacity() {
            let end = self.next.saturating_since(self.start);
            let latency = DurationSummary::default();
            self.series.push(Interval {
                connection: self.connection,
                start: end.saturating_sub(self.interval),
                end,
                latency,
            });
            self.next = self.next.after(self.interval);
        }
    }
}

impl Gathered {
    /// Ends the interval that the end of the test cut short.
    fn close_last(&mut self, elapsed: Nanos) {
        let start = self.next.saturating_since(self.start).saturating_sub(self.interval);
        if self.now.n() > 0 {
            let (connection, latency) = (self.connection, DurationSummary::of(&self.now).unwrap_or_default());
            self.series.push(Interval { connection, start, end: elapsed.max(start), latency });
        }
    }
}

/// Where the writes of a message end: `bytes` in `writes` parts, as even as whole bytes allow.
pub(crate) fn cuts(bytes: u32, writes: u32) -> Vec<usize> {
    let (bytes, writes) = (u64::from(bytes), u64::from(writes.max(1)));
    (1..=writes).map(|i| (bytes * i / writes) as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cuts_cover_every_byte_with_writes_that_hold_some(bytes in 1u32..100_000, writes in 1u32..50) {
            prop_assume!(writes <= bytes);
            let cuts = cuts(bytes, writes);
            prop_assert_eq!(cuts.len(), writes as usize);
            prop_assert_eq!(cuts.last().copied(), Some(bytes as usize));
            prop_assert!(cuts[0] > 0 && cuts.windows(2).all(|w| w[0] < w[1]));
        }
    }

    #[test]
    fn the_slowest_are_kept_in_order_and_warm_up_is_not_counted() {
        let at = Instant::from_nanos;
        let config =
            Config { interval: Nanos::from_secs(1), ..Config::new(std::net::SocketAddr::from(([127, 0, 0, 1], 1))) };
        let mut g = Gathered::new(0, &config, at(1_000_000_000));
        g.done(at(999_999_999), at(1_000_000_100), || connections::NO_SLOW);
        for i in 0..100u64 {
            g.done(at(1_000_000_000 + i), at(1_000_000_000 + i + (i * 37 % 100 + 1) * 1_000), || connections::NO_SLOW);
        }
        assert_eq!(g.all.n(), 100);
        let kept: Vec<u64> = g.slowest.iter().map(|s| s.latency.0).collect();
        assert_eq!(kept, (91..=100).rev().map(|i| i * 1_000).collect::<Vec<_>>());
        g.done(at(4_500_000_000), at(4_500_000_001), || connections::NO_SLOW);
        assert_eq!(g.series.iter().map(|i| i.latency.n).collect::<Vec<_>>(), [100, 0, 0]);
    }
}
