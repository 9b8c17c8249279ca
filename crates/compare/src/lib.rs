//! Two sides of measurements, compared: what differs, by how much, and how surely.
//!
//! **Does:** judges one figure of both sides as a [`Change`]: both values, the difference or the
//! ratio with its interval and its n, the smallest change that would have been seen, and a
//! [`Verdict`]. A side is a run that is cut into stretches ([`quantiles`], [`mean`]), several runs
//! that are one value each ([`Runs`]), trials in blocks ([`Blocks`]), or the hours of a week
//! ([`fleet`]). Divides a difference of means among the groups it is made of ([`divide()`]).
//!
//! **Does not:** know what the figures are of, read runs, or choose words: what is specific to a
//! kind of data stays with that data, and pages say it.
//!
//! **Guarantees:** pure; the same values give the same intervals. Figures that are judged together
//! ([`confidence`]) hold together: at most one comparison in twenty names any difference where
//! there is none.

#![forbid(unsafe_code)]

mod blocks;
mod change;
mod divide;
pub mod fleet;
mod runs;
mod stretches;

pub use blocks::{Blocks, Unjudged};
pub use change::{Change, Scale, Verdict, WIDEST, is_known, largest};
pub use divide::{Part, Times, divide};
pub use runs::Runs;
pub use stretches::{mean, quantiles, quantiles_together};

/// The confidence of a figure that is judged alone.
pub const ALONE: f64 = 1.0 - stats::LEVEL;

/// Of the generator of every resampling: the same runs give the same intervals.
const SEED: u64 = 1;

/// The confidence of each of so many intervals for all of them to hold at the same time with
/// [`ALONE`] (Bonferroni).
pub fn confidence(intervals: usize) -> f64 {
    1.0 - stats::LEVEL / intervals.max(1) as f64
}
