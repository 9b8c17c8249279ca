//! Writes that go on each time when what is in flight has drained to one level: the send buffer.
//!
//! The kernel wakes a writer that waits for room when a third of its send buffer is free
//! (`sk_stream_write_space` in net/core/stream.c), so ACKs pass before more data come, as if the
//! program had paused. But it goes on right after an ACK, and while as much is out as each time
//! before. A program's own pauses end at any moment, and with anything in flight.

/// The most levels that are kept; what comes after them is like them.
const KEPT: usize = 64;
/// So many at least show it.
const FEWEST: usize = 6;

/// Those of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refills {
    /// What was in flight, bytes.
    levels: Vec<u32>,
    /// How many followed no ACK.
    unprompted: u32,
    /// All time that is the application's unless the send buffer was full, ns.
    time: u64,
}

impl Refills {
    /// Full segments come again after what looked like a pause of `time`, with so much in flight,
    /// right after an ACK or not.
    pub(crate) fn take(&mut self, level: u32, prompted: bool, time: u64) {
        // Its program paused, and what it wrote before has room again.
        if level == 0 {
            return;
        }
        if !prompted {
            self.unprompted = self.unprompted.saturating_add(1);
            return;
        }
        if self.levels.len() < KEPT {
            self.levels.push(level);
        }
        self.time = self.time.saturating_add(time);
    }

    /// How much of the time the send buffer was full, ns, of a direction that had so much in flight
    /// at most, and whose segments are so large.
    pub(crate) fn waited(&self, peak: u32, size: u32) -> u64 {
        /// Levels differ by so much of their median on average, at most.
        const STEADY: u32 = 8;
        /// Pauses of the program beside those, one in so many at most.
        const OTHERS: usize = 8;
        if self.levels.len() < FEWEST || self.unprompted as usize > self.levels.len() / OTHERS {
            return 0;
        }
        let mut levels = self.levels.clone();
        levels.sort_unstable();
        let median = levels[levels.len() / 2];
        let off = levels.iter().map(|level| u64::from(level.abs_diff(median))).sum::<u64>() / levels.len() as u64;
        let steady = off <= u64::from(median / STEADY).max(size.into());
        if steady && median >= 4 * size && median >= peak / 3 { self.time } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(levels: &[(u32, bool)]) -> u64 {
        let mut refills = Refills::default();
        levels.iter().for_each(|(level, prompted)| refills.take(*level, *prompted, 10));
        refills.waited(100_000, 1_448)
    }

    #[test]
    fn writes_that_go_on_at_one_level_have_waited_for_room() {
        let steady = [66_000, 65_000, 67_000, 66_000, 64_000, 66_000].map(|level| (level, true));
        assert_eq!(waited(&steady), 60);
        assert_eq!(waited(&steady[1..]), 0, "five may be chance");
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
        assert_eq!(waited(&[(20_000, true); 6]), 0, "next to all had");
    }
}
