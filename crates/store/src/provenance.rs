//! Where a run comes from: `run.json`.

use record::{Coverage, Lost, Provenance, words};
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

words! {
    State: Unfinished = "unfinished", Finished = "finished";
}

/// Rows in the finished parts of each table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// Connections.
    pub connections: u64,
    /// Attempts to set up a connection; none in a run of an earlier version.
    #[serde(default)]
    pub connects: u64,
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
    /// Buckets of histograms; likewise.
    #[serde(default)]
    pub histograms: u64,
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
    #[serde(flatten, with = "record::table::object")]
    pub provenance: Provenance,
    /// What the path of the lab reported that the traced program lives in, with the lab's name in `lab`.
    pub path: Option<serde_json::Value>,
    /// Null until the run is finished.
    pub end_ns: Option<u64>,
    pub rows: Option<Rows>,
    // A run of an earlier version has no counter of what it did not count.
    #[serde(with = "record::table::object::counters")]
    pub lost: Option<Lost>,
    #[serde(with = "record::table::object::counters")]
    pub coverage: Option<Coverage>,
}
