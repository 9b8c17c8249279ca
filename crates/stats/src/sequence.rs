//! What became of numbered datagrams: loss, reordering, duplicates and jitter. Pure.

use clock::{Clock, Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Numbers that are remembered behind the highest one, to distinguish a late datagram from a
/// duplicate.
pub const WINDOW: u64 = 4096;
const WORDS: usize = (WINDOW / 64) as usize;

/// Counts of one flow of datagrams at its receiver. `expected = received + lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// The highest number that came, so the number of datagrams known to have been sent.
    pub expected: u64,
    /// Different ones that came.
    pub received: u64,
    /// Never came, as far as known when this was counted.
    pub lost: u64,
    /// Came after a higher number had (RFC 4737 §3).
    pub reordered: u64,
    /// Came again.
    pub duplicated: u64,
    /// Came more than [`WINDOW`] numbers late: late or again, which cannot be distinguished any
    /// more. They are in `lost`.
    pub too_late: u64,
    /// Not ours, or cut short.
    pub malformed: u64,
    /// Dropped by this host because the socket's buffer was full (`SK_MEMINFO_DROPS`); they are in
    /// `lost` too, unless they were the last ones.
    pub dropped_at_socket: u64,
    /// Interarrival jitter (RFC 3550 §6.4.1).
    #[serde(rename = "jitter_ns")]
    pub jitter: Nanos,
}

/// Interarrival jitter (RFC 3550, section 6.4.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    /// Times 16, as appendix A.8 keeps it so that integers do.
    x16: u64,
    transit: Option<i128>,
}

impl Jitter {
    /// A datagram came. Each time is of one side's clock, in ns: only the differences between
    /// transits are used.
    pub fn arrived(&mut self, sent: u64, arrived: u64) {
        let transit = i128::from(arrived) - i128::from(sent);
        if let Some(before) = self.transit {
            let change = u64::try_from((transit - before).unsigned_abs()).unwrap_or(u64::MAX / 32).min(u64::MAX / 32);
            self.x16 = (self.x16 + change).saturating_sub((self.x16 + 8) / 16);
        }
        self.transit = Some(transit);
    }

    /// As it is after the last one.
    pub fn value(&self) -> Nanos {
        Nanos(self.x16 / 16)
    }
}

/// Follows the numbers of one flow, which begin at 1.
#[derive(Clone, Debug)]
pub struct Tracker {
    counts: Datagrams,
    seen: [u64; WORDS],
    jitter: Jitter,
}

impl Default for Tracker {
    fn default() -> Self {
        Self { counts: Datagrams::default(), seen: [0; WORDS], jitter: Jitter::default() }
    }
}

impl Tracker {
    /// A datagram came. Each time is of one side's clock: only the differences between transits are
    /// used.
    pub fn arrived<A: Clock, B: Clock>(&mut self, number: u64, sent: Instant<A>, arrived: Instant<B>) {
        if self.numbered(number) {
            self.jitter.arrived(sent.as_nanos(), arrived.as_nanos());
        }
    }

    /// The same without times. Whether it had not come before, as far as that is known.
    pub fn numbered(&mut self, number: u64) -> bool {
        if number == 0 {
            self.counts.malformed += 1;
            return false;
        }
        if number > self.counts.expected {
            self.forget(number);
            self.counts.expected = number;
            self.mark(number);
            self.counts.received += 1;
        } else if self.counts.expected - number >= WINDOW {
            self.counts.too_late += 1;
            return false;
        } else if self.is_marked(number) {
            self.counts.duplicated += 1;
            return false;
        } else {
            self.mark(number);
            self.counts.received += 1;
            self.counts.reordered += 1;
        }
        true
    }

    /// Something that is not a numbered datagram came.
    pub fn malformed(&mut self) {
        self.counts.malformed += 1;
    }

    /// The counts so far.
    pub fn counts(&self) -> Datagrams {
        Datagrams { lost: self.counts.expected - self.counts.received, jitter: self.jitter.value(), ..self.counts }
    }

    /// Makes room for the numbers up to `new`.
    fn forget(&mut self, new: u64) {
        let old = self.counts.expected;
        if new - old >= WINDOW {
            self.seen = [0; WORDS];
            return;
        }
        for number in old + 1..=new {
            self.seen[(number % WINDOW / 64) as usize] &= !(1 << (number % 64));
        }
    }

    fn mark(&mut self, number: u64) {
        self.seen[(number % WINDOW / 64) as usize] |= 1 << (number % 64);
    }

    fn is_marked(&self, number: u64) -> bool {
        self.seen[(number % WINDOW / 64) as usize] & (1 << (number % 64)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Realtime;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant<Realtime> {
        Instant::from_nanos(nanos)
    }

    fn run(numbers: &[u64]) -> Datagrams {
        let mut tracker = Tracker::default();
        for (i, number) in numbers.iter().enumerate() {
            tracker.arrived(*number, at(number * 1_000), at(500 + i as u64 * 1_000));
        }
        tracker.counts()
    }

    #[test]
    fn each_fate_is_distinguished() {
        let c = run(&[1, 2, 4, 3, 3, 7, 8]);
        assert_eq!((c.expected, c.received, c.lost, c.reordered, c.duplicated), (8, 6, 2, 1, 1));
        let c = run(&[1, WINDOW + 1, 1, 2]);
        assert_eq!((c.too_late, c.received, c.reordered), (1, 3, 1));
        assert_eq!(run(&[0]).malformed, 1);
    }

    #[test]
    fn steady_arrival_has_no_jitter_and_alternating_delay_has_its_own() {
        let mut tracker = Tracker::default();
        for n in 1..=1_000u64 {
            tracker.arrived(n, at(n * 1_000_000), at(n * 1_000_000 + 7));
        }
        assert_eq!(tracker.counts().jitter, Nanos::ZERO);
        let mut tracker = Tracker::default();
        for n in 1..=1_000u64 {
            tracker.arrived(n, at(n * 1_000_000), at(n * 1_000_000 + n % 2 * 40_000));
        }
        let jitter = tracker.counts().jitter.0;
        assert!((39_900..=40_000).contains(&jitter), "{jitter}");
    }

    proptest! {
        /// Against the plain way with a set, for numbers that stay within the window.
        #[test]
        fn counts_agree_with_a_set(numbers in proptest::collection::vec(1u64..WINDOW, 0..400)) {
            let c = run(&numbers);
            let mut set = std::collections::BTreeSet::new();
            let (mut reordered, mut duplicated) = (0, 0);
            for n in &numbers {
                let above = set.last().is_some_and(|top| top > n);
                if !set.insert(*n) { duplicated += 1 } else if above { reordered += 1 }
            }
            prop_assert_eq!(c.received, set.len() as u64);
            prop_assert_eq!((c.reordered, c.duplicated), (reordered, duplicated));
            prop_assert_eq!(c.lost, set.last().copied().unwrap_or(0) - set.len() as u64);
        }

        #[test]
        fn any_numbers_and_times_are_taken(data in proptest::collection::vec(any::<(u64, u64, u64)>(), 0..50)) {
            let mut tracker = Tracker::default();
            for (number, sent, arrived) in data {
                tracker.arrived(number, at(sent), at(arrived));
            }
            let c = tracker.counts();
            prop_assert_eq!(c.expected, c.received + c.lost);
        }
    }
}
