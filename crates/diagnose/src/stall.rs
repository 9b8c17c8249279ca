//! A path that stands still: a radio link that sleeps, scans or roams, a paused machine, a burst of
//! other traffic before ours.
//!
//! Nothing arrives for a while although much is under way. What was under way is then late by as
//! much, and what is sent afterwards is not. A queue looks different: while it grows and drains,
//! packets keep coming at the path's rate. Where several connections share one, each waits while
//! the others' bursts go by, but not for longer than its round trip.

use crate::event::Occurrence;

/// The shortest that counts, ns: above what schedulers, interrupt coalescing and the aggregation of
/// Wi-Fi add.
pub(crate) const SHORTEST: u64 = 30_000_000;

/// ACKs came after a silence, and late: a standstill, if what is sent from here on is in time
/// again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    /// When it began and ended.
    since: u64,
    at: u64,
    /// By how much what was under way came later than usual, ns, and the round trip that was usual
    /// before.
    late: u64,
    usual: u64,
    /// The shortest round trip of late.
    least: u64,
    /// The first packet that came after it, and whether it acknowledges a single segment.
    number: u64,
    may_be_delayed: bool,
    /// Of what was acknowledged soon after, the bytes that were in time.
    in_time: u64,
    /// Bytes that were under way when it ended, and those of them and segments that were
    /// acknowledged soon after.
    under_way: u64,
    soon: (u64, u32),
}

/// What became of a standstill that was suspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What comes was still under way when it ended.
    Open,
    Confirmed,
    /// Or a delayed ACK, followed by ACKs that are in time.
    Possible,
    /// Round trips stayed longer, or too little had been under way: another delay, a queue, or a
    /// slow path.
    Refuted,
}

impl Stall {
    /// An ACK, packet `number`, ended a `silence` with so many bytes under way. It answers data
    /// with a round trip of `rtt` where `usual` was usual and `least` the shortest.
    pub(crate) fn suspected(
        now: u64,
        silence: u64,
        [rtt, usual, least]: [u64; 3],
        under_way: u64,
        number: u64,
    ) -> Option<Self> {
        let excess = rtt.saturating_sub(usual);
        let late = excess.min(silence);
        let suspected = late >= SHORTEST.max(usual) && excess >= silence / 4 * 3;
        suspected.then_some(Self {
            since: now - silence.min(now),
            at: now,
            late,
            usual,
            least,
            number,
            may_be_delayed: false,
            in_time: 0,
            under_way,
            soon: (0, 0),
        })
    }

    /// An ACK at `now` takes so many bytes and segments off; the last of them was sent at `sent_at`
    /// and took `rtt`.
    pub(crate) fn judge(&mut self, now: u64, sent_at: u64, rtt: u64, (bytes, segments): (u64, u32)) -> Verdict {
        // On a slow path each packet takes as long as this silence did.
        if now - self.at.min(now) <= self.late / 2 {
            self.soon = (self.soon.0.saturating_add(bytes), self.soon.1.saturating_add(segments));
            if rtt < self.least.saturating_add(self.late / 16) {
                self.in_time = self.in_time.saturating_add(bytes);
            }
        }
        if now == self.at {
            self.may_be_delayed = segments < 2;
        }
        if sent_at < self.at {
            Verdict::Open
        } else if self.soon.1 >= 4
            && self.soon.0 >= self.under_way / 2
            && rtt <= self.usual.saturating_add(self.late / 2)
        {
            // A delayed ACK may have come just before those of the next flight, which are in time.
            if self.may_be_delayed && self.in_time >= self.soon.0 / 2 { Verdict::Possible } else { Verdict::Confirmed }
        } else {
            Verdict::Refuted
        }
    }

    pub(crate) fn occurrence(&self) -> Occurrence {
        Occurrence { at: self.since, cost: self.late, packets: [self.number, 0, 0], detail: 0 }
    }
}

/// What the first segment after a silence shows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing.
    InTime,
    /// The silence was not its sender's: the path held up this segment, or the ACKs before it.
    HeldUp,
    /// The path had stood still, and goes on.
    StoodStill(Occurrence),
}

/// A silence that was not the sender's: a standstill of the path, if what comes next shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    /// When the first packet after it came, and its number.
    pub(crate) at: u64,
    number: u64,
    /// How long the path stood still.
    pub(crate) late: u64,
}

impl Suspicion {
    /// Packet `number` comes at `now` after a `silence`, and is `late`; a standstill takes
    /// `shortest` at least.
    pub(crate) fn new(now: u64, number: u64, late: u64, silence: u64, shortest: u64) -> Option<Self> {
        (late >= shortest && late >= silence / 2).then_some(Self { at: now, number, late })
    }

    /// Whether what comes now says nothing of it any more.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        now - self.at.min(now) > self.late
    }

    pub(crate) fn occurrence(&self) -> Occurrence {
        Occurrence { at: self.at - self.late.min(self.at), cost: self.late, packets: [self.number, 0, 0], detail: 0 }
    }
}

/// The sender's clock, by the timestamps of its segments, against the capture's: how long each was
/// under way more than others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderClock {
    /// The first value and when it came; the newest.
    first: (u32, u64),
    newest: u32,
    /// When its last segment with data came.
    last: u64,
    /// Segments that came late, and are being watched, with the first one's value.
    late: Option<(Suspicion, u32)>,
}

impl SenderClock {
    /// A segment with data and this timestamp value, packet `number`, comes at `now`; a standstill
    /// takes `shortest` at least. Retransmissions end silences like others and show nothing else.
    #[inline]
    pub(crate) fn arrived(&mut self, value: u32, now: u64, shortest: u64, segment: Option<u64>) -> Heard {
        let before = std::mem::replace(&mut self.last, now);
        if self.first.1 == 0 {
            (self.first, self.newest) = ((value, now), value);
            return Heard::InTime;
        }
        let silence = now - before.min(now);
        let Some(number) = segment else { return Heard::InTime };
        if silence < SHORTEST && self.late.is_none() {
            self.newest = value;
            return Heard::InTime;
        }
        self.after_silence(value, now, (silence, before, shortest), number)
    }

    /// How long nothing had come before this moment.
    #[inline]
    pub(crate) fn silence(&self, now: u64) -> u64 {
        if self.last == 0 { 0 } else { now - self.last.min(now) }
    }

    #[cold]
    fn after_silence(
        &mut self,
        value: u32,
        now: u64,
        (silence, before, shortest): (u64, u64, u64),
        number: u64,
    ) -> Heard {
        let (span, ticks) = (before.saturating_sub(self.first.1), self.newest.wrapping_sub(self.first.0));
        let since = |other: u32| {
            let ticks_since = i64::from(value.wrapping_sub(other).cast_signed()).max(0) as u64;
            (u128::from(ticks_since) * u128::from(span) / u128::from(ticks.max(1))) as u64
        };
        // A tenth of a second shows how fast the clock runs.
        if span < 100_000_000 || ticks == 0 || ticks > i32::MAX.cast_unsigned() {
            self.newest = value;
            return Heard::InTime;
        }
        if let Some((suspicion, then)) = self.late {
            // Segments that were sent after one another came together.
            if since(then).saturating_sub(now - suspicion.at.min(now)) >= suspicion.late / 2 {
                (self.late, self.newest) = (None, value);
                return Heard::StoodStill(suspicion.occurrence());
            }
            if suspicion.is_over(now) {
                self.late = None;
            }
        }
        let late = silence.saturating_sub(since(self.newest));
        // A clock that ticks slowly stands still for a tick whatever the path does.
        let shortest = shortest.max(3 * (span / u64::from(ticks)));
        self.newest = value;
        let Some(suspicion) = Suspicion::new(now, number, late, silence, shortest) else { return Heard::InTime };
        self.late = Some((suspicion, value));
        Heard::HeldUp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn late_acks_after_a_silence_are_a_standstill_where_later_ones_are_in_time() {
        let suspected = |silence: u64, rtt: u64| {
            Stall::suspected(1_000 * MS, silence * MS, [rtt * MS, 20 * MS, 20 * MS], 10_000, 7)
        };
        assert!(suspected(100, 25).is_none() && suspected(10, 120).is_none() && suspected(300, 100).is_none());
        let mut stall = suspected(100, 118).unwrap();
        assert_eq!(stall.judge(1_001 * MS, 900 * MS, 101 * MS, (2_000, 2)), Verdict::Open);
        assert_eq!(stall.judge(1_002 * MS, 910 * MS, 92 * MS, (4_000, 4)), Verdict::Open);
        assert_eq!(stall.judge(1_025 * MS, 1_001 * MS, 24 * MS, (2_000, 2)), Verdict::Confirmed);
        assert_eq!(
            stall.judge(1_125 * MS, 1_001 * MS, 124 * MS, (2_000, 2)),
            Verdict::Refuted,
            "a change of the delay"
        );
        let mut partly = suspected(100, 118).unwrap();
        assert_eq!(partly.judge(1_001 * MS, 900 * MS, 101 * MS, (4_000, 4)), Verdict::Open);
        assert_eq!(
            partly.judge(1_060 * MS, 1_001 * MS, 24 * MS, (6_000, 6)),
            Verdict::Refuted,
            "a path of uneven rate"
        );
        let mut delayed_ack = suspected(100, 118).unwrap();
        assert_eq!(delayed_ack.judge(1_000 * MS, 882 * MS, 118 * MS, (1_000, 1)), Verdict::Open);
        assert_eq!(delayed_ack.judge(1_001 * MS, 980 * MS, 21 * MS, (6_000, 6)), Verdict::Open);
        assert_eq!(
            delayed_ack.judge(1_022 * MS, 1_001 * MS, 21 * MS, (2_000, 2)),
            Verdict::Possible,
            "a delayed ACK before those of a flight that is in time"
        );
        let mut slow = suspected(100, 118).unwrap();
        assert_eq!(slow.judge(1_100 * MS, 1_001 * MS, 24 * MS, (1_000, 1)), Verdict::Refuted, "a slow path");
    }

    #[test]
    fn the_senders_clock_distinguishes_its_pause_from_the_paths() {
        let mut clock = SenderClock::default();
        let come = |clock: &mut SenderClock, value, ms: u64, n| clock.arrived(value, ms * MS, SHORTEST, Some(n));
        (0..200).for_each(|ms| _ = come(&mut clock, 5_000 + ms, u64::from(ms) + 50, 1));
        let mut paused = clock;
        assert_eq!(come(&mut paused, 5_300, 350, 9), Heard::InTime);
        // Three ticks a second.
        let mut coarse = SenderClock::default();
        (0..40).for_each(|n| _ = come(&mut coarse, 700 + n / 4, u64::from(n) * 80, 1));
        assert_eq!(come(&mut coarse, 709, 39 * 80 + 300, 9), Heard::InTime);
        assert_eq!(come(&mut clock, 5_201, 350, 9), Heard::HeldUp);
        assert_eq!(come(&mut clock, 5_230, 351, 10), Heard::InTime);
        assert!(
            matches!(come(&mut clock, 5_260, 351, 11), Heard::StoodStill(o) if o.cost > 90 * MS && o.packets[0] == 9)
        );
    }
}
