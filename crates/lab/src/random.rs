//! The draws of the path: the same seed gives the same fates on every machine.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// One generator of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    /// A generator for `seed`; different `stream`s of one seed are independent of each other.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        // An odd factor makes every stream's seed another one; `seed_from_u64` mixes it into the
        // whole state.
        Self(Pcg64Mcg::seed_from_u64(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// True with chance `p`, 0 to 1.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.0.random::<f64>() < p
    }

    /// Evenly from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// Normal, of mean 0 and variance 1 (Box and Muller; of each pair the first).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.random::<f64>()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.random::<f64>()).cos()
    }
}
