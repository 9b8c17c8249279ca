//! What to measure, and for how long.

use std::time::Duration;

use super::load::{Cpus, Load};
use super::ways::{self, Way};
use crate::Error;

/// What to measure, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Under which loads.
    pub loads: Vec<Load>,
    /// Which ways, beside nothing. Nothing again is always among them.
    pub ways: Vec<&'static Way>,
    /// How long a slice is, without its warm-up.
    pub slice: Duration,
    /// How long the load runs before each slice, observed alike, and is not counted.
    pub warm_up: Duration,
    /// How long each load is measured.
    pub length: Duration,
    /// Where the random draws begin.
    pub seed: u64,
    /// The CPUs to run on.
    pub cpus: Cpus,
}

impl Plan {
    /// Every way there is, under sends of 1, 16 and 128 KiB and under request and response; the quick form, few seconds of each.
    ///
    /// # Errors
    /// [`Error::Setting`] where there are not two CPUs to run on.
    pub fn whole(quick: bool, seed: u64) -> Result<Self, Error> {
        let loads = vec![Load::Stream(1 << 10), Load::Stream(16 << 10), Load::Stream(128 << 10), Load::Exchange];
        let (slice, length) = if quick { (10, 4) } else { (30, 120) };
        Ok(Self {
            loads,
            ways: ways::ALL.iter().collect(),
            slice: Duration::from_millis(slice),
            warm_up: Duration::from_millis(slice / 3),
            length: Duration::from_secs(length),
            seed,
            cpus: Cpus::choose()?,
        })
    }

    /// The ways and loads that the bars are about.
    ///
    /// # Errors
    /// As of [`Plan::whole`].
    pub fn of_bars(length: Duration, seed: u64) -> Result<Self, Error> {
        let loads = vec![Load::Stream(1 << 10), Load::Stream(16 << 10)];
        Ok(Self { loads, ways: ways::with_bars(), length, ..Self::whole(false, seed)? })
    }

    /// Takes no longer than this, about.
    pub fn spend(&mut self, budget: Duration) {
        self.length = self.length.min(budget / self.loads.len().max(1) as u32);
    }

    /// How long it all takes, about.
    pub fn forecast(&self) -> Duration {
        self.length * self.loads.len() as u32
    }
}
