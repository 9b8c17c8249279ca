//! Distributions of measured values, and what can honestly be said of them.
//!
//! **Does:** keeps a [`Distribution`] of any number of values in bounded memory, gives its
//! quantiles where there are enough values to carry them, and an interval for each that assumes
//! nothing of the shape of the distribution; where some values are only known to be at least so
//! large, [`censored_quantile`]. Says of an experiment what a setting is worth
//! ([`Comparison`]), with intervals, rank and permutation tests, effects of a factorial plan
//! ([`effects`]), steps along a swept factor ([`steps`]), drift and outliers, and how two
//! distributions differ ([`kolmogorov_smirnov`], [`quantile_shift`]). Counts what was lost of
//! numbered datagrams ([`sequence`]).
//!
//! **Does not:** know units (the caller's values are nanoseconds, bytes or counts; a
//! [`DurationSummary`] and a [`sequence::Jitter`] alone are of times), read a clock, or make a
//! system call.
//!
//! **Guarantees:** `n`, `min` and `max` are exact; a quantile is within the distribution's
//! [`Precision`] of the value with that rank; nothing panics on any value. Whatever draws random
//! numbers takes a seed, and gives the same result for the same seed on every machine.

#![forbid(unsafe_code)]

mod bootstrap;
mod censored;
mod difference;
mod distribution;
mod drift;
mod durations;
mod factorial;
mod interval;
mod judgement;
mod level;
mod neighbours;
pub mod permutation;
mod rank;
mod sample;
pub mod sequence;
mod series;
mod shift;
mod step;
mod stretch;
mod unpaired;

pub use bootstrap::{Estimate, FEWEST_RESAMPLED, Method, bca, mean_interval, median_interval, student_p};
pub use censored::censored_quantile;
pub use difference::{Comparison, cliffs_delta, hedges_g};
pub use distribution::{Distribution, Precision, Quantile};
pub use drift::{Trend, outliers, trend};
pub use durations::DurationSummary;
pub use factorial::{Cell, Effect, Effects, effects};
pub use interval::{Ranks, quantile_ranks};
pub use judgement::{Judgement, LEVEL};
pub use level::{LevelChange, level_changes, level_changes_that_stand_out, scatter};
pub use neighbours::Neighbours;
pub use rank::{mann_whitney, wilcoxon};
pub use sample::{deviation, mean, median, quantile};
pub use series::{series_difference, series_mean};
pub use shift::{KolmogorovSmirnov, kolmogorov_smirnov, quantile_shift};
pub use step::{Search, Step, steps};
pub use stretch::{FEWEST_BEYOND, FEWEST_STRETCHES, Shifted, mean_shift, shifts, stretched};
pub use unpaired::{mean_difference, mean_difference_seen};

/// The example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
