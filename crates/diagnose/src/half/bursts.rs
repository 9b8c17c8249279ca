//! How fast data go by at most: what the path carries.

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

/// Both ways to see how fast data goes. Kept from the fourth data packet on: many connections never
/// have as many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bursts {
    arrivals: Burst,
    delivered: Burst,
}

impl Bursts {
    /// `bytes` passed the capture at `now`, on a path of `rtt` and in segments of `size`.
    #[inline(always)]
    pub(crate) fn arrived(&mut self, now: u64, bytes: u64, size: u32, rtt: u64) {
        self.arrivals.add(now, bytes, size, rtt);
    }

    /// `bytes` were acknowledged at `now`.
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, now: u64, bytes: u64, size: u32, rtt: u64) {
        self.delivered.add(now, bytes, size, rtt);
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
