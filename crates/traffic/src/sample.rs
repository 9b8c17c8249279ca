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
    /// Bytes that the peer acknowledged in the interval, of a TCP flow on which this side sends. A
    /// send buffer takes bytes before the path does, above all at the start.
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
    /// What arrived in the interval, a second, as far as this side knows: what it read, what the
    /// peer acknowledged, or, of datagrams that it sends, what was sent.
    pub fn goodput_bits_per_second(&self) -> f64 {
        self.acknowledged_bytes.map_or(self.bits_per_second, |bytes| rate(bytes, self.end.saturating_sub(self.start)))
    }
}

/// Bits a second; 0 over no time.
pub(crate) fn rate(bytes: u64, over: Nanos) -> f64 {
    if over == Nanos::ZERO { 0.0 } else { bytes as f64 * 8e9 / over.0 as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The series of a flow that is window-limited from its start on, without a machine: the send
    /// buffer takes what it has room for at once, and then a window is acknowledged each round
    /// trip.
    fn window_limited(window: u64, round_trip: u64, buffer: u64, interval: u64) -> Vec<Sample> {
        let acknowledged = |at: u64| at / round_trip * window;
        let written = |at: u64| if at == 0 { 0 } else { buffer + acknowledged(at) };
        (0..10)
            .map(|i| {
                let (from, to) = (i * interval, (i + 1) * interval);
                let bytes = written(to) - written(from);
                Sample {
                    flow: 1,
                    sends: true,
                    start: Nanos(from),
                    end: Nanos(to),
                    warm_up: false,
                    bytes,
                    bits_per_second: rate(bytes, Nanos(interval)),
                    acknowledged_bytes: Some(acknowledged(to) - acknowledged(from)),
                    retransmitted_segments: 0,
                    datagrams: 0,
                    tcp: None,
                    memory: None,
                }
            })
            .collect()
    }

    #[test]
    fn goodput_is_a_window_each_round_trip_from_the_first_interval_on() {
        // 65,535 bytes each 25.392 ms are 20.65 Mbit/s; intervals of ten round trips.
        let series = window_limited(65_535, 25_392_000, 2_500_000, 253_920_000);
        for sample in &series {
            assert!((sample.goodput_bits_per_second() / 20.647e6 - 1.0).abs() < 1e-4, "{sample:?}");
        }
        // What the send buffer took would be five times that.
        assert!(series[0].bits_per_second > 4.0 * series[1].bits_per_second, "{:?}", series[0]);
        // A side that receives knows what it read.
        let receives = Sample { acknowledged_bytes: None, sends: false, ..series[1].clone() };
        assert!((receives.goodput_bits_per_second() - receives.bits_per_second).abs() < f64::EPSILON);
    }

    proptest! {
        /// An interval holds at most one acknowledgement more than the round trips in it.
        #[test]
        fn goodput_never_exceeds_the_window(
            window in 1_u64..1 << 30, round_trip in 1_000_u64..1 << 32, buffer in 0_u64..1 << 34, trips in 1.0_f64..500.0,
        ) {
            let interval = (round_trip as f64 * trips) as u64;
            let limit = window as f64 * 8e9 / round_trip as f64;
            let mut all = 0.0;
            for sample in window_limited(window, round_trip, buffer, interval) {
                let goodput = sample.goodput_bits_per_second();
                prop_assert!(goodput <= limit * (1.0 + round_trip as f64 / interval as f64) * 1.000_001, "{goodput} of {limit}");
                all += goodput / 10.0;
            }
            prop_assert!(all <= limit * 1.000_001, "{all} of {limit}");
        }
    }
}
