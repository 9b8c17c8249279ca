//! `udp`: datagrams at a rate, and what becomes of them.
//!
//! Each datagram is numbered and carries the moment it was sent on the sender's `CLOCK_MONOTONIC`.
//! Where both ends run under the same boot of the same machine (network namespaces, loopback) that
//! clock is one, and the receiver reports one-way delays; otherwise it reports none.

mod client;
pub(crate) mod flow;

use clock::{Instant, Nanos, Realtime};
use serde::{Deserialize, Serialize};
use stats::DurationSummary;

use crate::options::SocketOptions;
use crate::target::Target;
use crate::timing::CpuTime;

pub(crate) use client::open;
pub use client::run;
pub use flow::{Header, HeaderKind};
pub use stats::sequence::{Datagrams, Tracker, WINDOW};

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client.
    #[default]
    Up,
    /// The server.
    Down,
}

/// Datagrams at a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The server, and how it is reached.
    #[serde(flatten)]
    pub target: Target,
    /// Who sends.
    pub direction: Direction,
    /// Bytes of each datagram, 24 or more.
    pub datagram_bytes: u32,
    /// Bits of datagrams a second, 0 for as fast as it goes.
    pub bits_per_second: u64,
    /// Datagrams that leave in a row, 1 to [`MOST_BURST`](crate::MOST_BURST): the rate is kept from
    /// one such burst to the next.
    #[serde(default = "crate::sending::no_burst")]
    pub burst: u32,
    /// How long to send.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// Width of the series.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// CPU for this side's thread.
    pub cpu: Option<usize>,
}

impl Config {
    /// Ten seconds up at 10 Mbit/s in datagrams of 1,200 bytes.
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            direction: Direction::Up,
            datagram_bytes: 1200,
            bits_per_second: 10_000_000,
            burst: 1,
            duration: Nanos::from_secs(10),
            interval: Nanos::from_secs(1),
            cpu: None,
        }
    }
}

/// One interval at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Since the receiver's first datagram.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// Since the receiver's first datagram.
    #[serde(rename = "end_ns")]
    pub end: Nanos,
    /// Different datagrams that came.
    pub received: u64,
    /// Bytes that came, duplicates included.
    pub bytes: u64,
    /// Found missing in the interval, less those that turned up late in it.
    pub lost: i64,
    /// Mean one-way delay, where clocks are shared.
    #[serde(rename = "mean_delay_ns")]
    pub mean_delay: Option<Nanos>,
    /// Longest one-way delay, where clocks are shared.
    #[serde(rename = "max_delay_ns")]
    pub max_delay: Option<Nanos>,
}

/// What a receiver saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Received {
    pub counts: Datagrams,
    pub bytes: u64,
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    pub one_way: Option<DurationSummary>,
    #[serde(rename = "one_way_buckets_ns")]
    pub one_way_buckets: Vec<(Nanos, u64)>,
    pub impossible_delays: u64,
    pub series: Vec<Interval>,
}

/// What a sender did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub datagrams: u64,
    pub bytes: u64,
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    pub not_sent: u64,
}

/// What each side reports to the other at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    Sent(Sent, CpuTime),
    Received(Box<Received>, CpuTime),
}

/// What became of the datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// When sending began, on `CLOCK_REALTIME`.
    #[serde(rename = "started_realtime_ns")]
    pub started_realtime: Instant<Realtime>,
    /// How long was sent.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// Datagrams that left the sender; of a server that went away, those up to the highest number
    /// that came.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Datagrams that the sender's kernel did not take (`ENOBUFS`): they are not in `sent`.
    pub not_sent: u64,
    /// What the receiver counted; `expected` is what was sent, and `lost` is all that never came.
    pub datagrams: Datagrams,
    /// Bytes received, duplicates included.
    pub received_bytes: u64,
    /// Their rate over the receiver's time.
    pub goodput_bits_per_second: f64,
    /// One-way delays, where the ends share their clocks.
    pub one_way_delay: Option<DurationSummary>,
    /// Every bucket of them: upper bound in nanoseconds, and how many.
    #[serde(rename = "one_way_delay_buckets_ns", default)]
    pub one_way_delay_buckets: Vec<(Nanos, u64)>,
    /// Datagrams that seemed to arrive before they were sent: counted, and in no delay.
    pub impossible_delays: u64,
    /// The receiver's series.
    #[serde(default)]
    pub series: Vec<Interval>,
    /// CPU time of the sender's thread.
    pub sender_cpu: CpuTime,
    /// CPU time of the receiver's thread.
    pub receiver_cpu: CpuTime,
    /// What was set on the sockets of both ends; all else was as the kernel has it.
    pub socket_options: SocketOptions,
    /// Why it ended before its time, where it did.
    pub interrupted: Option<String>,
}
