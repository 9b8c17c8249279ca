//! What people and machines see of a trace.
//!
//! **Does:** describes a [`summary::TraceSummary`], runs, captures and studies as documents, and draws these as text for a given [`Canvas`], as pages and
//! as images; shows a trace while it goes on ([`live`]).
//!
//! **Does not:** ask the terminal or the clock anything, open files, or decide where output goes. Width, colour and
//! characters are parameters.
//!
//! **Guarantees:** a figure is shown with its unit and its n; a percentile that too few sends carry is not shown; what
//! is not there is `—` with the reason under the table; losses are shown whenever there are any.

#![forbid(unsafe_code)]

mod canvas;
mod colour;
pub mod csv;
mod described;
pub mod document;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
pub mod html;
mod hue;
pub mod line;
pub mod live;
pub mod page;
pub mod plot;
mod table;
pub mod terminal;
pub mod view;

pub use canvas::{Canvas, Ink};
pub use record::steers;
