//! What people and machines see of a trace.
//!
//! **Does:** describes a [`summary::TraceSummary`], runs, captures and studies as documents, which
//! `paper` draws; shows a trace while it goes on ([`live`]).
//!
//! **Does not:** ask the terminal or the clock anything, open files, or decide where output goes.
//! Width, colour and characters are parameters.
//!
//! **Guarantees:** a figure is shown with its unit and its n; a percentile that too few sends carry
//! is not shown; what is not there is `—` with the reason under the table; losses are shown
//! whenever there are any.

#![forbid(unsafe_code)]

mod colour;
mod described;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
pub mod line;
pub mod live;
pub mod page;
pub mod view;
