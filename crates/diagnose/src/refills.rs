//! Writes that go on each time when what is in flight has drained to one level: the send buffer.
//!
//! The kernel wakes a writer that waits for room when a third of its send buffer is free
//! (`sk_stream_write_space` in net/core/stream.c), so ACKs pass before more data come, as if the
//! program had paused. But it goes on right after an ACK, and while as much is out as each time
//! before. A program's own pauses end at any moment, and with anything in flight; or as long after
//! one another each time, where it writes at a pace that happens to fit the round trip.

use crate::lockstep::spread;

/// The most levels that are kept; what comes after them is like them.
const KEPT: usize = 64;
/// So many at least show it, and so many where the level is the same to the segment.
const FEWEST: usize = 6;
const FEWEST_EXACT: usize = 4;

/// What was in flight when a write went on.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Bytes.
    flight: u32,
    /// How long after the write before that went on so, µs, and how much had been written
    /// meanwhile, bytes.
    since: u32,
    written: u32,
    /// The most that had been in flight of late, bytes.
    peak: u32,
}

/// Those of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refills {
    levels: Vec<Level>,
    /// When the last one went on, ns, and where.
    last: u64,
    position: u64,
    /// How many followed no ACK.
    unprompted: u32,
    /// All time that is the application's unless the send buffer was full, ns.
    time: u64,
}

impl Refills {
    /// Full segments come again at `now` and at this position after what looked like a pause of
    /// `time`, with so much in flight, and so much at most of late, right after an ACK or not.
    pub(crate) fn take(&mut self, (now, position): (u64, u64), (flight, peak): (u32, u32), prompted: bool, time: u64) {
        let since = u32::try_from((now - self.last.min(now)) / 1_000).unwrap_or(u32::MAX);
        let written = u32::try_from(position - self.position.min(position)).unwrap_or(u32::MAX);
        (self.last, self.position) = (now, position);
        // Its program paused, and what it wrote before has room again.
        if flight == 0 {
            return;
        }
        if !prompted {
            self.unprompted = self.unprompted.saturating_add(1);
            return;
        }
        if self.levels.len() < KEPT {
            self.levels.push(Level { flight, since, written, peak });
        }
        self.time = self.time.saturating_add(time);
    }

    /// How much of the time the send buffer was full, ns, of a direction that had so much in flight
    /// at most, whose segments are so large, and whose round trip takes so long, ns.
    pub(crate) fn waited(&self, peak: u32, size: u32, round: u64) -> u64 {
        /// Levels differ by so much of their median on average, at most.
        const STEADY: u64 = 8;
        /// Or one in so many is another, at most: a program may pause as well.
        const ODD: usize = 4;
        /// Pauses of the program beside those, one in so many at most.
        const OTHERS: usize = 8;
        /// What is written until then is one part in so many of the level, at least.
        const THIRD: u64 = 4;
        /// Intervals of a pace differ by so much of their median, at most.
        const ALIKE: u64 = 128;
        let (peak, size) = (u64::from(peak), u64::from(size));
        if self.levels.len() < FEWEST_EXACT {
            return 0;
        }
        let (level, off) = spread(self.levels.iter().map(|l| l.flight.into()));
        if off > level / STEADY && self.is_capped(size) {
            return self.time;
        }
        if self.unprompted as usize > self.levels.len() / OTHERS {
            return 0;
        }
        let odd = self.levels.iter().filter(|l| level.abs_diff(l.flight.into()) > size).count();
        let exact = odd <= self.levels.len() / ODD;
        let steady = exact || off <= (level / STEADY).max(size) && self.levels.len() >= FEWEST;
        // What is next to nothing is left of any burst; no more of it is the same each time.
        let least = if exact { peak / 8 } else { peak / 3 };
        let (interval, _) = spread(self.levels.iter().map(|l| l.since.into()));
        let alike = self.levels.iter().filter(|l| interval.abs_diff(l.since.into()) <= interval / ALIKE).count();
        // What ACKs let go comes again a round trip later.
        let of_acks = (interval * 1_000).abs_diff(round) <= round / 16;
        let at_a_pace = !of_acks && alike > self.levels.len() / 3 * 2;
        // A third of the buffer is half of what is left, and some of it may be part-filled
        // segments.
        let (written, _) = spread(self.levels.iter().map(|l| l.written.into()));
        let fills = written >= level / THIRD;
        if steady && fills && !at_a_pace && level >= 4 * size && level >= least { self.time } else { 0 }
    }

    /// Whether what is in flight comes up to one mark each time, from whatever level a write goes
    /// on at: away from the sender that level is seen with an error, and what a program writes
    /// between two pauses of its own comes on top of it.
    fn is_capped(&self, size: u64) -> bool {
        const FEWEST: usize = 16;
        /// One in so many may be another mark, and so many may follow no ACK.
        const ODD: usize = 8;
        const UNPROMPTED: usize = 4;
        /// The same mark is as near as this part of it.
        const CLOSE: u64 = 32;
        if self.levels.len() < FEWEST || self.unprompted as usize > self.levels.len() / UNPROMPTED {
            return false;
        }
        let (mark, _) = spread(self.levels.iter().map(|l| l.peak.into()));
        let odd = self.levels.iter().filter(|l| mark.abs_diff(l.peak.into()) > mark / CLOSE).count();
        mark >= 8 * size && odd <= self.levels.len() / ODD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With these levels, each after an ACK or not, by turns 1 ms and so many µs after one another,
    /// and so many bytes.
    fn waited_every(levels: &[(u32, bool)], other: u64, bytes: u64) -> u64 {
        let (mut refills, mut now, mut position) = (Refills::default(), 1_000_000_000, 0);
        for (n, (level, prompted)) in levels.iter().enumerate() {
            now += if n % 2 == 0 { 1_000_000 } else { other * 1_000 };
            position += bytes;
            refills.take((now, position), (*level, 100_000), *prompted, 10);
        }
        refills.waited(100_000, 1_448, 20_000_000)
    }

    fn waited(levels: &[(u32, bool)]) -> u64 {
        waited_every(levels, 12_000, 33_000)
    }

    #[test]
    fn writes_that_go_on_at_one_level_have_waited_for_room() {
        let steady = [66_000, 65_000, 67_000, 66_000, 64_000, 66_000].map(|level| (level, true));
        assert_eq!(waited(&steady), 60);
        let vary = [66_000, 61_000, 70_000, 66_000, 60_000, 73_000].map(|level| (level, true));
        assert_eq!(waited(&vary), 60);
        assert_eq!(waited(&vary[1..]), 0, "five may be chance");
        assert_eq!(waited(&steady[..4]), 40, "four are none that are the same to the segment");
        assert_eq!(waited(&steady[..3]), 0);
        assert_eq!(waited_every(&steady.repeat(3), 1_004, 33_000), 0, "a pace of the program");
        assert_eq!(waited_every(&steady, 12_000, 13_000), 0, "less than a writer finds room for");
    }

    #[test]
    fn a_flight_that_comes_up_to_one_mark_from_any_level_fills_the_buffer() {
        let levels: Vec<u32> = (0..16).map(|n| 20_000 + n * 7_000 % 50_000).collect();
        let waited = |peak: &dyn Fn(u32) -> u32, unprompted: usize| {
            let mut refills = Refills::default();
            for (n, level) in levels.iter().enumerate() {
                let at = n as u64;
                refills.take((at * 11_000_000, at * 60_000), (*level, peak(*level)), true, 10);
            }
            (0..unprompted).for_each(|_| refills.take((1 << 40, 1 << 30), (1, 1), false, 10));
            refills.waited(100_000, 1_448, 20_000_000)
        };
        assert_eq!(waited(&|_| 100_000, 0), 160);
        assert_eq!(waited(&|_| 100_000, 4), 160);
        assert_eq!(waited(&|_| 100_000, 5), 0, "too many by themselves");
        assert_eq!(waited(&|level| level + 60_000, 0), 0, "what a program writes each time");
    }

    #[test]
    fn pauses_of_a_program_end_at_any_level_and_moment() {
        let mut levels = [66_000, 20_000, 0, 90_000, 45_000, 70_000].map(|level| (level, true));
        assert_eq!(waited(&levels), 0);
        levels = [66_000; 6].map(|level| (level, true));
        levels[2].1 = false;
        assert_eq!(waited(&levels), 0, "not after an ACK");
        assert_eq!(waited(&[(0, true); 6]), 0, "all had been acknowledged");
        let pauses = [(0, false), (66_000, true), (66_000, true)].repeat(3);
        assert_eq!(waited(&pauses), 60, "between which it fills the buffer");
        assert_eq!(waited(&[(12_000, true); 6]), 0, "next to all had");
    }
}
