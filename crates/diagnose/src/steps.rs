//! Steps of the capture's clock, which look like delays.
//!
//! Back: a packet has an earlier time than the one before. Forward: after a time without any
//! packet, the first ones of both sides are late by most of it, by their own clocks. What a path
//! holds up comes late from one side; beside the capture nothing holds up the other's.

use crate::stall::SHORTEST;
use record::conversation::Way;

/// What is known of them, from the first time without a packet on that may have been one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    /// Packets with an earlier time than the one before, and by how much at most, µs.
    pub(crate) backwards: u32,
    pub(crate) back: u32,
    /// The clock was set forward.
    pub(crate) forward: bool,
    /// The file holds the same packets a second time, behind the first.
    pub(crate) again: bool,
    /// The latest time without a packet, ns, as long as it may have been a step; 0 otherwise.
    gap: u64,
    /// Of which directions a packet has come since, and whether it was late.
    late: [Option<bool>; 2],
    /// Neither clock shows that it was none.
    pub(crate) unclear: bool,
}

impl Steps {
    /// A packet has a time that lies so many nanoseconds before that of the one before.
    pub(crate) fn went_back(&mut self, by: u64) {
        self.backwards = self.backwards.saturating_add(1);
        self.back = self.back.max(u32::try_from(by / 1_000).unwrap_or(u32::MAX));
    }

    /// Nothing came for so long, ns.
    pub(crate) fn silence(&mut self, gap: u64) {
        (self.gap, self.late, self.unclear) = (gap, [None; 2], false);
    }

    /// Whether a packet of this direction can show what the silence was.
    pub(crate) fn waits_for(&self, way: Way) -> bool {
        self.gap > 0 && self.late[way].is_none()
    }

    /// The first packet of direction `way` was under way longer than others by this, at least and
    /// at most, ns; `None` where its clock is not known yet. True where the clock was set forward.
    pub(crate) fn heard(&mut self, way: Way, under_way: Option<[u64; 2]>) -> bool {
        let half = self.gap / 2;
        if under_way.is_some_and(|[_, most]| most < half) {
            (self.gap, self.unclear) = (0, false);
            return false;
        }
        let late = under_way.is_some_and(|[least, _]| least >= half);
        self.late[way] = Some(late);
        self.unclear |= !late;
        let set = self.late == [Some(true); 2];
        if set {
            (self.forward, self.gap) = (true, 0);
        }
        set
    }
}

/// Whether so long without a packet, ns, may have been a step.
pub(crate) fn may_be(elapsed: u64) -> bool {
    elapsed >= SHORTEST
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn both_sides_late_are_a_step_and_one_alone_is_not() {
        let after = |heard: [Option<[u64; 2]>; 2]| {
            let mut steps = Steps::default();
            steps.silence(100 * MS);
            assert!(Way::ALL.iter().all(|way| steps.waits_for(*way)));
            let mut set = false;
            for (way, under_way) in Way::ALL.into_iter().zip(heard) {
                set |= steps.waits_for(way) && steps.heard(way, under_way);
            }
            assert_eq!(set, steps.forward);
            (set, steps.unclear)
        };
        let (late, in_time, coarse) = (Some([95 * MS, 99 * MS]), Some([0, 3 * MS]), Some([0, 200 * MS]));
        assert_eq!(after([late, late]), (true, false));
        assert_eq!(after([late, in_time]), (false, false));
        assert_eq!(after([in_time, late]), (false, false));
        assert_eq!(after([late, None]), (false, true));
        assert_eq!(after([None, in_time]), (false, false));
        assert_eq!(after([coarse, late]), (false, true));
    }
}
