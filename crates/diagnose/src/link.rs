//! The rate of the slowest link on the way, as packets show it that followed one another through
//! it.
//!
//! What would have come before what went before it, had nothing held it up, has waited for a link,
//! and so has what was held up for much longer than that. It followed the other through the link as
//! closely as that lets packets through, and shows its rate, also where the queue before it is too
//! short to show in round trips. Packets of others may stand between two, and a pause of the path
//! or of the receiver makes them come later, so the rate is the highest that was seen time and
//! again.

/// Looks over less than this, ns, see the hosts' scheduling as well.
const SHORTEST: u64 = 2_000_000;

/// What is held up longer than what went before it by so much of the time between the two, one part
/// in so many, has waited.
const LONGER: u64 = 3;

/// More than so many times as much as is asked for, at once, is a bunch.
const BUNCH: u64 = 4;

/// Rates that are kept; when there are more, every other one is.
const KEPT: usize = 32;

/// So many times the same rate at least, also as a share of all; how far apart they are; and the
/// share of those that are higher, at most: next to nothing comes faster than its link lets it.
const FEWEST: usize = 3;
const SHARE: usize = 4;
const SAME: f32 = 0.97;
const HIGHER: usize = 5;
/// What a path in use holds up is held up in one look of so many, at least.
const RARE: u64 = 100;
/// Where they vary, so many at least, and three quarters of them as near to the one in the middle.
const MANY: usize = 8;
const AROUND: f32 = 0.2;

/// Data that went by one place, or of which the ACKs did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trail {
    /// When the last of them came, 0 before the first, when they were due, and up to which
    /// position.
    at: u64,
    due: u64,
    position: u64,
    /// When anything came last, and the longest time since `at` in which nothing did.
    seen: u64,
    silence: u64,
    /// How often it was checked whether they had waited.
    looks: u32,
}

/// What was seen of a link, bytes a microsecond.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    rates: Vec<f32>,
    /// One in so many is kept, and so many were seen since the last that was; less one.
    every: u32,
    since: u32,
}

impl Trail {
    /// Data up to a position came by at `now`, or the ACK of them. They would have come when they
    /// were `due`, give or take `grain`, if nothing had held them up. Gives the link's rate, bytes
    /// a microsecond, where they show it: at least `least` bytes followed others through it.
    pub(crate) fn passed(&mut self, now: u64, position: u64, due: u64, (least, grain): (u64, u64)) -> Option<f32> {
        let (took, bytes) = (now - self.at.min(now), position.saturating_sub(self.position));
        let fresh = self.at == 0;
        if !fresh && (took < SHORTEST || bytes < least) {
            return None;
        }
        let apart = due.saturating_sub(self.due);
        let waits_longer = due >= self.due && took.saturating_sub(apart) >= took / LONGER + grain;
        let waited = due.saturating_add(grain) <= self.at || waits_longer;
        // What comes in bunches was collected on its way, and a link gives out one after the other.
        let bunched = self.silence > took / 2 && bytes > BUNCH * least;
        let looks = self.looks.saturating_add(1);
        *self = Self { at: now.max(1), due, position, seen: now, silence: 0, looks };
        (!fresh && waited && !bunched).then(|| bytes as f32 * 1e3 / took as f32)
    }

    /// How often it was checked whether they had waited.
    pub(crate) fn looks(&self) -> u32 {
        self.looks
    }

    /// Something comes by at `now`: whether it may show a rate.
    #[inline(always)]
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        self.silence = self.silence.max(now - self.seen.min(now));
        self.seen = now;
        now - self.at.min(now) >= SHORTEST
    }
}

impl Link {
    /// Packets showed this rate, bytes a microsecond.
    pub(crate) fn add(&mut self, rate: f32) {
        if self.since < self.every {
            self.since += 1;
            return;
        }
        self.since = 0;
        if self.rates.len() >= KEPT {
            let mut odd = false;
            self.rates.retain(|_| {
                odd = !odd;
                odd
            });
            self.every = self.every * 2 + 1;
        }
        self.rates.push(rate);
    }
}

/// The rate of a link, bytes a nanosecond, of which so much was seen in so many looks; 0 where that
/// does not show it.
pub(crate) fn rate<'a>(seen: impl Iterator<Item = (&'a Link, u32)>) -> f64 {
    let (mut rates, mut shown, mut looks) = (Vec::new(), 0, 0);
    for (link, of) in seen {
        rates.extend(&link.rates);
        shown += link.rates.len() as u64 * (u64::from(link.every) + 1);
        looks += u64::from(of);
    }
    if shown < looks / RARE {
        return 0.0;
    }
    if let Some(rate) = highest(&mut rates) {
        return f64::from(rate) / 1e3;
    }
    // Delays that vary spread them around the link's rate.
    let usual = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
    let near = rates.iter().filter(|rate| (**rate - usual).abs() <= usual * AROUND).count();
    if rates.len() >= MANY && near * 4 >= rates.len() * 3 { f64::from(usual) / 1e3 } else { 0.0 }
}

/// The highest of the rates that was seen time and again. They are left in order, the highest
/// first.
pub(crate) fn highest(rates: &mut [f32]) -> Option<f32> {
    rates.sort_unstable_by(|a, b| b.total_cmp(a));
    let fewest = FEWEST.max(rates.len() / SHARE);
    let mut highest = rates.windows(fewest).take(rates.len() / HIGHER + 1);
    highest.find(|some| some[fewest - 1] >= some[0] * SAME).map(|same| same[fewest / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The rate, kB/s, of segments of 1,000 bytes that were due and came at these times, ms.
    fn rate(times: &[(u64, u64)]) -> f64 {
        let (mut trail, mut link) = (Trail::default(), Link::default());
        for (n, (due, came)) in (1..).zip(times) {
            if trail.is_due(came * MS)
                && let Some(rate) = trail.passed(came * MS, n * 1_000, due * MS, (1_000, 0))
            {
                link.add(rate);
            }
        }
        (super::rate([(&link, trail.looks())].into_iter()) * 1e6).round()
    }

    #[test]
    fn what_waited_for_others_shows_the_link_that_it_came_through() {
        let times: Vec<(u64, u64)> = (0..8).map(|n| (100 + n, 100 + n * 10)).collect();
        assert_eq!(rate(&times), 100.0);
        // Others' packets stand between some.
        let times: Vec<(u64, u64)> = (0..12).map(|n| (100 + n, 100 + n * 10 + n / 3 * 10)).collect();
        assert_eq!(rate(&times), 100.0);
        // A queue that neither grows nor shrinks.
        let times: Vec<(u64, u64)> = (0..12).map(|n| (88 + n * 10, 100 + n * 10)).collect();
        assert_eq!(rate(&times), 100.0);
    }

    #[test]
    fn what_comes_when_it_is_due_shows_none() {
        let paced: Vec<(u64, u64)> = (0..20).map(|n| (100 + n * 10, 100 + n * 10)).collect();
        assert_eq!(rate(&paced), 0.0);
        // Delays that vary, of packets that were sent at once.
        let jitter: Vec<(u64, u64)> = (0..20).map(|n| (100 + n, 130 + n * 4 + n * n * 7 % 30)).collect();
        assert_eq!(rate(&jitter), 0.0);
        // Twice may be chance.
        assert_eq!(rate(&[(100, 100), (101, 110), (102, 120)]), 0.0);
    }

    #[test]
    fn what_is_hardly_ever_held_up_shows_none() {
        let mut link = Link::default();
        (0..4).for_each(|_| link.add(3.2));
        assert!(super::rate([(&link, 300)].into_iter()) > 0.0);
        assert_eq!(super::rate([(&link, 2_000)].into_iter()), 0.0);
    }

    #[test]
    fn what_comes_in_bunches_shows_the_bunches() {
        let (mut trail, mut link) = (Trail::default(), Link::default());
        for n in 1..400u64 {
            let came = n / 20 * 45 * MS + n % 20 * 10_000 + MS;
            if trail.is_due(came)
                && let Some(rate) = trail.passed(came, n * 1_000, came.saturating_sub(60 * MS), (1_000, 0))
            {
                link.add(rate);
            }
        }
        assert_eq!(super::rate([(&link, 1)].into_iter()), 0.0);
    }

    #[test]
    fn few_are_kept_and_they_show_the_same() {
        let mut link = Link::default();
        (0..10_000).for_each(|_| link.add(0.5));
        assert!(link.rates.len() <= KEPT);
        assert!((super::rate([(&link, 1)].into_iter()) - 5e-4).abs() < 1e-9);
    }
}
