//! Draws from a seed: the same ones on every machine.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// One generator of a seed.
pub(crate) struct Draw(Pcg64Mcg);

impl Draw {
    /// A generator for `seed`; what `stream` of it gives says nothing of the others.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        // An odd factor makes every stream's seed another one.
        Self(Pcg64Mcg::seed_from_u64(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// True with chance `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.0.random::<f64>() < p
    }

    /// Evenly from `low` to `high`.
    pub(crate) fn even(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }

    /// From `low` to `high`, evenly on a logarithmic scale: sizes that people meet span decades.
    pub(crate) fn log(&mut self, low: f64, high: f64) -> f64 {
        self.even(low.ln(), high.ln()).exp()
    }

    /// From `low` to `high`, both included.
    pub(crate) fn whole(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high)
    }

    /// The place of one of these weights, by its part of their sum.
    pub(crate) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut at = self.even(0.0, weights.iter().sum());
        for (place, weight) in weights.iter().enumerate() {
            at -= weight;
            if at < 0.0 {
                return place;
            }
        }
        weights.len() - 1
    }
}
