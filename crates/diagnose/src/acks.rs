//! How a receiver acknowledges: at once or late, every how many segments.

use record::Nanos;

use crate::distribution::Distribution;
use crate::stamps::Stamps;

/// An ACK that comes this much after the path's own delay was held back. The shortest delayed-ACK
/// timer in wide use is Linux 2.2's 20 ms (`HZ/50`); today's Linux has 40 ms, others 100 to 200 ms,
/// and RFC 1122, section 4.2.3.2, allows 500 ms. Half of the shortest leaves room for coarse
/// clocks.
pub(crate) const LATE: u64 = 10_000_000;
/// Longer than any delayed-ACK timer may be (RFC 1122: less than 0.5 s), with slack for a busy
/// receiver.
pub(crate) const TOO_LATE: u64 = 600_000_000;
/// Single-segment ACKs in a row that count as a quick-ACK phase.
const PHASE: u32 = 4;

/// The habits of one receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Habits {
    /// Pure ACKs that moved the window on, and the segments that they acknowledged.
    pub(crate) acks: u64,
    pub(crate) segments: u64,
    /// What came late, from the fifth packet on.
    pub(crate) lateness: Option<Box<Lateness>>,
    /// ACKs of a single segment that came at once.
    pub(crate) at_once: u64,
    run: u32,
    /// Quick-ACK phases: how many, and the longest, in ACKs.
    pub(crate) phases: u32,
    pub(crate) longest_phase: u32,
}

/// What of the sender came late, and where it was held back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    /// How much later than the path's own delay the late ACKs came.
    pub(crate) acks: Distribution,
    /// Its clock against the capture's, by its timestamps.
    stamps: Option<Stamps>,
}

impl Lateness {
    #[inline(always)]
    pub(crate) fn take_stamp(&mut self, value: u32, at: u64) {
        match &mut self.stamps {
            Some(stamps) => stamps.take(value, at),
            None => self.stamps = Some(Stamps::new(value, at)),
        }
    }

    /// See [`Stamps::under_way_at_least`].
    #[inline]
    pub(crate) fn under_way_at_least(&self, value: u32, at: u64) -> u64 {
        self.stamps.as_ref().map_or(0, |stamps| stamps.under_way_at_least(value, at))
    }

    /// See [`Stamps::under_way`].
    pub(crate) fn under_way(&self, value: u32, at: u64) -> Option<[u64; 2]> {
        self.stamps.as_ref()?.under_way(value, at)
    }
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
    /// Its clock is watched anew.
    pub(crate) fn forget_clock(&mut self) {
        if let Some(lateness) = &mut self.lateness {
            lateness.stamps = None;
        }
    }

    /// Whether its clock was compared with the capture's.
    pub(crate) fn shows_clock(&self) -> bool {
        self.lateness.as_ref().is_some_and(|l| l.stamps.is_some())
    }

    /// By how much longer than others a segment with this timestamp value was under way, and its
    /// clock's tick, ns; `None` where the clock is not known.
    pub(crate) fn waited(&self, value: u32, at: u64) -> Option<(u64, u64)> {
        self.lateness.as_ref()?.stamps.as_ref()?.waited(value, at)
    }

    /// When a segment with this timestamp value left, on a clock of its own, and that clock's tick,
    /// ns; `None` where the clock is not known.
    pub(crate) fn left_at(&self, value: u32) -> Option<(u64, u64)> {
        self.lateness.as_ref()?.stamps.as_ref()?.left_at(value)
    }

    /// Whether its late ACKs look like those of a timer: three at least, later than what a machine
    /// or a radio link adds now and then, and half of them within a quarter of one another (a timer
    /// of 40 ms on a clock of 4 ms a tick). What the way adds varies.
    pub(crate) fn shows_timer(&self) -> bool {
        let Some(late) = self.lateness.as_ref().map(|l| &l.acks).filter(|l| l.count() >= 3) else { return false };
        let [low, usual, high] = [0.25, 0.5, 0.75].map(|share| late.quantile(share).map_or(0, |q| q.0));
        usual >= 2 * LATE - LATE / 4 && high - low <= usual / 4
    }

    /// A pure ACK of `segments` segments and `bytes` bytes came after `rtt`, where the path alone
    /// takes `base`.
    ///
    /// Two full segments have to be acknowledged without delay (RFC 5681, section 4.2), so only an
    /// ACK of less can be a delayed one; a longer way for more has another cause. The ACK's
    /// timestamp value and when it came say by how much longer than others it was on its way to the
    /// capture: so much of the delay was not the receiver's.
    #[inline]
    pub(crate) fn take(
        &mut self,
        segments: u32,
        bytes: u64,
        mss: u32,
        rtt: Option<u64>,
        base: Option<u64>,
        stamp: Option<(u32, u64)>,
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
        // A path that takes no time at all by the capture's clock: that may tick slowly (10 ms on
        // old systems), and one tick is no delay.
        let late = if base == 0 { LATE + LATE / 2 } else { LATE };
        if (late..=TOO_LATE).contains(&excess) && bytes < 2 * u64::from(mss) {
            let lateness = self.lateness.get_or_insert_default();
            let [least, most] = stamp.and_then(|(value, at)| lateness.under_way(value, at)).unwrap_or([0, u64::MAX]);
            let held_back = excess.saturating_sub(least);
            // What may have been the way's is taken to be that; a clock that shows nothing of it
            // decides nothing.
            if held_back < late || least > 0 && excess.saturating_sub(most) < late / 2 {
                return Promptness::Unclear;
            }
            lateness.acks.add(Nanos(held_back));
            return Promptness::Late(held_back);
        }
        Promptness::Unclear
    }
}
