//! How fast data go by at most: what the path carries.

use super::made;
use crate::link::{Link, Trail};

/// What ends a burst even on the shortest path, ns.
const SHORTEST_PAUSE: u64 = 200_000;

/// The fastest that bytes were seen to go by, over 16 segments at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    since: u64,
    last: u64,
    bytes: u64,
    /// Bytes a second; 0 where no burst was long enough.
    best: u64,
}

impl Burst {
    /// `bytes` went by at `now`; a quarter of `rtt` without anything ends a burst. The first bytes
    /// only set the clock going.
    #[inline(always)]
    fn add(&mut self, now: u64, bytes: u64, size: u32, rtt: u64) {
        let pause = now - self.last.min(now);
        if pause > SHORTEST_PAUSE && pause > rtt / 4 || self.since == 0 {
            (self.since, self.bytes) = (now.max(1), 0);
        } else {
            self.bytes += bytes;
            let took = now - self.since.min(now);
            // Under 20 µs it is the clock's grain or the offload that is measured.
            if self.bytes >= 16 * u64::from(size) && took >= 20_000 {
                self.best = self.best.max((self.bytes as f64 * 1e9 / took as f64) as u64);
                (self.since, self.bytes) = (now, 0);
            }
        }
        self.last = now;
    }
}

/// How long packets have come evenly, one as long after the other as that after the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Even {
    since: u64,
    gap: u64,
}

impl Even {
    /// A packet came at `now`, after one at `last`.
    #[inline(always)]
    fn add(&mut self, now: u64, last: u64) {
        let gap = now - last.min(now);
        if gap.abs_diff(self.gap) > self.gap / 4 {
            self.since = now;
        }
        self.gap = gap;
    }
}

/// A second's quarters.
const QUARTER: u64 = 250_000_000;

/// The most bytes that went by in a second, by quarters of it.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// The quarter under way, counted from the clock's beginning, when it ends, and the bytes of it
    /// and of the three before.
    quarter: u64,
    end: u64,
    bytes: [u64; 4],
    most: u64,
}

impl Second {
    #[inline(always)]
    fn add(&mut self, now: u64, bytes: u64) {
        if now >= self.end {
            self.turn(now / QUARTER);
        }
        self.bytes[(self.quarter % 4) as usize] += bytes;
    }

    #[inline(never)]
    fn turn(&mut self, quarter: u64) {
        self.end = (quarter + 1).saturating_mul(QUARTER);
        self.most = self.best();
        let passed = quarter.saturating_sub(self.quarter).min(4);
        (0..passed).for_each(|n| self.bytes[((quarter - n) % 4) as usize] = 0);
        self.quarter = quarter;
    }

    fn best(&self) -> u64 {
        self.most.max(self.bytes.iter().sum())
    }
}

/// Both ways to see how fast data goes. Kept from the fourth data packet on: many connections never
/// have as many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bursts {
    arrivals: Burst,
    delivered: Burst,
    arrived_in_second: Second,
    delivered_in_second: Second,
    even: Even,
    /// How long the data that the latest ACK acknowledged waited in a queue, at least, ns.
    pub(crate) queued: u64,
    /// Data as they come by, and their ACKs.
    data: Trail,
    acks: Trail,
    link: Option<Box<Link>>,
}

impl Bursts {
    /// `bytes` passed the capture at `now`, on a path of `rtt` and in segments of `size`.
    #[inline(always)]
    pub(crate) fn arrived(&mut self, now: u64, bytes: u64, size: u32, rtt: u64) {
        self.even.add(now, self.arrivals.last);
        self.arrivals.add(now, bytes, size, rtt);
        self.arrived_in_second.add(now, bytes);
    }

    /// `bytes` were acknowledged at `now`.
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, now: u64, bytes: u64, size: u32, rtt: u64) {
        self.delivered.add(now, bytes, size, rtt);
        self.delivered_in_second.add(now, bytes);
    }

    /// Data up to position `end` came by at `now`, in segments of `size`; `waited` says for how
    /// long they were held up on their way, and how coarse the clock is that shows it, ns.
    #[inline(always)]
    pub(crate) fn came(&mut self, now: u64, end: u64, size: u32, waited: impl FnOnce() -> Option<(u64, u64)>) {
        if self.data.is_due(now)
            && let Some((waited, tick)) = waited()
            && let Some(rate) = self.data.passed(now, end, now - waited.min(now), (size.into(), tick))
        {
            made(&mut self.link).add(rate);
        }
    }

    /// Data up to position `end`, `least` bytes after those before, were said at `now` to have
    /// arrived, which was `due` at some moment, give or take `grain`, ns.
    #[inline(always)]
    pub(crate) fn answered(&mut self, now: u64, end: u64, least: u32, (due, grain): (u64, u64)) {
        if self.acks.is_due(now)
            && let Some(rate) = self.acks.passed(now, end, due, (least.into(), grain))
        {
            made(&mut self.link).add(rate);
        }
    }

    /// What was seen of the slowest link on the way, and in how many looks.
    pub(crate) fn link(&self) -> Option<(&Link, u32)> {
        Some((self.link.as_deref()?, self.data.looks().saturating_add(self.acks.looks())))
    }

    /// For how long data have come evenly, ns.
    pub(crate) fn even_for(&self) -> u64 {
        self.arrivals.last - self.even.since.min(self.arrivals.last)
    }

    /// The highest rate that was held for a second, in bytes a second, by both ways.
    pub(crate) fn held(&self) -> u64 {
        self.arrived_in_second.best().min(self.delivered_in_second.best())
    }

    /// The fastest that data passed the capture, in bytes a second; 0 where no burst was long
    /// enough.
    pub(crate) fn passing(&self) -> u64 {
        self.arrivals.best
    }

    /// The same of data that were acknowledged.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_held_where_it_goes_on_for_a_second() {
        let mut bursts = Bursts::default();
        // 1 kB each 10 ms for three seconds, and 50 kB at once amid them.
        for n in 0..300u64 {
            let (now, bytes) = (5_000_000_000 + n * 10_000_000, if n == 150 { 50_000 } else { 1_000 });
            bursts.arrived(now, bytes, 1_000, 20_000_000);
            bursts.acknowledged(now + 20_000_000, 1_000, 1_000, 20_000_000);
        }
        assert_eq!(bursts.held(), 100_000);
    }
}
