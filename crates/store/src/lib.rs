//! Runs on disk: a directory with `run.json` and Parquet tables.
//!
//! **Does:** writes what a tracer tells while it tells it ([`Writer`]), in parts that are whole files each, and reads it
//! back ([`Run`]); keeps the figures of a study ([`study`]) and the connections of a capture ([`capture`]) in the same
//! layout. `docs/runs.md` describes that layout, every column and every key.
//!
//! **Does not:** interpret anything, read a clock, or print. The caller passes the events and the time.
//!
//! **Guarantees:** a file under its final name is complete: parts and `run.json` are written under another name and
//! renamed. A writer that is killed leaves all finished parts readable; a disk that fills up does too, and the error
//! says so. A directory that exists is never written into.

pub mod capture;
mod column;
mod connections;
mod datagrams;
mod error;
mod packets;
mod part;
mod provenance;
mod reader;
mod receives;
mod requests;
mod row;
mod run_file;
mod sends;
pub mod study;
mod totals;
mod writer;

pub use column::{Cell, Column, Kind};
pub use error::Error;
pub use provenance::{Rows, Seen, State};
pub use reader::Run;
pub use record::{ClockReading, Observing, Provenance, Receiving, SamplingAsked, SamplingMethod};
pub use run_file::{RunKind, kind};
pub use totals::ClosedConnection;
pub use writer::Writer;

/// The version of the layout, in `run.json` as `schema` and in each Parquet file's metadata as `wirelapse.schema`.
/// A new column or key leaves it as it is; a change of meaning or a removal raises it.
pub const SCHEMA: u32 = 1;

/// The columns of each table, in the order of the files: table, then name, kind, and whether it may be null. For
/// documentation and for whoever checks it.
pub fn tables() -> impl Iterator<Item = (&'static str, &'static str, Kind, bool)> {
    fn of<T>(
        table: &'static str,
        columns: &'static [Column<T>],
    ) -> impl Iterator<Item = (&'static str, &'static str, Kind, bool)> {
        columns.iter().map(move |c| (table, c.name, c.kind, c.nullable))
    }
    of("connections", connections::COLUMNS)
        .chain(of("sends", sends::COLUMNS))
        .chain(of("receives", receives::COLUMNS))
        .chain(of("requests", requests::COLUMNS))
        .chain(of("packets", packets::COLUMNS))
        .chain(of("datagrams", datagrams::COLUMNS))
        .chain(of("totals", totals::COLUMNS))
        .chain(of("trials", study::TRIALS))
        .chain(of("factors", study::FACTORS))
        .chain(of("series", study::SERIES))
        .chain(of("pings", study::PINGS))
        .chain(of("comparisons", study::COMPARISONS))
        .chain(of("conversations", capture::CONVERSATIONS))
        .chain(of("findings", capture::FINDINGS))
}
