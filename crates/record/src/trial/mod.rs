//! A trial of a study: what can be measured in one, and its row in a run.

mod rows;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::table::{Cell as _, Value};
use crate::{Nanos, columns, words};

pub use rows::{Comparison, Factor, Ping, Point};

/// What the values of a response are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bits a second.
    BitRate,
    /// Events a second.
    PerSecond,
    /// Whole nanoseconds.
    Time,
    /// CPU seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Segments.
    Segments,
    /// A share, 0 to 1.
    Share,
}

impl Measure {
    /// The unit of the values.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::BitRate => "bit/s",
            Self::PerSecond => "1/s",
            Self::Time => "ns",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Segments => "segments",
            Self::Share => "share",
        }
    }
}

macro_rules! responses {
    ($($response:ident = $name:literal as $column:ident, $measure:ident, $words:literal: $doc:literal;)*) => {
        /// What a trial can measure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Response {
            $(#[doc = $doc] $response,)*
        }

        words! {
            Response: $($response = $name),*;
        }

        impl Response {
            /// What its values are.
            pub const fn measure(self) -> Measure {
                match self {
                    $(Self::$response => Measure::$measure,)*
                }
            }

            /// As a person says it.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$response => $words,)*
                }
            }
        }

        columns! {
            Trial: "trials", "", blank = Trial::default();
            trial = trial, "its number in the order of the run, from 0";
            plan = plan, "which plan of the study";
            block = block, "its block, from 0";
            position = position, "its place in the block's random order, from 0";
            started_ns = started_ns, "when it began, `CLOCK_REALTIME`";
            took_ns = took_ns, "how long it took, all in";
            broken = broken, null "it counts", "why it counts nowhere";
            frames = frames, "frames analysed";
            frames_dropped = frames_dropped, "frames that were not read in time";
            $($column = |t| t.responses.get(&Response::$response).copied(), set |t, v| t.measured(Response::$response, v),
                null "the workload does not measure it", $doc;)*
        }
    };
}

responses! {
    Goodput = "goodput" as goodput_bits_per_second, BitRate, "goodput": "received by the application";
    GoodputDown = "goodput_down" as goodput_down_bits_per_second, BitRate, "download goodput": "the same from server to client, where both send";
    Transactions = "transactions" as transactions_per_second, PerSecond, "transactions": "requests answered";
    LatencyP50 = "latency_p50" as latency_p50_ns, Time, "median latency": "of a request, from first byte sent to last byte read: the median";
    LatencyP99 = "latency_p99" as latency_p99_ns, Time, "p99 latency": "of a request, from first byte sent to last byte read: 99th percentile";
    RoundTrip = "round_trip" as round_trip_ns, Time, "round trip": "TCP's smoothed round trip, median over the trial";
    MinRoundTrip = "min_round_trip" as min_round_trip_ns, Time, "shortest round trip": "the shortest round trip that the sender saw";
    Queueing = "queueing" as queueing_ns, Time, "queueing delay": "the RTT less that of the path itself";
    Retransmitted = "retransmitted" as retransmitted_segments, Segments, "retransmitted segments": "by the sender";
    Fairness = "fairness" as fairness_share, Share, "fairness": "Jain's index over the flows";
    RivalShare = "rival_share" as rival_share, Share, "rival's share": "of the goodput that the other congestion control took";
    ReceiveWindow = "receive_window" as receive_window_bytes, Bytes, "receive window": "the largest that was offered, by the packets";
    ReceiveSpace = "receive_space" as receive_space_bytes, Bytes, "receive space": "what `TCP_INFO` says that the receive buffer was tuned to, at most";
    ReceiveBuffer = "receive_buffer" as receive_buffer_bytes, Bytes, "receive buffer": "the largest receive buffer (`skmem` rb)";
    ReceiveUsed = "receive_used" as receive_used_bytes, Bytes, "receive memory in use": "the most memory of packets in it that wait to be read (`skmem` r)";
    SendBuffer = "send_buffer" as send_buffer_bytes, Bytes, "send buffer": "the largest send buffer (`skmem` tb)";
    RttDeviation = "rtt_deviation" as rtt_deviation_ns, Time, "RTT deviation": "TCP's mean deviation of the round trip, median";
    CpuPerGigabyte = "cpu_per_gigabyte" as cpu_seconds_per_gigabyte, Seconds, "CPU time per gigabyte": "both ends";
    DatagramsLost = "datagrams_lost" as datagrams_lost_share, Share, "lost datagrams": "of the datagrams sent, those that never came";
    OneWayP50 = "one_way_p50" as one_way_p50_ns, Time, "median one-way delay": "one-way delay of datagrams where the ends share a clock: the median";
    OneWayP99 = "one_way_p99" as one_way_p99_ns, Time, "p99 one-way delay": "one-way delay of datagrams where the ends share a clock: 99th percentile";
}

impl Response {
    /// The response of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|response| response.name() == name)
    }
}

/// As a person says it.
impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

/// By name, as in all outputs.
impl Ord for Response {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Response {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        Self::from_name(&name).ok_or_else(|| serde::de::Error::custom(format!("no response {name:?}")))
    }
}

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
    /// Frames that were captured.
    pub frames: u64,
    /// Frames that were not seen because they were not read in time.
    pub frames_dropped: u64,
    /// What was measured.
    pub responses: BTreeMap<Response, f64>,
}

impl Trial {
    fn measured(&mut self, response: Response, value: Value<'_>) -> Result<(), &'static str> {
        if let Some(value) = Option::<f64>::from_value(value)? {
            self.responses.insert(response, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_its_name_in_json_and_its_words_for_people() {
        assert!(Response::ALL.into_iter().all(|response| Response::from_name(response.name()) == Some(response)));
        let measured = BTreeMap::from([(Response::Transactions, 2.5), (Response::LatencyP50, 1.5)]);
        let json = serde_json::to_string(&measured).unwrap();
        assert_eq!(json, "{\"latency_p50\":1.5,\"transactions\":2.5}");
        assert_eq!(serde_json::from_str::<BTreeMap<Response, f64>>(&json).unwrap(), measured);
        assert_eq!(Response::LatencyP50.to_string(), "median latency");
        assert!(serde_json::from_str::<Response>("\"speed\"").is_err());
    }
}
