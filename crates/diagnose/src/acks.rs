//! How a receiver acknowledges: at once or late, every how many segments.

use record::Nanos;

use crate::distribution::Distribution;

/// An ACK that comes this much after the path's own delay was held back. The shortest delayed-ACK timer in wide use is
/// Linux 2.2's 20 ms (`HZ/50`); today's Linux has 40 ms, others 100 to 200 ms, and RFC 1122, section 4.2.3.2, allows 500 ms.
/// Half of the shortest leaves room for coarse clocks.
pub(crate) const LATE: u64 = 10_000_000;
/// Longer than any delayed-ACK timer may be (RFC 1122: less than 0.5 s), with slack for a busy receiver.
pub(crate) const TOO_LATE: u64 = 600_000_000;
/// Single-segment ACKs in a row that count as a quick-ACK phase.
const PHASE: u32 = 4;

/// The habits of one receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Habits {
    /// Pure ACKs that moved the window on, and the segments that they acknowledged.
    pub(crate) acks: u64,
    pub(crate) segments: u64,
    /// How much later than the path's own delay the late ones came.
    pub(crate) late: Option<Box<Distribution>>,
    /// ACKs of a single segment that came at once.
    pub(crate) at_once: u64,
    run: u32,
    /// Quick-ACK phases: how many, and the longest, in ACKs.
    pub(crate) phases: u32,
    pub(crate) longest_phase: u32,
}

/// What one pure ACK was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promptness {
    AtOnce,
    /// By so many nanoseconds more than the path takes.
    Late(u64),
    Unclear,
}

impl Habits {
    /// A pure ACK of `segments` segments and `bytes` bytes came after `rtt`, where the path alone takes `base`.
    ///
    /// Two full segments have to be acknowledged without delay (RFC 5681, section 4.2), so only an ACK of less can be a
    /// delayed one; a longer way for more has another cause.
    #[inline]
    pub(crate) fn take(
        &mut self,
        segments: u32,
        bytes: u64,
        mss: u32,
        rtt: Option<u64>,
        base: Option<u64>,
    ) -> Promptness {
        self.acks += 1;
        self.segments += u64::from(segments);
        let (Some(rtt), Some(base)) = (rtt, base) else { return Promptness::Unclear };
        let excess = rtt.saturating_sub(base);
        if segments == 1 && excess < LATE / 2 {
            self.at_once += 1;
            self.run += 1;
            self.longest_phase = self.longest_phase.max(self.run);
            self.phases += u32::from(self.run == PHASE);
            return Promptness::AtOnce;
        }
        self.run = 0;
        if (LATE..=TOO_LATE).contains(&excess) && bytes < 2 * u64::from(mss) {
            self.late.get_or_insert_default().add(Nanos(excess));
            return Promptness::Late(excess);
        }
        Promptness::Unclear
    }
}
