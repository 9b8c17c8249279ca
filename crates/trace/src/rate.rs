//! Holding the rate of records below what was asked for, by making sampling windows rarer.

use std::num::NonZeroU32;

use record::{Instant, Monotonic, Nanos};

/// How often the rate is looked at.
const PERIOD: Nanos = Nanos::from_millis(500);

/// How many sends a second there are, against how many there may be.
#[derive(Debug)]
pub(crate) struct Rate {
    most: NonZeroU32,
    /// Windows are never more frequent than one in so many window lengths.
    least: u32,
    checked: Instant<Monotonic>,
    sends: u64,
}

impl Rate {
    /// At most `most` sends a second from `now` on, with one window in `least` window lengths where
    /// that is few enough.
    pub fn new(most: NonZeroU32, least: u32, now: Instant<Monotonic>) -> Self {
        Self { most, least, checked: now, sends: 0 }
    }

    /// How rare windows are to be where they are one in `every` window lengths and `sends` have
    /// come up to `now`; `None` where it is too early to say.
    pub fn adapt(&mut self, every: u32, sends: u64, now: Instant<Monotonic>) -> Option<u32> {
        let since = now.since(self.checked).ok().filter(|since| *since >= PERIOD)?;
        let rate = sends.saturating_sub(self.sends) as f64 / (since.0 as f64 / 1e9);
        (self.checked, self.sends) = (now, sends);
        let ratio = rate / f64::from(self.most.get());
        Some(rarer(every, ratio, &BOUNDS).max(self.least))
    }
}

/// Where the share of what may be, that is used, makes windows rarer and by how much more than in
/// proportion, and below which share it makes them more frequent.
pub(crate) struct Bounds {
    pub(crate) above: f64,
    pub(crate) margin: f64,
    pub(crate) below: f64,
}

/// Records are lost where there are too many of them, so that there is room for bursts.
const BOUNDS: Bounds = Bounds { above: 0.9, margin: 1.5, below: 0.4 };

/// How rare windows are to be, one in so many window lengths, where they are one in `every` and use
/// `ratio` of what may be: rarer at once, more often only slowly, as a burst must not swing it.
pub(crate) fn rarer(every: u32, ratio: f64, bounds: &Bounds) -> u32 {
    let now = f64::from(every);
    let next = if ratio > bounds.above {
        (now * ratio * bounds.margin).ceil()
    } else if ratio < bounds.below {
        // Rounded up, one in four would never become every one.
        (now * 0.75).floor()
    } else {
        now
    };
    (next as u32).clamp(1, 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_sends_make_windows_rarer_and_few_make_them_more_frequent_again() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut rate = Rate::new(NonZeroU32::new(1_000).unwrap(), 10, at(0));
        assert_eq!(rate.adapt(10, 400, at(400)), None);
        // 10,000 a second are ten times too many.
        assert_eq!(rate.adapt(10, 5_000, at(500)), Some(150));
        // 500 a second are few enough, and more than 400.
        assert_eq!(rate.adapt(150, 5_250, at(1_000)), Some(150));
        assert_eq!(rate.adapt(150, 5_250, at(1_500)), Some(112));
        assert_eq!(rate.adapt(11, 5_250, at(2_000)), Some(10));
    }
}
