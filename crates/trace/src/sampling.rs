//! Sampling windows: when the followed connections are armed.
//!
//! Time is cut into periods of `N` window lengths. In each period there is one window, at a place drawn at random, so every
//! moment has the same chance of `1/N` to be in a window, whatever rhythm the traffic has.

/// A window is this long, ns: many round trips of a local network, and short against what people look at.
pub(crate) const WINDOW_NS: u64 = 10_000_000;

/// Draws windows. The caller passes the time (monotonic ns).
#[derive(Debug)]
pub(crate) struct Windows {
    every: u32,
    period_start: u64,
    next: u64,
    random: u64,
}

impl Windows {
    /// One window in each period of `every` window lengths, from `now` on. The same seed draws the same windows.
    pub(crate) fn new(every: u32, now: u64, seed: u64) -> Self {
        let mut windows = Self { every: every.max(1), period_start: now, next: 0, random: seed | 1 };
        windows.draw();
        windows
    }

    fn period(&self) -> u64 {
        u64::from(self.every) * WINDOW_NS
    }

    fn draw(&mut self) {
        // xorshift64*: https://doi.org/10.18637/jss.v072.i06 is more than is needed, but costs nothing.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let drawn = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d);
        let room = self.period() - WINDOW_NS;
        self.next = self.period_start + ((u128::from(drawn) * u128::from(room + 1)) >> 64) as u64;
    }

    /// The end of the window that is to be opened at `now`, if one is. A window that was missed (the caller came too late) is
    /// opened late and keeps its length, so the share stays right.
    pub(crate) fn due(&mut self, now: u64) -> Option<u64> {
        if now < self.next {
            return None;
        }
        self.period_start = (self.period_start + self.period()).max(now.saturating_sub(self.period()));
        self.draw();
        Some(now + WINDOW_NS)
    }

    /// How many window lengths make a period.
    pub(crate) fn every(&self) -> u32 {
        self.every
    }

    /// From the next period on, one window in `every`.
    pub(crate) fn set_every(&mut self, every: u32) {
        self.every = every.max(1);
    }

    /// When the next window opens.
    #[cfg(test)]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_share_is_the_one_asked_for(every in 1u32..200, seed: u64) {
            let mut windows = Windows::new(every, 0, seed);
            let (mut now, mut opened) = (0, 0u64);
            let periods = 50;
            let end = periods * u64::from(every) * WINDOW_NS;
            while now < end {
                if windows.due(now).is_some() {
                    opened += 1;
                }
                now += WINDOW_NS / 5;
            }
            prop_assert!(opened.abs_diff(periods) <= 1, "{opened} windows in {periods} periods");
        }

        #[test]
        fn windows_fall_everywhere_in_a_period(seed: u64) {
            let mut windows = Windows::new(10, 0, seed);
            let mut hit = [0u32; 10];
            let mut now = 0;
            while now < 2_000 * WINDOW_NS * 10 {
                now = windows.next();
                windows.due(now);
                hit[((now % (10 * WINDOW_NS)) / WINDOW_NS) as usize] += 1;
            }
            // The last tenth can only be reached by a window that begins at its very start.
            prop_assert!(hit[..9].iter().all(|&n| (120..=340).contains(&n)), "{hit:?}");
        }
    }
}
