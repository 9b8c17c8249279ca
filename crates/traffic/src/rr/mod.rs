//! `rr` and `crr`: request and response, over a few connections or over a connection each.
//!
//! **Latency** is from the moment a request was meant to be sent to the moment the last byte of its response was read.
//! Under an open loop (a rate is given) the meant moments are fixed beforehand, so a slow response lengthens the latency
//! of those that had to wait behind it; under a closed loop the next request is meant for when the last is done.

mod client;
mod connections;
pub(crate) mod server;

use serde::{Deserialize, Serialize};
use stats::{Distribution, DurationSummary, Precision};

use crate::clock::CpuTime;
use crate::error::Error;
use crate::target::Target;
use crate::tcp_info::TcpInfo;

pub use client::run;

/// The shape of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of a response.
    pub response_bytes: u32,
    /// Writes that a request is split into, as evenly as it goes.
    pub request_writes: u32,
    /// Writes that a response is split into.
    pub response_writes: u32,
    /// What the server waits before it responds.
    pub think_ns: u64,
}

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
    /// Connections (`rr`), or transactions at once (`crr`).
    pub connections: u32,
    /// Requests under way on one connection (`rr`).
    pub outstanding: u32,
    /// Transactions a second in all, sent at fixed moments; without it each is sent when the one before is done.
    pub rate_per_second: Option<f64>,
    /// How long to measure.
    pub duration_ns: u64,
    /// Done before that and not counted.
    pub warm_up_ns: u64,
    /// Width of the series.
    pub interval_ns: u64,
    /// CPU for this side's threads.
    pub cpu: Option<usize>,
}

impl Config {
    /// Ten seconds of one byte each way over one connection, closed loop, `TCP_NODELAY`.
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            connect_each: false,
            exchange: Exchange {
                request_bytes: 1,
                response_bytes: 1,
                request_writes: 1,
                response_writes: 1,
                think_ns: 0,
            },
            connections: 1,
            outstanding: 1,
            rate_per_second: None,
            duration_ns: 10_000_000_000,
            warm_up_ns: 0,
            interval_ns: 1_000_000_000,
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
            Self { duration_ns: 0, .. } => wrong("a duration is needed"),
            Self { rate_per_second: Some(rate), .. } if !(*rate > 0.0 && *rate <= 1e9) => {
                wrong("a rate is above 0 and at most 10⁹ a second")
            }
            _ => Ok(()),
        }
    }
}

impl Exchange {
    pub(crate) fn check(&self) -> Result<(), String> {
        for (what, bytes, writes) in [
            ("request", self.request_bytes, self.request_writes),
            ("response", self.response_bytes, self.response_writes),
        ] {
            if bytes == 0 {
                return Err(format!("a {what} has at least one byte"));
            }
            if writes == 0 || writes > bytes {
                return Err(format!("a {what} of {bytes} bytes takes 1 to {bytes} writes, not {writes}"));
            }
        }
        Ok(())
    }
}

/// One interval of the transactions of one connection (`crr`: of one of those at once).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Which connection, from 0.
    pub connection: u32,
    /// Since the start of measuring.
    pub start_ns: u64,
    /// Since the start of measuring.
    pub end_ns: u64,
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
    pub at_monotonic_ns: u64,
    /// The same on `CLOCK_REALTIME`, by an offset measured once.
    pub at_realtime_ns: u64,
    /// From the meant moment to the last byte.
    pub latency_ns: u64,
    /// Of it: waiting behind others before it was sent.
    pub queued_ns: u64,
    /// Of it: the connection's handshake (`crr`).
    pub connect_ns: u64,
    /// Of it: from sending to the first bytes of the response.
    pub first_byte_ns: u64,
    /// Of it: from there to the last.
    pub rest_ns: u64,
}

/// What request and response showed.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// When measuring began, on `CLOCK_REALTIME`.
    pub started_realtime_ns: u64,
    /// How long it measured.
    pub elapsed_ns: u64,
    /// Transactions measured.
    pub transactions: u64,
    /// A second.
    pub transactions_per_second: f64,
    /// Begun and not done at the end.
    pub unfinished: u64,
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
    pub latency_buckets_ns: Vec<(u64, u64)>,
    /// The slowest, slowest first.
    pub slowest: Vec<Slow>,
    /// The series.
    pub series: Vec<Interval>,
    /// CPU time of this side's threads.
    pub cpu: CpuTime,
    /// CPU time for each transaction.
    pub cpu_per_transaction_ns: Option<u64>,
    /// The first connection at the end (`rr`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpInfo>,
    /// Why it ended before its time, where it did.
    pub interrupted: Option<String>,
}

/// What one thread gathers; allocated before it starts.
pub(crate) struct Gathered {
    connection: u32,
    pub all: Distribution,
    pub connects: Option<Distribution>,
    now: Distribution,
    pub series: Vec<Interval>,
    pub slowest: Vec<Slow>,
    start_ns: u64,
    interval_ns: u64,
    next_ns: u64,
    realtime_offset: i128,
}

/// How many of the slowest are kept.
const SLOWEST: usize = 10;

impl Gathered {
    fn new(connection: u32, config: &Config, start_ns: u64) -> Self {
        let interval_ns = config.interval_ns.max(1_000_000);
        let intervals = (config.duration_ns / interval_ns).min(1_000_000) as usize;
        Self {
            connection,
            all: Distribution::new(Precision::Fine),
            connects: config.connect_each.then(|| Distribution::new(Precision::Fine)),
            now: Distribution::new(Precision::Fine),
            series: Vec::with_capacity(intervals + 2),
            slowest: Vec::with_capacity(SLOWEST + 1),
            start_ns,
            interval_ns,
            next_ns: start_ns.saturating_add(interval_ns),
            realtime_offset: i128::from(crate::clock::realtime_ns()) - i128::from(crate::clock::monotonic_ns()),
        }
    }

    /// One transaction is done at `done_ns`; those meant before the start are warm-up.
    #[inline]
    fn done(&mut self, meant_ns: u64, done_ns: u64, slow: impl FnOnce() -> Slow) {
        if meant_ns < self.start_ns {
            return;
        }
        if done_ns >= self.next_ns {
            self.close_intervals(done_ns);
        }
        let latency = done_ns - meant_ns;
        self.all.record(latency);
        self.now.record(latency);
        if self.slowest.len() < SLOWEST || self.slowest.last().is_some_and(|s| latency > s.latency_ns) {
            self.keep(slow(), meant_ns, latency);
        }
    }

    #[cold]
    fn keep(&mut self, slow: Slow, meant_ns: u64, latency_ns: u64) {
        let real = (i128::from(meant_ns) + self.realtime_offset).clamp(0, u64::MAX.into());
        let slow = Slow {
            connection: self.connection,
            at_monotonic_ns: meant_ns,
            at_realtime_ns: real as u64,
            latency_ns,
            ..slow
        };
        let at = self.slowest.partition_point(|s| s.latency_ns >= latency_ns);
        self.slowest.insert(at, slow);
        self.slowest.truncate(SLOWEST);
    }

    #[cold]
    fn close_intervals(&mut self, now_ns: u64) {
        let end = self.next_ns - self.start_ns;
        self.series.push(Interval {
            connection: self.connection,
            start_ns: end - self.interval_ns,
            end_ns: end,
            latency: DurationSummary::of(&self.now).unwrap_or_default(),
        });
        self.now = Distribution::new(Precision::Fine);
        // Intervals in which nothing was done are rows too, with n = 0.
        self.next_ns += self.interval_ns;
        while self.next_ns <= now_ns && self.series.len() < self.series.capacity() {
            let end = self.next_ns - self.start_ns;
            let latency = DurationSummary::default();
            self.series.push(Interval {
                connection: self.connection,
                start_ns: end - self.interval_ns,
                end_ns: end,
                latency,
            });
            self.next_ns += self.interval_ns;
        }
    }
}

impl Gathered {
    /// Ends the interval that the end of the test cut short.
    fn close_last(&mut self, elapsed_ns: u64) {
        let start_ns = self.next_ns - self.interval_ns - self.start_ns;
        if self.now.n() > 0 {
            let (connection, latency) = (self.connection, DurationSummary::of(&self.now).unwrap_or_default());
            self.series.push(Interval { connection, start_ns, end_ns: elapsed_ns.max(start_ns), latency });
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
        let config =
            Config { interval_ns: 1_000_000_000, ..Config::new(std::net::SocketAddr::from(([127, 0, 0, 1], 1))) };
        let mut g = Gathered::new(0, &config, 1_000_000_000);
        g.done(999_999_999, 1_000_000_100, || connections::NO_SLOW);
        for i in 0..100u64 {
            g.done(1_000_000_000 + i, 1_000_000_000 + i + (i * 37 % 100 + 1) * 1_000, || connections::NO_SLOW);
        }
        assert_eq!(g.all.n(), 100);
        let kept: Vec<u64> = g.slowest.iter().map(|s| s.latency_ns).collect();
        assert_eq!(kept, (91..=100).rev().map(|i| i * 1_000).collect::<Vec<_>>());
        g.done(4_500_000_000, 4_500_000_001, || connections::NO_SLOW);
        assert_eq!(g.series.iter().map(|i| i.latency.n).collect::<Vec<_>>(), [100, 0, 0]);
    }
}
