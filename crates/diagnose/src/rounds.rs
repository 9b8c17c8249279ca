//! A direction by rounds: from a segment's departure to the moment when its sender learns of its
//! ACK.
//!
//! Rounds are closed by what the sender had learnt when it sent, not by each ACK that the capture
//! sees: near the receiver these come at any moment.

/// Rounds of one direction, and what their flights looked like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    /// Rounds that had data in them.
    pub(crate) count: u32,
    /// The position at the end of the round under way.
    end: u64,
    began: u64,
    /// When the round's last segment was sent, and the longest time between two of them.
    last_at: u64,
    /// Whole microseconds.
    silence: u32,
    bytes: u32,
    /// More than 255 are as good as 255; part-filled ones among them.
    segments: u8,
    part_filled: u8,
    /// The most in flight in the round, and in the one before.
    pub(crate) peak: u32,
    pub(crate) last_peak: u32,
    /// Rounds in a row of which the flight peaked on one level, and that level.
    flat: u16,
    level: u32,
    /// The longest such run, three at least, and its level.
    most_flat: u16,
    most_flat_level: u32,
    growth: Growth,
    pub(crate) past_slow_start: bool,
    /// Half of what was in flight when a loss was noticed; 0 before the first. Where slow start has
    /// gone on all the same, the last peak.
    pub(crate) threshold: u32,
    /// The rate of the last round, kB/s.
    rate: u32,
    /// Rounds in a row that were filled evenly, each at the rate of the one before, and the rate of
    /// the first of them, in kB/s.
    even: u8,
    even_from: u32,
    /// Most of the last round went by in silence.
    silent: bool,
    /// All that was in flight in the last round was sent in one burst, and then waited for.
    one_burst: bool,
    /// Bytes of the round that no ACK had let go, and whether one had let go the latest.
    unprompted: u32,
    prompted: bool,
    /// More than a third of the last round was such bytes: a window lets next to none go so, and
    /// what an application wrote by itself may still meet an ACK.
    by_itself: bool,
    /// Bytes that were sent one right after the other, up to now, and the most of them in the
    /// round.
    burst: u32,
    largest_burst: u32,
    /// The longest time between two segments of the last round, and of the one before, in units of
    /// 2^16 ns.
    pauses: [u16; 2],
    /// What was acknowledged when the round began, modulo 2^32.
    una: u32,
    /// Packets in the round at which a queue stood on the path; more than 255 are as good as 255.
    queue: u8,
    /// How fast data were acknowledged in the latest round in which a queue stood most of the time;
    /// 0 before the first.
    path: u32,
    /// How often a part-filled segment was sent by itself while the one before, part-filled too,
    /// was out, since the last that a late ACK let go; 255 at most.
    part_filled_beside: u8,
    /// Rounds until what is in flight is the window again: after a recovery it still holds what
    /// SACK had reported.
    settling: u8,
}

/// How a round's flight peaked, beside the one's before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Growth {
    #[default]
    Other,
    /// Within a segment or an eighth of it.
    Steady,
    /// Higher by more than half, and at most twice as high, where that one's was more than a loss
    /// had left.
    FarMore,
}

/// What a round says of slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlowStart {
    /// Nothing new.
    AsBefore,
    /// It is over, if the round's last segment was full: if there was more to send.
    Over,
    /// It had been taken to be over, and has gone on for so long, ns.
    WentOn(u64),
}

/// What a round is judged by, beside itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// The sender is not beside the capture.
    pub(crate) away: bool,
    /// What the sender knows to be acknowledged.
    pub(crate) una: u64,
    /// A full segment, bytes.
    pub(crate) size: u32,
    /// The receive window as the sender knew it; `None` where it is not known.
    pub(crate) window: Option<u64>,
    pub(crate) in_recovery: bool,
}

/// What let a segment go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    /// An ACK came just before.
    pub(crate) prompted: bool,
    /// It follows the one before at once, so that both were let go together.
    pub(crate) follows: bool,
}

/// Whole microseconds, up to an hour.
fn micros(time: u64) -> u32 {
    u32::try_from(time / 1_000).unwrap_or(u32::MAX)
}

/// Kilobytes a second, of bytes in so many nanoseconds.
fn rate(bytes: u32, took: u64) -> u32 {
    (f64::from(bytes) * 1e6 / took.max(1) as f64) as u32
}

impl Rounds {
    /// Whether a sender that knows of everything up to `una` has learnt that the round's first
    /// segment arrived.
    #[inline]
    pub(crate) fn is_over(&self, una: u64) -> bool {
        una >= self.end
    }

    /// Whether anything was sent in the round under way.
    #[inline(always)]
    pub(crate) fn has_data(&self) -> bool {
        self.peak > 0
    }

    /// A round begins at `now` with a segment up to `end`, which ends it when it is acknowledged.
    #[inline(always)]
    pub(crate) fn begin(&mut self, now: u64, end: u64, una: u64) {
        self.end = end.max(una + 1);
        (self.began, self.last_at, self.silence, self.bytes, self.segments) = (now, now, 0, 0, 0);
        (self.una, self.unprompted, self.largest_burst, self.part_filled) = (una as u32, 0, 0, 0);
    }

    /// A segment of so many `bytes` is sent at `now`, full or not, with `flight` bytes out after
    /// it.
    #[inline(always)]
    pub(crate) fn sent(&mut self, now: u64, (bytes, full): (u32, bool), flight: u32, release: Release) {
        let pause = now - self.last_at.min(now);
        self.silence = self.silence.max(micros(pause));
        self.last_at = now;
        self.bytes = self.bytes.saturating_add(bytes);
        self.burst = if release.follows { self.burst.saturating_add(bytes) } else { bytes };
        self.largest_burst = self.largest_burst.max(self.burst);
        // The first flight has no ACK to wait for, and the initial window may end it as well.
        let first = self.count == 0 && flight <= bytes;
        self.prompted = release.prompted || first || self.prompted && release.follows;
        if !self.prompted {
            self.unprompted = self.unprompted.saturating_add(bytes);
        }
        self.segments = self.segments.saturating_add(1);
        self.part_filled = self.part_filled.saturating_add((!full).into());
        self.peak = self.peak.max(flight);
    }

    /// A part-filled segment was sent while the one before, part-filled too, was out.
    #[inline(always)]
    pub(crate) fn note_part_filled_beside(&mut self) {
        self.part_filled_beside = self.part_filled_beside.saturating_add(1);
    }

    /// A late ACK let a part-filled segment go: that this was chance is not to be believed.
    pub(crate) fn note_held_back(&mut self) {
        self.part_filled_beside = 0;
    }

    /// A round with data in it is over.
    #[inline(always)]
    pub(crate) fn close(&mut self, now: u64, around: &Surroundings) -> SlowStart {
        let (peak, last) = (self.peak, self.last_peak);
        self.count = self.count.saturating_add(1);
        let took = now - self.began.min(now);
        let silence = u64::from(self.silence.max(micros(now - self.last_at.min(now)))) * 1_000;
        // A round that is filled without a pause, at the rate of the round before: what sets it is
        // the path, or a pacer, and not a window, which is sent at once and then waited for.
        let before = std::mem::replace(&mut self.rate, rate(self.bytes, took));
        if self.even == 0 {
            self.even_from = before;
        }
        let even = self.segments >= 4 && silence <= took / 4 && self.rate.abs_diff(before) <= self.rate / 6;
        self.even = if even { self.even.saturating_add(1) } else { 0 };
        self.silent = silence >= took / 2;
        // Where less was sent at once than had been in flight, some of that was still on the path.
        self.one_burst = self.silent && self.largest_burst >= peak - peak / 8;
        // What ends in a part-filled segment time and again is written in small pieces, and all of
        // each is sent: away from the sender, that ACKs came just before may be chance.
        let pieces = around.away && self.part_filled > self.segments / 20;
        self.by_itself = self.unprompted > self.bytes / 3 || pieces;
        self.pauses = [u16::try_from(silence.div_ceil(1 << 16)).unwrap_or(u16::MAX), self.pauses[0]];
        if std::mem::take(&mut self.queue) > self.segments / 2 {
            self.path = rate((around.una as u32).wrapping_sub(self.una), took);
        }
        let size = around.size.max(1);
        let mut slow_start = SlowStart::AsBefore;
        if !around.in_recovery {
            // A level is left by growth of more than a segment, which congestion avoidance makes in
            // two rounds; one round may fall short of it, because writes and acknowledgments do not
            // come in step, and two on end are another level.
            let level = self.level;
            let at_edge = around.window.is_some_and(|w| u64::from(peak) + u64::from(size) > w);
            if self.settling > 0 {
                self.settling -= 1;
            } else if at_edge || self.even > 0 || self.by_itself {
                // At the edge of the receiver's window the level is the receiver's; at the path's
                // rate it is the path's; and where no ACK let the data go, it is what their writer
                // or a pacer makes it.
                (self.flat, self.level) = (0, 0);
            } else if peak / 4 > size
                && peak <= level.saturating_add(size)
                && peak.max(if peak >= level / 2 { last } else { 0 }).saturating_add(size) >= level
            {
                self.flat = self.flat.saturating_add(1);
            } else {
                (self.flat, self.level) = (0, peak);
            }
            if self.flat > self.most_flat.max(2) {
                (self.most_flat, self.most_flat_level) = (self.flat, self.level);
            }
            let before = self.growth;
            self.growth = self.growth_of((peak, last), size, at_edge);
            // Slow start doubles each round (half that with delayed ACKs); two rounds of a segment
            // or an eighth are no slow start, nor are four on one level of which some fall short of
            // it.
            let still = self.growth == Growth::Steady && before == Growth::Steady;
            let over = still || self.flat >= 3 || self.threshold > 0 && peak >= self.threshold;
            slow_start = if self.growth == Growth::FarMore && before == Growth::FarMore {
                self.goes_on(took)
            } else if over {
                SlowStart::Over
            } else {
                SlowStart::AsBefore
            };
        } else {
            self.growth = Growth::Other;
        }
        self.last_peak = peak;
        self.peak = 0;
        slow_start
    }

    /// How a round's flight peaked. Outside slow start no congestion control adds more than half a
    /// window in a round (cubic the most: `bictcp_update` in net/ipv4/tcp_cubic.c), and in it none
    /// more than doubles it: what does was not acknowledged because of a loss.
    fn growth_of(&self, (peak, last): (u32, u32), size: u32, at_edge: bool) -> Growth {
        let grown = size.max(last / 8);
        if last / 4 > size && (last.saturating_sub(size)..=last.saturating_add(grown)).contains(&peak) {
            Growth::Steady
        } else if last > self.threshold && peak / 25 >= last / 16 && peak / 9 <= last / 4 && !at_edge && !self.by_itself
        {
            Growth::FarMore
        } else {
            Growth::Other
        }
    }

    /// Slow start has gone on through this round, which took so long, the one before and the one
    /// that those began with: a loss does not end it where it is found to be none and the window is
    /// restored (`tcp_undo_cwnd_reduction` in net/ipv4/tcp_input.c), nor BBR's.
    fn goes_on(&mut self, took: u64) -> SlowStart {
        if !self.past_slow_start {
            return SlowStart::AsBefore;
        }
        (self.past_slow_start, self.threshold) = (false, self.last_peak);
        SlowStart::WentOn(took.saturating_mul(3))
    }

    /// A recovery began or ended: what was in flight before says nothing of what comes.
    pub(crate) fn begin_anew(&mut self, next: u64) {
        (self.end, self.peak, self.flat, self.level, self.even) = (next, 0, 0, 0, 0);
        self.settling = 2;
    }

    /// A level is left.
    pub(crate) fn leave_level(&mut self) {
        (self.flat, self.level, self.even) = (0, 0, 0);
    }

    /// The longest run of rounds of which the flight peaked on one level, and that level, bytes; 0
    /// rounds where no run was longer than two.
    pub(crate) fn most_flat(&self) -> (u16, u32) {
        (self.most_flat, self.most_flat_level)
    }

    /// The last rounds were filled evenly at one rate.
    pub(crate) fn is_even(&self) -> bool {
        self.even >= 2
    }

    /// The last rounds had the rate at which a queue stood on the path: it is the path's, also
    /// where none stands now.
    pub(crate) fn is_at_paths_rate(&self) -> bool {
        self.path > 0 && self.rate.abs_diff(self.path) <= self.path / 8
    }

    /// The path's rate, kB/s, as the latest round shows in which a queue stood most of the time; 0
    /// before the first.
    pub(crate) fn paths_rate(&self) -> u32 {
        self.path
    }

    /// In the course of the even rounds the rate has grown by a quarter, little by little: with
    /// what was in flight, as a congestion window does, and neither a path nor a pacer.
    pub(crate) fn has_grown(&self) -> bool {
        self.rate / 5 >= self.even_from / 4
    }

    /// A queue stands on the path, as a packet shows.
    pub(crate) fn note_queue(&mut self) {
        self.queue = self.queue.saturating_add(1);
    }

    /// The same, as a congestion mark says: the level in flight is the queue's then, and slow start
    /// ends (RFC 3168, section 6.1.2).
    pub(crate) fn note_mark(&mut self) {
        (self.queue, self.flat, self.level, self.past_slow_start) = (u8::MAX, 0, 0, true);
    }

    /// Much of the last round was sent though no ACK had just let it go: no window was waited for.
    pub(crate) fn is_by_itself(&self) -> bool {
        self.by_itself
    }

    /// Part-filled segments were sent while others were out, which Nagle's algorithm does not allow
    /// (RFC 896; `tcp_minshall_check` in net/ipv4/tcp_output.c): it is off.
    pub(crate) fn nagle_is_off(&self) -> bool {
        self.part_filled_beside >= 4
    }

    /// All that was in flight was sent in one burst, and then its ACKs were waited for: the path
    /// was idle.
    pub(crate) fn is_one_burst(&self) -> bool {
        self.one_burst
    }

    /// How long nothing was sent in the course of each of the last two rounds, at least, ns. ACKs
    /// that come in bunches make the sender pause, and lengthen round trips by up to as much.
    pub(crate) fn pause(&self) -> u64 {
        u64::from(self.pauses[0].min(self.pauses[1])) << 16
    }

    /// Most of the last round went by without a segment: its window was sent at once and then
    /// waited for.
    pub(crate) fn is_bursty(&self) -> bool {
        self.silent
    }

    /// An ACK has let the latest segment go, or the ones that it follows at once.
    pub(crate) fn is_prompted(&self) -> bool {
        self.prompted
    }

    /// The larger of the last two rounds' peaks.
    pub(crate) fn recent_peak(&self) -> u32 {
        self.peak.max(self.last_peak)
    }
}
