//! What people and machines see of a trace.
//!
//! **Does:** gathers events into a [`Summary`] of bounded memory, draws it as text ([`view`]) for a given [`Canvas`],
//! and exports events as they come: [`ndjson`] and [`perfetto`], one file per format.
//!
//! **Does not:** ask the terminal or the clock anything, open files, or decide where output goes. Width, colour and
//! characters are parameters; exporters write into whatever the caller gives them.
//!
//! **Guarantees:** a figure is shown with its unit and its n; a percentile that too few sends carry is not shown; what
//! is not there is `—` with the reason under the table; losses are shown whenever there are any.

mod aggregate;
mod canvas;
pub mod document;
pub mod family;
pub mod field;
pub mod html;
mod json;
pub mod live;
mod longest;
pub mod ndjson;
mod packets;
pub mod page;
pub mod perfetto;
pub mod plot;
mod protobuf;
mod receives;
mod records;
mod requests;
mod slowest;
mod summary;
mod table;
mod tally;
pub mod terminal;
pub mod view;
mod whose;

pub use aggregate::{Aggregate, LegStats, WaitStats};
pub use canvas::{Canvas, Ink};
pub use longest::Longest;
pub use packets::{Datagrams, Drops, Packets};
pub use receives::Receives;
pub use records::{Records, Slow};
pub use requests::{BASES, Requests, RoleRequests};
pub use slowest::{SlowSend, Slowest};
pub use summary::{ConnectionSummary, Limits, Others, Summary};
pub use tally::{Tallies, Tally};
pub use whose::Whose;
