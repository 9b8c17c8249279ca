//! What people and machines see of a trace.
//!
//! **Does:** draws a [`summary::TraceSummary`] as text ([`view`]) for a given [`Canvas`], and runs, captures and studies as pages.
//!
//! **Does not:** ask the terminal or the clock anything, open files, or decide where output goes. Width, colour and
//! characters are parameters.
//!
//! **Guarantees:** a figure is shown with its unit and its n; a percentile that too few sends carry is not shown; what
//! is not there is `—` with the reason under the table; losses are shown whenever there are any.

mod canvas;
mod colour;
mod described;
pub mod document;
pub mod field;
pub mod html;
pub mod live;
pub mod page;
pub mod plot;
mod table;
pub mod terminal;
pub mod view;

pub use canvas::{Canvas, Ink};
