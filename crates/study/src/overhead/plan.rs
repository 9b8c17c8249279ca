//! What to measure, and for how long.

use std::time::Duration;

use super::load::{Cpus, Load};
use super::ways::{self, Way};
use crate::Error;

/// Blocks that a figure with an interval needs.
const FEWEST_BLOCKS: u32 = 6;
/// What attaching and detaching a way takes, about.
const ATTACH: Duration = Duration::from_millis(8);
/// How long the load rests after a way was attached or detached. The kernel goes on working on that
/// for some 30 ms, and streams are slower meanwhile by a tenth.
const SETTLE: Duration = Duration::from_millis(50);
/// How much longer than planned a load goes on at most, where a busy machine makes its blocks
/// longer.
const PATIENCE: u32 = 10;

/// What to measure, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Under which loads.
    pub loads: Vec<Load>,
    /// Which ways, beside nothing. Nothing again is always among them.
    pub ways: Vec<&'static Way>,
    /// How long a slice is, without its warm-up.
    pub slice: Duration,
    /// How long the load rests before each slice, so that what attaching and detaching leave to do
    /// is done.
    pub settle: Duration,
    /// How long the load runs before each slice, observed alike, and is not counted.
    pub warm_up: Duration,
    /// How long each load is measured.
    pub length: Duration,
    /// How long at most, where a busy machine makes the blocks that figures need take longer than
    /// `length`.
    pub at_most: Duration,
    /// Where the random draws begin.
    pub seed: u64,
    /// The CPUs to run on.
    pub cpus: Cpus,
}

impl Plan {
    /// Every way there is, under sends of 1, 16 and 128 KiB and under request and response; the
    /// quick form, fewer ways for few seconds of each load.
    ///
    /// # Errors
    /// [`Error::Setting`] where there are not two CPUs to run on.
    pub fn whole(quick: bool, seed: u64) -> Result<Self, Error> {
        let loads = vec![Load::Stream(1 << 10), Load::Stream(16 << 10), Load::Stream(128 << 10), Load::Exchange];
        let (slice, length) = if quick { (10, 8) } else { (30, 120) };
        Ok(Self {
            loads,
            ways: if quick { ways::quick() } else { ways::ALL.iter().collect() },
            slice: Duration::from_millis(slice),
            settle: SETTLE,
            warm_up: Duration::from_millis(slice / 3),
            length: Duration::from_secs(length),
            at_most: Duration::from_secs(length) * PATIENCE,
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
        Ok(Self { loads, ways: ways::with_bars(), length, at_most: length * PATIENCE, ..Self::whole(false, seed)? })
    }

    /// Why this is too short for figures, where it is: with the length that would do.
    pub fn too_short(&self) -> Option<String> {
        let pairs: u32 = self.ways.iter().map(|way| way.pairs()).sum();
        // Each pair is two slices with what comes before them, and what it takes to attach and
        // detach.
        let block = (self.settle + self.warm_up + self.slice) * pairs * 2 + ATTACH * pairs;
        let needed = block * FEWEST_BLOCKS;
        (self.length < needed).then(|| {
            format!(
                "{} a load is too short for figures of {} ways: it takes about {} (a longer --budget, or --quick for fewer ways)",
                record::Nanos::from(self.length),
                self.ways.len(),
                record::Nanos::from(needed)
            )
        })
    }

    /// Takes no longer than this, about.
    pub fn spend(&mut self, budget: Duration) {
        let each = budget / self.loads.len().max(1) as u32;
        self.length = self.length.min(each);
        self.at_most = self.at_most.min(each);
    }

    /// Whether a load goes on after so many blocks in so much time: for the time planned, and
    /// longer where there are too few blocks for figures.
    pub(super) fn goes_on(&self, blocks: u32, elapsed: Duration) -> bool {
        blocks == 0 || elapsed < self.length || (blocks < FEWEST_BLOCKS && elapsed < self.at_most)
    }

    /// How long it all takes, about.
    pub fn forecast(&self) -> Duration {
        self.length * self.loads.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_has_the_blocks_that_figures_need() {
        let second = Duration::from_secs(1);
        let mut plan = Plan {
            loads: vec![Load::Exchange; 4],
            ways: ways::quick(),
            slice: Duration::from_millis(10),
            settle: SETTLE,
            warm_up: Duration::from_millis(3),
            length: second * 8,
            at_most: second * 80,
            seed: 1,
            cpus: Cpus { sender: 0, others: 1 },
        };
        let planned = plan.length;
        assert!(plan.goes_on(FEWEST_BLOCKS, planned / 2) && !plan.goes_on(FEWEST_BLOCKS, planned));
        // Blocks that take longer than planned are waited for, until the limit.
        assert!(plan.goes_on(FEWEST_BLOCKS - 1, planned * 2) && !plan.goes_on(FEWEST_BLOCKS - 1, plan.at_most));
        // A budget is kept.
        plan.spend(second * 4);
        assert!(!plan.goes_on(1, second));
    }
}
