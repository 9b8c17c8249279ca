//! The series of a transfer: an interval of a flow.

use clock::Nanos;
use serde::{Deserialize, Serialize};
use timestamping::SocketMemory;

use crate::tcp_info::TcpInfo;

/// One interval of one flow, seen from one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// iperf3's number of the flow.
    pub flow: i64,
    /// Whether this side sends on it.
    pub sends: bool,
    /// Since the start of the test.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// Since the start of the test.
    #[serde(rename = "end_ns")]
    pub end: Nanos,
    /// Still in the warm-up.
    pub warm_up: bool,
    /// Bytes written to the socket, or read from it.
    pub bytes: u64,
    /// Their rate.
    pub bits_per_second: f64,
    /// Bytes that the peer acknowledged in the interval, of a TCP flow on which this side sends. A send buffer takes bytes before the path
    /// does, above all at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_bytes: Option<u64>,
    /// Segments retransmitted in the interval.
    pub retransmitted_segments: u32,
    /// Datagrams, where the flow has those.
    pub datagrams: u64,
    /// The connection at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp: Option<TcpInfo>,
    /// The memory of its socket then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory: Option<SocketMemory>,
}

impl Sample {
    /// What arrived in the interval, a second, as far as this side knows: what it read, what the peer acknowledged, or, of datagrams that
    /// it sends, what was sent.
    pub fn goodput_bits_per_second(&self) -> f64 {
        self.acknowledged_bytes.map_or(self.bits_per_second, |bytes| rate(bytes, self.end.saturating_sub(self.start)))
    }
}

/// Bits a second; 0 over no time.
pub(crate) fn rate(bytes: u64, over: Nanos) -> f64 {
    if over == Nanos::ZERO { 0.0 } else { bytes as f64 * 8e9 / over.0 as f64 }
}
