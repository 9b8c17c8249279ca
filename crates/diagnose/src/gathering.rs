//! Part-filled segments that leave just when the one before them has been acknowledged, time and
//! again: small writes that Nagle's algorithm gathers.
//!
//! A write goes at once only while no part-filled segment is out (RFC 896; `tcp_minshall_check` in
//! net/ipv4/tcp_output.c). What a program writes meanwhile leaves with the ACK, or as soon as it
//! fills a segment: away from the sender, and before each of those segments, that looks like a
//! pause of the program. A program's own pace meets the round trip by chance, and not each time;
//! where it does, its messages are all as large.
//!
//! The first write of a connection has nothing to wait for, so its segment has its size. Where all
//! that is gathered later is a multiple of that, the program goes on with writes as large.

/// So many at least show it, and so many times as many as left at another time.
const FEWEST: u32 = 6;
const TIMES: u32 = 4;
/// One in so many has another size than the one before.
const VARY: u32 = 3;
/// That so many sizes, or more, are multiples of the first write's by chance is as unlikely as one
/// in this.
const UNLIKELY: u64 = 500;
/// So many times as many as are no such multiple.
const EVEN: u32 = 8;

/// When a part-filled segment left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Left {
    /// Just when the one before had been acknowledged.
    Prompted,
    /// Before that was known.
    Before,
    /// Some time after it.
    Later,
}

/// The part-filled segments of one direction that followed data of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gathering {
    /// How many left when the one before them had been acknowledged, before that was known, and
    /// later, or with what was written long after it.
    prompted: u32,
    before: u32,
    later: u32,
    /// How many of the first had another size than the one before, and the last one's.
    changed: u32,
    size: u32,
    writes: Writes,
    /// What looked like the application's time before the first and the last of them, ns, and since
    /// the last segment.
    time: u64,
    later_time: u64,
    since: u64,
    /// Where the last one ends in the stream, and whether a full segment came when its sender had
    /// long been told of its ACK: what was written meanwhile had not waited for that.
    end: u64,
    late: bool,
    /// When the ACK of the last one passed; 0 where it has not.
    acknowledged_at: u64,
}

/// What part-filled segments show of the size of writes.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    /// The first one's size, bytes, and how much of the stream was sent up to the last part-filled
    /// segment.
    size: u32,
    sent: u64,
    /// How much one gathered last, how many gathered several writes of that size, how many of these
    /// more or less than the one before, and how many something else.
    together: u64,
    several: u32,
    varied: u32,
    uneven: u32,
}

impl Writes {
    /// A part-filled segment ends so far into the stream, bytes, of which the first write had so
    /// many.
    fn take(&mut self, size: u32, sent: u64) {
        let size = u64::from(size);
        let together = sent.saturating_sub(self.sent.max(size));
        (self.size, self.sent) = (size as u32, sent);
        if together == 0 {
            return;
        }
        if together > size && together.is_multiple_of(size) {
            self.several = self.several.saturating_add(1);
            self.varied = self.varied.saturating_add((together != self.together).into());
        } else {
            self.uneven = self.uneven.saturating_add(1);
        }
        self.together = together;
    }

    /// Whether so many are not multiples of the first write's size by chance. What programs and
    /// their buffers prefer, powers of two, says nothing.
    fn are_shown_by(&self, multiples: u32) -> bool {
        let odd = u64::from(self.size >> self.size.trailing_zeros().min(31));
        self.several / EVEN >= self.uneven && odd.saturating_pow(multiples) >= UNLIKELY
    }
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

    /// A part-filled one of so many bytes, which ends at a position, left.
    pub(crate) fn take_part_filled(&mut self, (size, end): (u32, u64), waited: u64, left: Left) {
        let waited = std::mem::take(&mut self.since).saturating_add(waited);
        (self.end, self.acknowledged_at) = (end, 0);
        match if std::mem::take(&mut self.late) { Left::Later } else { left } {
            Left::Before => self.before = self.before.saturating_add(1),
            Left::Later => {
                self.later = self.later.saturating_add(1);
                self.later_time = self.later_time.saturating_add(waited);
            }
            Left::Prompted => {
                self.prompted = self.prompted.saturating_add(1);
                self.changed = self.changed.saturating_add((size != self.size).into());
                self.time = self.time.saturating_add(waited);
            }
        }
        self.size = size;
    }

    /// The part-filled one ends so far into the stream, bytes, of which the first write had so
    /// many.
    pub(crate) fn take_writes(&mut self, first: u32, sent: u64) {
        self.writes.take(first, sent);
    }

    /// The peer sent data: what comes next may be an answer to them.
    pub(crate) fn end(&mut self) {
        (self.since, self.late) = (0, false);
    }

    /// How much of the time ACKs were waited for, ns.
    pub(crate) fn waited(&self) -> u64 {
        let other = self.before.saturating_add(self.later);
        // A write of that size would have gone at once, had nothing been waited for.
        let shown_by_writes = self.writes.are_shown_by(self.writes.varied) && self.writes.several / EVEN >= self.before
            || self.writes.are_shown_by(self.writes.several) && self.prompted >= other.max(2);
        let shown_by_acks = self.prompted >= FEWEST
            && self.prompted / TIMES >= other
            && self.changed.saturating_mul(VARY) >= self.prompted;
        match (shown_by_writes, shown_by_acks) {
            (true, _) => self.time.saturating_add(self.later_time),
            (false, true) => self.time,
            (false, false) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much ACKs were waited for, of part-filled segments of these sizes that leave 10 after
    /// the data before, prompted or not.
    fn waited(segments: &[(u32, bool)]) -> u64 {
        let mut gathering = Gathering::default();
        segments.iter().for_each(|(size, prompted)| {
            gathering.take_part_filled((*size, 9), 10, if *prompted { Left::Prompted } else { Left::Later });
        });
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

    /// How much ACKs were waited for where so many bytes are gathered at a time, by a program whose
    /// first write has so many, in segments that leave so.
    fn waited_by_writes(first: u32, together: &[u64], left: &[Left]) -> u64 {
        let (mut gathering, mut sent) = (Gathering::default(), u64::from(first));
        for (bytes, left) in together.iter().zip(left.iter().cycle()) {
            sent += bytes;
            gathering.take_part_filled((100, sent), 10, *left);
            gathering.take_writes(first, sent);
        }
        gathering.waited()
    }

    #[test]
    fn several_writes_as_large_as_the_first_have_waited_together() {
        use Left::{Before, Later, Prompted};
        let several = [85 * 18, 85 * 25, 85 * 25, 85 * 24];
        assert_eq!(waited_by_writes(85, &several, &[Later]), 40, "whenever they left, if not too soon");
        assert_eq!(waited_by_writes(85, &several, &[Before]), 0);
        assert_eq!(waited_by_writes(85, &several.map(|bytes| bytes + 1), &[Later]), 0);
        assert_eq!(waited_by_writes(64, &several.map(|bytes| bytes / 85 * 64), &[Later]), 0, "a size that is common");
        assert_eq!(waited_by_writes(85, &[85; 4], &[Later]), 0, "each by itself");
        // One size each time may be that of messages, but not where ACKs let them go.
        let same = [50 * 39; 3];
        assert_eq!(waited_by_writes(50, &same, &[Later]), 0);
        assert_eq!(waited_by_writes(50, &same, &[Prompted]), 30);
        assert_eq!(waited_by_writes(50, &same, &[Prompted, Prompted, Later]), 30);
        assert_eq!(waited_by_writes(50, &same, &[Later, Later, Prompted]), 0);
    }

    #[test]
    fn the_ack_of_the_last_one_is_the_first_that_reaches_its_end() {
        let mut gathering = Gathering::default();
        gathering.take_part_filled((7, 1_000), 5, Left::Prompted);
        gathering.note_acknowledged(999, 10);
        assert_eq!(gathering.acknowledged_at(), 0);
        gathering.note_acknowledged(1_000, 20);
        gathering.note_acknowledged(2_460, 30);
        assert_eq!(gathering.acknowledged_at(), 20, "that of a full segment behind it");
        gathering.take_part_filled((7, 3_000), 5, Left::Prompted);
        assert_eq!(gathering.acknowledged_at(), 0);
    }

    #[test]
    fn a_segment_that_filled_up_meanwhile_has_waited_as_well() {
        let mut gathering = Gathering::default();
        for size in 0..6 {
            gathering.take_full(30, 0);
            gathering.take_part_filled((size, 1_000), 5, Left::Prompted);
        }
        assert_eq!(gathering.waited(), 6 * 35);
        gathering.take_full(30, 999);
        gathering.end();
        gathering.take_part_filled((7, 2_000), 5, Left::Prompted);
        assert_eq!(gathering.waited(), 6 * 35 + 5);
        // The one before was acknowledged, and nothing had been written.
        gathering.take_full(30, 2_000);
        gathering.take_part_filled((8, 3_000), 5, Left::Prompted);
        assert_eq!(gathering.waited(), 6 * 35 + 5);
    }
}
