//! What people read, as values, and how it is drawn.
//!
//! **Does:** holds a page as a [`document::Document`] of headlines, tables, plots and notes, and
//! draws it as text for a given [`Canvas`], as HTML, as CSV and as images.
//!
//! **Does not:** know what a page is about: no trace, capture, study or query. It asks the terminal
//! and the clock nothing, opens no file, and does not decide where output goes. Width, colour and
//! characters are parameters.
//!
//! **Guarantees:** nothing foreign that steers a terminal or a browser reaches either; what has no
//! room is cut where that shows.

#![forbid(unsafe_code)]

mod canvas;
pub mod csv;
pub mod document;
pub mod graph;
pub mod harmless;
pub mod html;
mod hue;
pub mod plot;
mod table;
pub mod terminal;
mod text;

pub use canvas::{Canvas, Ink};
pub use record::steers;
