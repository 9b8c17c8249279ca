//! Part-filled segments that leave just when the one before them has been acknowledged, time and
//! again: small writes that Nagle's algorithm gathers.
//!
//! A write goes at once only while no part-filled segment is out (RFC 896; `tcp_minshall_check` in
//! net/ipv4/tcp_output.c). What a program writes meanwhile leaves with the ACK, or as soon as it
//! fills a segment: away from the sender, and before each of those segments, that looks like a
//! pause of the program. A program's own pace meets the round trip by chance, and not each time;
//! where it does, its messages are all as large.

/// So many at least show it, and so many times as many as left at another time.
const FEWEST: u32 = 6;
const TIMES: u32 = 4;
/// One in so many has another size than the one before.
const VARY: u32 = 3;

/// The part-filled segments of one direction that followed data of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gathering {
    /// How many left when the one before them had been acknowledged, and how many at another time.
    prompted: u32,
    other: u32,
    /// How many of the former had another size than the one before, and the last one's.
    changed: u32,
    size: u32,
    /// What looked like the application's time before the former, ns, and since the last of them.
    time: u64,
    since: u64,
    /// Where the last one ends in the stream, and whether a full segment came when its sender had
    /// long been told of its ACK: what was written meanwhile had not waited for that.
    end: u64,
    late: bool,
    /// When the ACK of the last one passed; 0 where it has not.
    acknowledged_at: u64,
}

impl Gathering {
    /// All up to a position was acknowledged at a time. Full segments do not wait for the ACK of a
    /// part-filled one, so theirs may come between that and what it lets go.
    pub(crate) fn note_acknowledged(&mut self, una: u64, at: u64) {
        if self.acknowledged_at == 0 && una >= self.end {
            self.acknowledged_at = at;
        }
    }

    /// When the ACK of the last one passed; 0 where it has not.
    pub(crate) fn acknowledged_at(&self) -> u64 {
        self.acknowledged_at
    }

    /// A full segment was sent, before which so much looked like the application's time, ns; its
    /// sender had long known that everything up to a position was acknowledged; 0 where it had not.
    pub(crate) fn take_full(&mut self, waited: u64, known: u64) {
        self.since = self.since.saturating_add(waited);
        self.late |= known >= self.end.max(1);
    }

    /// A part-filled one of so many bytes, which ends at a position, was, just after an ACK or not.
    pub(crate) fn take_part_filled(&mut self, (size, end): (u32, u64), waited: u64, prompted: bool) {
        let waited = std::mem::take(&mut self.since).saturating_add(waited);
        (self.end, self.acknowledged_at) = (end, 0);
        let is_late = std::mem::take(&mut self.late);
        if prompted && !is_late {
            self.prompted = self.prompted.saturating_add(1);
            self.changed = self.changed.saturating_add((size != self.size).into());
            self.time = self.time.saturating_add(waited);
        } else {
            self.other = self.other.saturating_add(1);
        }
        self.size = size;
    }

    /// The peer sent data: what comes next may be an answer to them.
    pub(crate) fn end(&mut self) {
        (self.since, self.late) = (0, false);
    }

    /// How much of the time ACKs were waited for, ns.
    pub(crate) fn waited(&self) -> u64 {
        let is_shown = self.prompted >= FEWEST
            && self.prompted / TIMES >= self.other
            && self.changed.saturating_mul(VARY) >= self.prompted;
        if is_shown { self.time } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much ACKs were waited for, of part-filled segments of these sizes that leave 10 after
    /// the data before, prompted or not.
    fn waited(segments: &[(u32, bool)]) -> u64 {
        let mut gathering = Gathering::default();
        segments.iter().for_each(|(size, prompted)| gathering.take_part_filled((*size, 9), 10, *prompted));
        gathering.waited()
    }

    #[test]
    fn segments_of_changing_size_that_follow_acks_have_waited_for_them() {
        let gathered: Vec<(u32, bool)> = (0..8).map(|n| (500 + n * 50, true)).collect();
        assert_eq!(waited(&gathered), 80);
        assert_eq!(waited(&gathered[..5]), 0, "too few");
        let others = [(1, false), (2, false), (3, false)];
        assert_eq!(waited(&[&gathered[..], &others[..2]].concat()), 80);
        assert_eq!(waited(&[&gathered[..], &others].concat()), 0, "too many at another time");
        assert_eq!(waited(&[(500, true); 20]), 0, "a pace that meets the round trip");
    }

    #[test]
    fn the_ack_of_the_last_one_is_the_first_that_reaches_its_end() {
        let mut gathering = Gathering::default();
        gathering.take_part_filled((7, 1_000), 5, true);
        gathering.note_acknowledged(999, 10);
        assert_eq!(gathering.acknowledged_at(), 0);
        gathering.note_acknowledged(1_000, 20);
        gathering.note_acknowledged(2_460, 30);
        assert_eq!(gathering.acknowledged_at(), 20, "that of a full segment behind it");
        gathering.take_part_filled((7, 3_000), 5, true);
        assert_eq!(gathering.acknowledged_at(), 0);
    }

    #[test]
    fn a_segment_that_filled_up_meanwhile_has_waited_as_well() {
        let mut gathering = Gathering::default();
        for size in 0..6 {
            gathering.take_full(30, 0);
            gathering.take_part_filled((size, 1_000), 5, true);
        }
        assert_eq!(gathering.waited(), 6 * 35);
        gathering.take_full(30, 999);
        gathering.end();
        gathering.take_part_filled((7, 2_000), 5, true);
        assert_eq!(gathering.waited(), 6 * 35 + 5);
        // The one before was acknowledged, and nothing had been written.
        gathering.take_full(30, 2_000);
        gathering.take_part_filled((8, 3_000), 5, true);
        assert_eq!(gathering.waited(), 6 * 35 + 5);
    }
}
