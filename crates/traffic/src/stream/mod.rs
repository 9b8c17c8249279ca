//! `stream`: bulk transfer up, down or both ways, over the iperf3 protocol.

pub(crate) mod client;
mod datagrams;
mod flow;
mod group;
mod plan;
mod report;
mod zerocopy;

use std::net::SocketAddr;

use clock::{Instant, Nanos, Realtime};
use serde::{Deserialize, Serialize};

use crate::options::SocketOptions;
use crate::target::Target;
use crate::tcp_info::TcpInfo;
use crate::timing::CpuTime;
use stats::sequence::Datagrams;

pub use crate::sample::Sample;
pub use crate::sending::{Method, Pacing};
pub use client::run;
pub(crate) use client::run_from;
pub(crate) use flow::{Flow, shares};
pub(crate) use group::{Ended, Group};
pub(crate) use plan::Plan;
pub use plan::paced_write_bytes;
pub use report::report as iperf3_report;
pub use zerocopy::ZerocopyCounts;

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client.
    #[default]
    Up,
    /// The server.
    Down,
    /// Both, each on separate flows.
    Both,
}

/// A bulk transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The server, and how it is reached.
    #[serde(flatten)]
    pub target: Target,
    /// Who sends.
    pub direction: Direction,
    /// Datagrams instead of TCP.
    pub udp: bool,
    /// Parallel flows in each direction.
    pub flows: u32,
    /// How long to send after the warm-up.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// End after this many bytes (of all flows of a direction together) instead of after a time.
    pub bytes: Option<u64>,
    /// The warm-up in whole seconds: sent before the test, and not counted.
    pub warm_up_s: u64,
    /// Bytes of one write, or of one datagram.
    pub write_bytes: u32,
    /// Bits a second of each flow; without it TCP goes as fast as it can and UDP at 1 Mbit/s.
    pub pace_bits_per_second: Option<u64>,
    /// Datagrams that leave in a row, 1 to [`MOST_BURST`](crate::MOST_BURST): the rate is kept from
    /// one such burst to the next.
    #[serde(default = "crate::sending::no_burst")]
    pub burst: u32,
    /// Who keeps that pace, for TCP.
    pub pacing: Pacing,
    /// How bytes are handed to the kernel.
    pub method: Method,
    /// Width of the series.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// CPU for this side's flow threads.
    pub cpu: Option<usize>,
    /// CPU for the server's.
    pub server_cpu: Option<usize>,
    /// Ask the server for its own report.
    #[serde(default)]
    pub get_server_output: bool,
    /// For a server that wants iperf3's login. Kept nowhere.
    #[serde(skip)]
    pub login: Option<crate::iperf3::Login>,
}

impl Config {
    /// Ten seconds up over one TCP flow, with iperf3's write size.
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            direction: Direction::Up,
            udp: false,
            flows: 1,
            duration: Nanos::from_secs(10),
            bytes: None,
            warm_up_s: 0,
            write_bytes: 128 << 10,
            pace_bits_per_second: None,
            burst: 1,
            pacing: Pacing::Kernel,
            method: Method::Write,
            interval: Nanos::from_secs(1),
            cpu: None,
            server_cpu: None,
            get_server_output: false,
            login: None,
        }
    }
}

/// The datagrams of a flow as far as the receiver told of them: the protocol of iperf3 carries the
/// first four figures alone. `expected = received + lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowDatagrams {
    /// The highest number that came, so the number of datagrams known to have been sent.
    pub expected: u64,
    /// Different ones that came.
    pub received: u64,
    /// Never came, as far as known when this was counted.
    pub lost: u64,
    /// Interarrival jitter (RFC 3550 §6.4.1).
    #[serde(rename = "jitter_ns")]
    pub jitter: Nanos,
    /// Came after a higher number had; absent, as what follows, where a stock server received them.
    pub reordered: Option<u64>,
    /// Came again.
    pub duplicated: Option<u64>,
    /// Came too late to know whether they are late or come again; they are in `lost`.
    pub too_late: Option<u64>,
    /// Not ours, or cut short.
    pub malformed: Option<u64>,
    /// Dropped by the receiving host because the socket's buffer was full.
    pub dropped_at_socket: Option<u64>,
}

impl From<Datagrams> for FlowDatagrams {
    fn from(d: Datagrams) -> Self {
        Self {
            expected: d.expected,
            received: d.received,
            lost: d.lost,
            jitter: d.jitter,
            reordered: Some(d.reordered),
            duplicated: Some(d.duplicated),
            too_late: Some(d.too_late),
            malformed: Some(d.malformed),
            dropped_at_socket: Some(d.dropped_at_socket),
        }
    }
}

/// One flow at its end, seen from the client's side where not said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// iperf3's number of the flow.
    pub flow: i64,
    /// Whether the client sends on it.
    pub client_sends: bool,
    /// The client's address.
    pub local: SocketAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// Written by the sender.
    pub sent_bytes: Option<u64>,
    /// Read by the receiver.
    pub received_bytes: Option<u64>,
    /// How long the sender measured.
    #[serde(rename = "sent_in_ns")]
    pub sent_in: Option<Nanos>,
    /// How long the receiver measured.
    #[serde(rename = "received_in_ns")]
    pub received_in: Option<Nanos>,
    /// Segments the sender retransmitted, warm-up not counted; absent where the sender does not
    /// know.
    pub retransmitted_segments: Option<u64>,
    /// What became of datagrams, as the receiver saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<FlowDatagrams>,
    /// Completions of `MSG_ZEROCOPY`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zerocopy: Option<ZerocopyCounts>,
    /// The client's end of the connection at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpInfo>,
    /// What ended it early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// All flows of a direction together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// How many flows.
    pub flows: usize,
    /// Written by the senders.
    pub sent_bytes: u64,
    /// Read by the receivers; absent where the server did not report it.
    pub received_bytes: Option<u64>,
    /// Over the sender's time.
    pub sent_bits_per_second: f64,
    /// What arrived, over the receiver's time: the goodput.
    pub goodput_bits_per_second: Option<f64>,
    /// Segments retransmitted; absent where the sender does not know.
    pub retransmitted_segments: Option<u64>,
}

/// What a transfer showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// When data began to flow, on `CLOCK_REALTIME`.
    #[serde(rename = "started_realtime_ns")]
    pub started_realtime: Instant<Realtime>,
    /// iperf3's name of the test.
    pub cookie: String,
    /// How long it ran, warm-up included.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// From client to server.
    pub up: Option<Total>,
    /// From server to client.
    pub down: Option<Total>,
    /// Each flow.
    pub flows: Vec<FlowOutcome>,
    /// The client's congestion control.
    pub congestion_control: Option<String>,
    /// The server's.
    pub server_congestion_control: Option<String>,
    /// CPU time of the client's flow threads.
    pub cpu: CpuTime,
    /// CPU seconds of the client for 10⁹ bytes sent and received by it.
    pub cpu_seconds_per_gigabyte: Option<f64>,
    /// CPU time of the server's flow threads (or, of a stock iperf3, of its process: its percentage
    /// times the time).
    pub server_cpu: Option<CpuTime>,
    /// CPU seconds of the server for 10⁹ bytes sent and received by it.
    pub server_cpu_seconds_per_gigabyte: Option<f64>,
    /// The rate asked for each flow: what was reached is in the totals.
    pub pace_bits_per_second: Option<u64>,
    /// What was set on the sockets of both ends; all else was as the kernel has it.
    pub socket_options: SocketOptions,
    /// Whether the server is one of ours: a stock iperf3 neither sets our socket options nor sends
    /// its series.
    pub server_is_wirelapse: bool,
    /// The server's own report, where it was asked for and sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output: Option<String>,
    /// The client's series.
    #[serde(default)]
    pub series: Vec<Sample>,
    /// The server's, where it is one of ours.
    #[serde(default)]
    pub server_series: Vec<Sample>,
    /// Why it ended early, if it did; what was measured until then is above.
    pub interrupted: Option<String>,
}
