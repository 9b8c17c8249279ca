//! Where a run comes from: what made it, on what, and how.

use clock::{Conversion, Monotonic, Nanos, Realtime};
use serde::{Deserialize, Serialize};

use crate::{Ratio, Sampling};

/// How sends were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingMethod {
    /// All of them.
    Every,
    /// By arming connections in short windows.
    Windows,
    /// By drawing for each send.
    Draws,
}

/// The sampling that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingAsked {
    /// How sends are chosen.
    pub method: SamplingMethod,
    /// One in this many; 1 for every send.
    pub one_in: u32,
}

impl From<Sampling> for SamplingAsked {
    fn from(sampling: Sampling) -> Self {
        let (method, ratio) = match sampling {
            Sampling::Every => (SamplingMethod::Every, Ratio::ALL),
            Sampling::Windows(ratio) => (SamplingMethod::Windows, ratio),
            Sampling::Draws(ratio) => (SamplingMethod::Draws, ratio),
        };
        Self { method, one_in: ratio.0.get() }
    }
}

/// The clock of every `_ns` column that is a moment, and how to get to the time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// What to add to a `CLOCK_MONOTONIC` reading to get `CLOCK_REALTIME`, nanoseconds.
    pub realtime_offset_ns: i64,
    /// The bound on the error of the offset, to either side. Drift during the run is not in it.
    pub realtime_offset_error_ns: u64,
}

impl From<Conversion<Monotonic, Realtime>> for ClockReading {
    fn from(conversion: Conversion<Monotonic, Realtime>) -> Self {
        Self { realtime_offset_ns: conversion.offset, realtime_offset_error_ns: conversion.error.0 }
    }
}

impl ClockReading {
    /// As a conversion that carries its error.
    pub fn conversion(self) -> Conversion<Monotonic, Realtime> {
        Conversion::new(self.realtime_offset_ns, Nanos(self.realtime_offset_error_ns))
    }
}

/// What made a run, on what, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of Wirelapse.
    pub version: String,
    /// The command line, word by word.
    pub command_line: Vec<String>,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine hardware name (`uname -m`).
    pub machine: String,
    /// CPUs online.
    pub cpus: u32,
    /// The backend that took the stamps: `timestamping` or `tracepoints`.
    pub backend: String,
    /// What was traced, in words.
    pub target: String,
    /// The sampling asked for.
    pub sampling: SamplingAsked,
    /// At most this many sends a second were recorded; null for no limit.
    pub max_rate: Option<u64>,
    /// The clock of the run.
    pub clock: ClockReading,
    /// When tracing began, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// How received bytes were observed; null where they were not followed.
    #[serde(default)]
    pub receiving: Option<Receiving>,
    /// How packets and datagrams were observed; null where they were not.
    #[serde(default)]
    pub packets: Option<Observing>,
    /// What the path of the lab that the traced program lives in reported, with the lab's name in `lab`. `None` where no
    /// traced process was seen in a lab that has a name.
    pub path: Option<serde_json::Value>,
}

/// How packets and datagrams were observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observing {
    /// What could not be seen, each with its reason.
    pub missing: Vec<String>,
    /// What reached beyond the target while the trace ran, and what it costs there.
    pub host_wide: Vec<String>,
}

/// How received bytes were observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receiving {
    /// Why there is no `driver_rx` stage; null where there is.
    pub no_driver_rx: Option<String>,
    /// Why there is no `ready` stage; null where there is.
    pub no_ready: Option<String>,
    /// What reached beyond the target while the trace ran, and what it costs there.
    pub host_wide: Vec<String>,
}
