//! Times that know which clock they were read from, and durations that are never negative.
//!
//! **Does:** instants ([`Instant`]) of a clock that is part of their type, durations ([`Nanos`]),
//! timestamps with source and error bound ([`Timestamp`]), and conversions between clocks that
//! carry their own error ([`Conversion`]).
//!
//! **Does not:** read a clock or make any other system call. The caller passes readings in.
//!
//! **Guarantees:** two instants of different clocks do not subtract (a compile error); an
//! impossible order is a value ([`Disorder`]), never a wrapped number; sums saturate; nothing
//! panics.

#![forbid(unsafe_code)]

mod disorder;
mod instant;
mod nanos;

pub use disorder::Disorder;
pub use instant::{Clock, Conversion, Instant, Monotonic, Phc, Realtime, Source, Tai, Timestamp};
pub use nanos::Nanos;

/// The example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
