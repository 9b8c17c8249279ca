//! What one trial gave.

use record::trial::Response;
use std::collections::BTreeMap;
use std::fmt;

use lab::PathReport;
use record::Nanos;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::plan::{Place, Plan};

/// A point of a trial's series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Since the transfer began.
    pub at_ns: Nanos,
    /// Received in the interval that ends here, by all flows, from client to server; where the
    /// server alone sends, the other way.
    #[serde(rename = "goodput_bits_per_second", alias = "bits_per_second")]
    pub bits_per_second: f64,
    /// The same from server to client, where both send.
    #[serde(default, rename = "goodput_down_bits_per_second", alias = "down_bits_per_second")]
    pub down_bits_per_second: f64,
    /// Smoothed round trip at its end; 0 of datagrams.
    pub srtt_ns: Nanos,
    /// Congestion window at its end, bytes; 0 of datagrams.
    pub cwnd_bytes: u64,
    /// The largest window that the receiver offered in the interval, bytes, by the packets; `None`
    /// where none of its ACKs was analysed.
    #[serde(default)]
    pub receive_window_bytes: Option<u64>,
    /// Memory of packets that the receiver has not read, bytes (`skmem` r).
    #[serde(default)]
    pub receive_used_bytes: u64,
    /// The most of that at present, bytes (`skmem` rb).
    #[serde(default)]
    pub receive_buffer_bytes: u64,
    /// Part of the warm-up.
    pub warm_up: bool,
}

/// One probe beside the streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// `tcp`, `udp` or `icmp`.
    pub probe: String,
    /// When it was meant to be sent, since the beginning; on the axis of the series.
    pub at_ns: Nanos,
    /// Until the answer; absent where none came.
    pub round_trip_ns: Option<Nanos>,
}

/// Something that was checked in a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Check {
    /// What was checked, the same in every trial of a setting.
    pub what: String,
    /// What was found; figures differ from trial to trial. Empty where what was checked says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub found: String,
}

/// A [`Check`] in a file. Runs of version 1 have one text for both.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Whole(String),
    Parts {
        what: String,
        #[serde(default)]
        found: String,
    },
}

impl From<Written> for Check {
    fn from(written: Written) -> Self {
        match written {
            Written::Whole(what) => Self::of(what),
            Written::Parts { what, found } => Self { what, found },
        }
    }
}

impl Check {
    /// One that says itself what was found.
    pub(crate) fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), found: String::new() }
    }

    /// One in which this was found.
    pub(crate) fn found(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), found: found.into() }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.found.is_empty() { Ok(()) } else { write!(f, ", {}", self.found) }
    }
}

/// What one trial gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which plan of the study, from 0.
    #[serde(rename = "plan_index", alias = "part")]
    pub part: usize,
    /// Which block, from 0.
    pub block: u32,
    /// Which in the block's order.
    pub position: u32,
    /// The level of each factor, from 0.
    pub levels: Vec<usize>,
    /// The levels in words.
    pub labels: Vec<String>,
    /// When it began, `CLOCK_REALTIME`.
    pub started_ns: Nanos,
    /// How long it took, all in.
    #[serde(rename = "took_ns")]
    pub took: Nanos,
    /// What was measured.
    pub responses: BTreeMap<Response, f64>,
    /// What was checked and held.
    pub held: Vec<Check>,
    /// What did not hold: such a trial counts nowhere.
    pub broken: Vec<String>,
    /// What the packets show.
    pub evidence: Evidence,
    /// Over time (streams).
    pub series: Vec<Point>,
    /// What the client's TCP counted in that time, by the kernel's names. Between real hosts that
    /// is all of this host's traffic.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// The share of this machine's CPUs in use while it was measured, 0 to 1 (the upper quartile of
    /// fifths of a second).
    #[serde(default)]
    pub cpu_busy: Option<f64>,
    /// Every probe (`ping-under-load`).
    #[serde(default)]
    pub pings: Vec<Ping>,
    /// The path's report; absent over loopback and between real hosts.
    pub path: Option<PathReport>,
    /// The congestion control of the client's first connection, as its kernel named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
}

impl Trial {
    /// The trial of a plan at a place in its order, with nothing measured yet.
    pub fn at(plan: &Plan, part: usize, place: &Place) -> Self {
        let started = (place.block, place.position, place.levels.clone());
        Self { labels: plan.label(&place.levels), ..Self::begun(part, started) }
    }

    fn begun(part: usize, (block, position, levels): (u32, u32, Vec<usize>)) -> Self {
        Self {
            part,
            block,
            position,
            levels,
            labels: Vec::new(),
            started_ns: Nanos::ZERO,
            took: Nanos::ZERO,
            responses: BTreeMap::new(),
            held: Vec::new(),
            broken: Vec::new(),
            evidence: Evidence::default(),
            series: Vec::new(),
            counters: BTreeMap::new(),
            cpu_busy: None,
            pings: Vec::new(),
            path: None,
            congestion_control: None,
        }
    }

    /// One for tests, of one factor, that measured this goodput and nothing else.
    #[cfg(test)]
    pub(crate) fn of_goodput((part, block): (usize, u32), level: usize, goodput: f64) -> Self {
        let responses = BTreeMap::from([(Response::Goodput, goodput)]);
        Self { responses, ..Self::begun(part, (block, 0, vec![level])) }
    }

    /// Whether it counts.
    pub fn counts(&self) -> bool {
        self.broken.is_empty()
    }

    /// A response.
    pub fn response(&self, response: Response) -> Option<f64> {
        self.responses.get(&response).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_checked_and_what_was_found_stay_apart_in_a_file() {
        let found = Check::found("the path, both ways: delay asked", "20.0 ms, 20.1 ms");
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(text, r#"{"what":"the path, both ways: delay asked","found":"20.0 ms, 20.1 ms"}"#);
        assert_eq!(serde_json::from_str::<Check>(&text).unwrap(), found);
        assert_eq!(serde_json::from_str::<Check>(r#"{"what":"a"}"#).unwrap(), Check::of("a"));
        assert_eq!(serde_json::from_str::<Check>(r#""a, b""#).unwrap(), Check::of("a, b"));
    }
}
