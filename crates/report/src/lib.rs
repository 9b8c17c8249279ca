//! What people and machines see of a trace.
//!
//! **Does:** gathers events into a [`TraceSummary`] of bounded memory, draws it as text ([`view`]) for a given [`Canvas`],
//! and exports events as they come: [`ndjson`] and [`perfetto`], one file per format.
//!
//! **Does not:** ask the terminal or the clock anything, open files, or decide where output goes. Width, colour and
//! characters are parameters; exporters write into whatever the caller gives them.
//!
//! **Guarantees:** a figure is shown with its unit and its n; a percentile that too few sends carry is not shown; what
//! is not there is `—` with the reason under the table; losses are shown whenever there are any.

mod canvas;
mod colour;
mod described;
pub mod document;
pub mod field;
pub mod html;
mod json;
pub mod live;
pub mod ndjson;
pub mod page;
pub mod perfetto;
pub mod plot;
mod protobuf;
mod table;
pub mod terminal;
pub mod view;

pub use canvas::{Canvas, Ink};
