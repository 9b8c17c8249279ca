//! Where a run comes from: `run.json`.

use record::{Coverage, Lost, Nanos, Provenance};
use serde::{Deserialize, Serialize};

use crate::run_file::RunKind;

/// Whether a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being written, or its writer was killed.
    Unfinished,
    /// It ended as it should.
    Finished,
}

/// How much of the traffic was seen, in the form of `run.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Time for which connections were followed, summed over them.
    pub followed_ns: u64,
    /// Of this, the time for which they were armed.
    pub armed_ns: u64,
    /// Bytes written on these connections, by TCP's own counters.
    pub bytes_written: u64,
    /// Of these, the bytes written while armed.
    pub bytes_armed: u64,
}

impl From<Coverage> for Seen {
    fn from(c: Coverage) -> Self {
        Self {
            followed_ns: c.followed.0,
            armed_ns: c.armed.0,
            bytes_written: c.bytes_written,
            bytes_armed: c.bytes_armed,
        }
    }
}

impl From<Seen> for Coverage {
    fn from(s: Seen) -> Self {
        Self {
            followed: Nanos(s.followed_ns),
            armed: Nanos(s.armed_ns),
            bytes_written: s.bytes_written,
            bytes_armed: s.bytes_armed,
        }
    }
}

/// Rows in the finished parts of each table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// Connections.
    pub connections: u64,
    /// Sends.
    pub sends: u64,
    /// Receives; none in a run of an earlier version.
    #[serde(default)]
    pub receives: u64,
    /// Requests; likewise.
    #[serde(default)]
    pub requests: u64,
    /// Packets of TCP; likewise.
    #[serde(default)]
    pub packets: u64,
    /// Datagrams of UDP; likewise.
    #[serde(default)]
    pub datagrams: u64,
    /// Connections with their totals.
    pub totals: u64,
}

/// `run.json`, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunFile {
    pub schema: u32,
    #[serde(default)]
    pub kind: RunKind,
    pub state: State,
    #[serde(flatten)]
    pub provenance: Provenance,
    /// Null until the run is finished.
    pub end_ns: Option<u64>,
    pub rows: Option<Rows>,
    pub lost: Option<Lost>,
    pub coverage: Option<Seen>,
}
