//! Runs on disk: a directory with `run.json` and Parquet tables.
//!
//! **Does:** writes what a tracer reports as it comes ([`Writer`]), in parts that are whole files
//! each, and reads it back ([`Run`]); keeps the figures of a study ([`study`]), the connections of
//! a capture ([`capture`]) and what came of a workload ([`workload`]) in the same layout.
//! `docs/runs.md` describes that layout, every column and every key.
//!
//! **Does not:** interpret anything, read a clock, or print. The caller passes the events and the
//! time.
//!
//! **Guarantees:** a file under its final name is complete: parts and `run.json` are written under
//! another name and renamed. A writer that is killed leaves all finished parts readable; a disk
//! that fills up does too, and the error says so. A directory that exists is never written into.

#![forbid(unsafe_code)]

pub mod capture;
mod column;
mod error;
mod histogram;
mod joined;
mod part;
mod provenance;
mod reader;
pub mod regular;
pub mod rotating;
mod row;
mod run_file;
pub mod study;
pub mod workload;
mod writer;

pub use error::Error;
pub use histogram::{Bucket, CgroupId, HistogramRow, Named, RunRow};
pub use provenance::{Rows, State};
pub use reader::Run;
pub use record::{ClockReading, ClosedConnection, Observing, Provenance, Receiving, SamplingAsked, SamplingMethod};
pub use run_file::{LONGEST, RunKind, begin, kind};
pub use writer::Writer;

/// The version of the layout, in `run.json` as `schema` and in each Parquet file's metadata as
/// `wirelapse.schema`. A new column or key leaves it as it is; a change of meaning or a removal
/// raises it.
pub const SCHEMA: u32 = 3;

/// The earliest version of the layout that is read. In version 1 the flags of packets were the byte
/// of the header; up to version 2 some columns had the names that [`record::table::Column::former`]
/// holds.
pub const EARLIEST_SCHEMA: u32 = 1;
