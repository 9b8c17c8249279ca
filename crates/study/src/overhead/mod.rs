//! What observing costs: one connection under load, observed in turn in every way there is, in
//! slices of tens of milliseconds.
//!
//! All is on one connection over loopback. A way is loaded once and put on the connection for a
//! slice and taken off again; each slice has beside it one without anything, in random order, and
//! what counts is the ratio of the two, so that a machine with a speed that changes over seconds
//! does not matter. Nothing against nothing is one of the ways and says how far the rest can be
//! trusted.

pub mod instructions;
mod load;
mod measure;
mod observer;
mod outcome;
mod plan;
mod processes;
mod stamps;
mod ways;

pub use load::{Cpus, Load, Slice};
pub use measure::{Progress, run};
pub use outcome::{Bar, LoadCosts, Missing, Outcome, Row, TRUSTED, Verdict};
pub use plan::Plan;
pub use ways::{ALL, Key, Way, find, with_bars};
