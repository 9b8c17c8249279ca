//! Distributions of measured values, and what can honestly be said of them.
//!
//! **Does:** keeps a [`Distribution`] of any number of values in bounded memory, gives its quantiles where there are
//! enough values to carry them, and an interval for each that assumes nothing of the shape of the distribution.
//!
//! **Does not:** know units (the caller's values are nanoseconds, bytes or counts), read a clock, or make a system call.
//!
//! **Guarantees:** `n`, `min` and `max` are exact; a quantile is within the distribution's [`Precision`] of the value
//! with that rank; nothing panics on any value.

mod distribution;
mod interval;

pub use distribution::{Distribution, Precision, Quantile};
pub use interval::{Ranks, quantile_ranks};
