//! Proportional Integral controller Enhanced, RFC 8033: drops (or marks) at the entry with a chance
//! that follows how long segments wait, compared with the target and with the last update.

use super::Segment;
use crate::direction::PieSettings;
use crate::random::Random;

/// Weights of the deviation from the target and of the change since the last update, for waits in
/// seconds (section 4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// How long a burst passes before anything is dropped, ns (section 4.4).
const MAX_BURST: u64 = 150_000_000;
/// A queue of two segments of this size is never dropped from (section 4.1).
const MEAN_SEGMENT: u64 = 1_538;
/// Above this chance segments are dropped even where they could be marked (section 5.1).
const MARK_BELOW: f64 = 0.1;

/// The state of RFC 8033, section 4.
#[derive(Clone, Debug)]
pub(super) struct Pie {
    target: u64,
    update: u64,
    ecn: bool,
    chance: f64,
    /// How long the last segment that left had waited, ns.
    wait: u64,
    /// The same at the last update.
    wait_before: u64,
    burst_left: u64,
    next_update: u64,
    random: Random,
}

impl Pie {
    pub(super) fn new(asked: PieSettings, random: Random) -> Self {
        Self {
            target: asked.target.0,
            update: asked.update.0.max(1),
            ecn: asked.ecn,
            chance: 0.0,
            wait: 0,
            wait_before: 0,
            burst_left: MAX_BURST,
            next_update: 0,
            random,
        }
    }

    /// The updates of the probability that are due by `now` (section 4.2).
    fn update_chance(&mut self, now: u64) {
        if self.next_update == 0 {
            self.next_update = now + self.update;
        }
        // Updates of a queue that has been empty this long have nothing left to take back: 0.98 to
        // this power is below 10⁻⁸.
        let missed = now.saturating_sub(self.next_update) / self.update;
        if missed > 1_000 {
            self.next_update += (missed - 1_000) * self.update;
        }
        while self.next_update <= now {
            self.next_update += self.update;
            let seconds = |ns: u64| ns as f64 / 1e9;
            let (wait, before, target) = (seconds(self.wait), seconds(self.wait_before), seconds(self.target));
            let change = ALPHA * (wait - target) + BETA * (wait - before);
            // Small chances move in small steps.
            let scale = match self.chance {
                p if p < 0.000_001 => 2_048.0,
                p if p < 0.000_01 => 512.0,
                p if p < 0.000_1 => 128.0,
                p if p < 0.001 => 32.0,
                p if p < 0.01 => 8.0,
                p if p < 0.1 => 2.0,
                _ => 1.0,
            };
            let change = change / scale;
            let change = if self.chance >= 0.1 { change.min(0.02) } else { change };
            self.chance += change;
            if self.wait == 0 && self.wait_before == 0 {
                self.chance *= 0.98;
            }
            self.chance = self.chance.clamp(0.0, 1.0);
            self.burst_left = self.burst_left.saturating_sub(self.update);
            let half = self.target / 2;
            if self.chance == 0.0 && self.wait < half && self.wait_before < half {
                self.burst_left = MAX_BURST;
            }
            self.wait_before = self.wait;
        }
    }

    /// Lets a segment in, marked where that is its fate, or gives it back to be dropped (sections
    /// 4.1 and 5.1). `waiting` bytes are in the queue.
    pub(super) fn admit<T>(
        &mut self,
        now: u64,
        mut segment: Segment<T>,
        waiting: u64,
    ) -> Result<Segment<T>, Segment<T>> {
        if waiting == 0 {
            self.wait = 0;
        }
        self.update_chance(now);
        let spared = self.burst_left > 0
            || (self.wait_before < self.target / 2 && self.chance < 0.2)
            || waiting <= 2 * MEAN_SEGMENT;
        if spared || !self.random.chance(self.chance) {
            return Ok(segment);
        }
        if self.ecn && segment.markable && self.chance <= MARK_BELOW {
            segment.marked = true;
            return Ok(segment);
        }
        Err(segment)
    }

    /// A segment left that had waited so long; `None` where there was none.
    pub(super) fn left(&mut self, now: u64, waited: Option<u64>) {
        self.update_chance(now);
        self.wait = waited.unwrap_or(0);
    }
}
