//! A host's timestamp clock (RFC 7323) against the capture's: by how much longer than others a
//! segment was under way to the capture.
//!
//! A segment says by its timestamp value when it left. What came late although it left in time was
//! held up on the way: by a queue, a radio link that repeats or collects frames, or a busy machine.
//! What its sender held back left late.

/// The lengths of a tick that hosts have, ns: 1 MHz and 1 kHz (Linux, the BSDs, Windows), and the
/// kernels that count their own ticks.
const TICKS: [u64; 7] = [1_000, 1_000_000, 3_333_333, 4_000_000, 10_000_000, 100_000_000, 500_000_000];

/// Before so much has gone by, values do not show how long a tick is, ns.
const ENOUGH: u64 = 100_000_000;

/// The fastest segment counts for so long, ns, and as long again: clocks drift against each other.
const BLOCK: u64 = 4_000_000_000;

/// Clocks drift by this much for each second, ns (RFC 5905 takes 500 ppm for the worst); some
/// systems' timestamps run off by more, which shows.
const DRIFT: u64 = 500_000;

/// A clock that has shown no known tick for so long, ns, is watched anew.
const TOO_LONG: u64 = 10_000_000_000;

/// One host's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamps {
    /// When the first value came.
    first_at: u64,
    /// The newest value, when it came, and how many ticks it is after the first.
    newest: u32,
    newest_at: u64,
    ticks: i64,
    /// The length of a tick, as far as it is known.
    tick: Option<u64>,
    /// What it seemed to be at the last value: one that came late shows another.
    seemed: Option<u64>,
    /// The least that a segment needed in the running block and in the last, as its arrival less
    /// its value, ns.
    least: [i64; 2],
    /// When they began.
    since: [u64; 2],
}

impl Stamps {
    pub(crate) fn new(value: u32, at: u64) -> Self {
        Self {
            first_at: at,
            newest: value,
            newest_at: at,
            ticks: 0,
            tick: None,
            seemed: None,
            least: [0; 2],
            since: [at; 2],
        }
    }

    /// A segment with this value comes.
    #[inline(always)]
    pub(crate) fn take(&mut self, value: u32, at: u64) {
        // Of one tick the first was the fastest.
        if value != self.newest {
            self.take_another(value, at);
        }
    }

    #[inline(never)]
    fn take_another(&mut self, value: u32, at: u64) {
        let ticks = self.after_first(value);
        if ticks > self.ticks {
            (self.newest, self.newest_at, self.ticks) = (value, at, ticks);
        }
        if let Some(tick) = self.tick {
            if at - self.since[0].min(at) >= BLOCK {
                self.begin_block(at);
            }
            self.least[0] = self.least[0].min(self.needed(ticks, at, tick));
        } else {
            self.find_tick(value, at);
        }
    }

    /// By how much longer than the fastest of late a segment with this value was under way: at
    /// least, and at most, ns. `None` where the clock is not known. To be asked before that segment
    /// is taken: a late one makes its clock look slow.
    pub(crate) fn under_way(&self, value: u32, at: u64) -> Option<[u64; 2]> {
        let (longer, tick) = self.longer(value, at)?;
        // Both values were cut to whole ticks, and meanwhile the clocks drifted as they did on the
        // whole.
        let watched = self.newest_at - self.first_at;
        let off = watched.abs_diff(self.ticks.cast_unsigned().saturating_mul(tick)) as f64 / watched.max(1) as f64;
        let drift = (off + DRIFT as f64 / 1e9) * (at - self.since[1].min(at)) as f64;
        let within = tick.saturating_add(drift as u64).cast_signed();
        let bounded = |ns: i64| ns.max(0).cast_unsigned();
        Some([bounded(longer.saturating_sub(within)), bounded(longer.saturating_add(within))])
    }

    /// The least of [`Stamps::under_way`]; 0 where the clock is not known.
    #[inline]
    pub(crate) fn under_way_at_least(&self, value: u32, at: u64) -> u64 {
        // A tick is in what is within the clock's grain and drift, which take some reckoning.
        let may_be_longer = self.longer(value, at).is_some_and(|(longer, tick)| longer > tick.cast_signed());
        if may_be_longer { self.under_way(value, at).map_or(0, |[least, _]| least) } else { 0 }
    }

    /// By how much longer than the fastest of late a segment was under way, by the two clocks as
    /// they stand, and the tick.
    #[inline]
    fn longer(&self, value: u32, at: u64) -> Option<(i64, u64)> {
        let tick = self.tick?;
        let needed = self.needed(self.after_first(value), at, tick);
        Some((needed.saturating_sub(self.least[0].min(self.least[1])), tick))
    }

    /// By how much longer than the fastest of late a segment was under way, and the tick, ns;
    /// `None` where the clock is not known.
    pub(crate) fn waited(&self, value: u32, at: u64) -> Option<(u64, u64)> {
        self.longer(value, at).map(|(longer, tick)| (longer.max(0).cast_unsigned(), tick))
    }

    /// When a segment with this value left, ns by this clock, and its tick; `None` where that is
    /// not known.
    pub(crate) fn left_at(&self, value: u32) -> Option<(u64, u64)> {
        let tick = self.tick?;
        let after = self.after_first(value).saturating_mul(tick.cast_signed());
        Some((self.first_at.saturating_add_signed(after), tick))
    }

    fn after_first(&self, value: u32) -> i64 {
        self.ticks + i64::from(value.wrapping_sub(self.newest).cast_signed())
    }

    fn needed(&self, ticks: i64, at: u64, tick: u64) -> i64 {
        let passed = (at - self.first_at.min(at)).cast_signed();
        passed.saturating_sub(ticks.saturating_mul(tick.cast_signed()))
    }

    /// A block is over. What it measured the clock to be has to hold still.
    #[cold]
    fn begin_block(&mut self, at: u64) {
        if self.measured() == self.tick {
            (self.least, self.since) = ([i64::MAX, self.least[0]], [at, self.since[0]]);
        } else {
            self.tick = None;
        }
    }

    #[cold]
    fn find_tick(&mut self, value: u32, at: u64) {
        let measured = self.measured();
        let seemed = std::mem::replace(&mut self.seemed, measured);
        if measured.is_some() && measured == seemed {
            self.tick = measured;
            (self.least, self.since) = ([0; 2], [self.first_at; 2]);
        } else if at - self.first_at.min(at) > TOO_LONG {
            *self = Self::new(value, at);
        }
    }

    /// The tick that hosts have which agrees with what was seen until the newest value.
    fn measured(&self) -> Option<u64> {
        let span = self.newest_at - self.first_at;
        if span < ENOUGH || self.ticks <= 0 {
            return None;
        }
        let one = span / self.ticks.cast_unsigned();
        // What the way varies by, and a tick at either end: up to a tenth, and less the longer the
        // clock was watched.
        let off = |tick: u64| u128::from(tick.abs_diff(one)) * u128::from(span);
        let allowed = |tick: u64| u128::from(tick) * u128::from((50_000_000 + 2 * tick).min(span / 10).max(span / 100));
        TICKS.into_iter().find(|t| off(*t) <= allowed(*t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Values of a clock with this tick, 20 ms from one another, over a way of 5 ms; the clock runs
    /// on by so many ppm too fast.
    fn watched(tick: u64, ppm: u64, until: u64) -> (Stamps, impl Fn(u64) -> u32) {
        let value = move |left: u64| (u64::from(u32::MAX - 3) + (left + left * ppm / 1_000_000 + 7) / tick) as u32;
        let mut stamps = Stamps::new(value(0), 5 * MS);
        (1..until / (20 * MS)).map(|n| n * 20 * MS + n * 137_000 % MS).for_each(|t| stamps.take(value(t), t + 5 * MS));
        (stamps, value)
    }

    #[test]
    fn what_was_held_up_on_the_way_is_distinguished_from_what_left_late() {
        for (tick, ppm) in [(1_000, 0), (MS, 0), (MS, 60), (4 * MS, 0), (10 * MS, 0), (10 * MS, 100)] {
            for length in [400, 3_000, 30_000] {
                let (stamps, value) = watched(tick, ppm, length * MS);
                let sent = length * MS;
                let [_, most] = stamps.under_way(value(sent + 40 * MS), sent + 45 * MS).unwrap();
                assert!(most <= 2 * tick + 5 * MS, "left late, {tick} {ppm} {length}: {most}");
                let [least, most] = stamps.under_way(value(sent), sent + 45 * MS).unwrap();
                let (low, high) = (40 * MS - 2 * tick.min(20 * MS) - 5 * MS, 40 * MS + 2 * tick + 5 * MS);
                assert!((low..=40 * MS + MS).contains(&least) && most <= high, "{tick} {ppm} {length}: {least} {most}");
            }
        }
    }

    #[test]
    fn a_clock_that_is_not_known_says_nothing() {
        // Too early; one that stands still; one that runs by segments; one that changes its pace by
        // a third.
        let (early, value) = watched(MS, 0, 60 * MS);
        assert!(early.under_way(value(60 * MS), 100 * MS).is_none());
        let mut still = Stamps::new(9, 0);
        (1..100).for_each(|n| still.take(9, n * 20 * MS));
        assert!(still.under_way(9, 3_000 * MS).is_none());
        let mut counts = Stamps::new(9, 0);
        (1..100).for_each(|n| counts.take(9 + n as u32, n * 37 * MS));
        assert!(counts.under_way(200, 5_000 * MS).is_none());
        let (mut changes, value) = watched(MS, 0, 2_000 * MS);
        (1..500).for_each(|n| changes.take(value(2_000 * MS).wrapping_add(n as u32 * 15), 2_000 * MS + n * 20 * MS));
        assert!(changes.under_way(value(2_000 * MS).wrapping_add(7_500), 12_000 * MS).is_none());
    }
}
