//! SQL over runs: one directory of them, a fleet's year on a disk, or a bucket.
//!
//! **Does:** finds the runs below a place by their `run.json` (`place`), presents their tables as
//! one each (`table`), with the host, the run and the time on every row, opens only the parts that
//! a query can need, and answers queries with DataFusion ([`Session`]), here or on a cluster
//! ([`cluster`]).
//!
//! **Does not:** write anything below that place, or change data: a query only reads. What is added
//! up from finished runs is kept in the user's cache directory (`rollup`).
//!
//! **Guarantees:** a part that cannot be read is named, skipped and counted, never skipped
//! silently. A run without a table has no rows in it, which is not an error; a place without runs
//! is one.

#![forbid(unsafe_code)]

pub mod arguments;
mod catalog;
#[cfg(feature = "cluster")]
pub mod cluster;
mod complaint;
pub mod confined;
pub mod drawn;
mod error;
mod flags;
mod fleet;
mod footer;
mod hours;
mod joins;
mod late;
mod listing;
mod named;
pub mod out;
pub mod output;
mod owners;
mod place;
mod progress;
pub mod prompt;
mod prune;
mod rollup;
mod runs;
mod scans;
mod service_map;
mod session;
mod shape;
mod stores;
mod table;
pub mod threads;
mod through;
mod views;
pub mod weeks;

pub use catalog::{Catalog, Moment, Shape};
pub use error::Error;
pub use fleet::{Fleet, Run};
pub use listing::{list, schema};
pub use named::{NAMED, Named, find as named};
pub use output::Format;
pub use place::Place;
pub use session::{Answer, Options, Session};
pub use views::{VIEWS, View};
