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

macro_rules! rows {
    ([] $($(#[$doc:meta])* $table:ident: $variant:ident($holds:ty) of $record:ident, $presence:ident, $place:ident, $times:ident;)*) => {
        /// Rows in the finished parts of each table.
        // A run of an earlier version may lack tables: then they have none.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Rows {
            $(
                #[doc = concat!("Those of [`record::", stringify!($record), "`].")]
                pub $table: u64,
            )*
            /// Buckets of histograms.
            pub histograms: u64,
            /// Connections with their totals.
            pub totals: u64,
        }

        impl Rows {
            /// The tables of the kinds of record, by their names.
            pub fn of_kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($table), self.$table)),*].into_iter()
            }
        }
    };
}

record::kinds!([rows]);

/// `run.json`, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunFile {
    pub schema: u32,
    #[serde(default)]
    pub kind: RunKind,
    pub state: State,
    #[serde(flatten, with = "record::table::object")]
    pub provenance: Provenance,
    /// What the path of the lab reported that the traced program lives in, with the lab's name in
    /// `lab`.
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
