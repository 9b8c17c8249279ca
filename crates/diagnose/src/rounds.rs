//! A direction by rounds: from a segment's departure to the moment when its sender learns of its ACK.
//!
//! Rounds are closed by what the sender had learnt when it sent, not by each ACK that the capture sees: near the receiver these come
//! at any moment.

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
    silence: u64,
    bytes: u32,
    segments: u16,
    /// The most in flight in the round, and in the one before.
    pub(crate) peak: u32,
    pub(crate) last_peak: u32,
    /// Rounds in a row of which the flight peaked on one level, and that level.
    flat: u16,
    level: u32,
    /// The longest such run, three at least, and its level.
    pub(crate) most_flat: (u16, u32),
    /// The last round's flight peaked within a segment of the one's before.
    steady: bool,
    pub(crate) past_slow_start: bool,
    /// Half of what was in flight when a loss was noticed; 0 before the first.
    pub(crate) threshold: u32,
    /// Bytes of the last round and how long it took, ns; of one that took more than fits, what gives the same rate.
    last: (u32, u32),
    /// Rounds in a row that were filled evenly at one rate.
    even: u8,
    /// Most of the last round went by in silence.
    silent: bool,
    /// Rounds until what is in flight is the window again: after a recovery it still holds what SACK had reported.
    settling: u8,
}

/// What a round is judged by, beside itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// A full segment, bytes.
    pub(crate) size: u32,
    /// The receive window as the sender knew it; `None` where it is not known.
    pub(crate) window: Option<u64>,
    pub(crate) in_recovery: bool,
}

/// Kilobytes a second, of bytes in so many nanoseconds.
fn rate(bytes: u32, took: u64) -> u32 {
    (f64::from(bytes) * 1e6 / took.max(1) as f64) as u32
}

impl Rounds {
    /// Whether a sender that knows of everything up to `una` has learnt that the round's first segment arrived.
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
    }

    /// A segment `[start, end)` is sent at `now`, with `flight` bytes out after it.
    #[inline]
    pub(crate) fn sent(&mut self, now: u64, span: (u64, u64), flight: u32) {
        self.silence = self.silence.max(now - self.last_at.min(now));
        self.last_at = now;
        self.bytes = self.bytes.saturating_add((span.1 - span.0) as u32);
        self.segments = self.segments.saturating_add(1);
        self.peak = self.peak.max(flight);
    }

    /// A round with data in it is over. True where slow start is over too, if the last segment was full: if there was more to send.
    #[inline(always)]
    pub(crate) fn close(&mut self, now: u64, around: &Surroundings) -> bool {
        let (peak, last) = (self.peak, self.last_peak);
        self.count = self.count.saturating_add(1);
        let took = now - self.began.min(now);
        // Whole microseconds.
        let silence = self.silence.max(now - self.last_at.min(now)) / 1_000 * 1_000;
        // A round that is filled without a pause, at the rate of the round before: what sets it is the path, or a pacer, and not a
        // window, which is sent at once and then waited for.
        let even = self.segments >= 4 && silence <= took / 4 && {
            let (rate, last) = (rate(self.bytes, took), rate(self.last.0, self.last.1.into()));
            rate.abs_diff(last) <= rate / 6
        };
        self.even = if even { self.even.saturating_add(1) } else { 0 };
        self.last = match u32::try_from(took) {
            Ok(took) => (self.bytes, took),
            Err(_) => (rate(self.bytes, took), 1_000_000),
        };
        self.silent = silence >= took / 2;
        let size = around.size.max(1);
        let mut over = false;
        if !around.in_recovery {
            // A level is left by growth of more than a segment, which congestion avoidance makes in two rounds; a round may
            // fall short of it, because writes and acknowledgments do not come in step.
            let level = self.level;
            let at_edge = around.window.is_some_and(|w| u64::from(peak) + u64::from(size) > w);
            if self.settling > 0 {
                self.settling -= 1;
            } else if at_edge || self.even > 0 {
                // At the edge of the receiver's window the level is the receiver's; at the path's rate it is the path's.
                (self.flat, self.level) = (0, 0);
            } else if peak / 4 > size && peak <= level.saturating_add(size) && peak >= level / 2 {
                self.flat = self.flat.saturating_add(1);
            } else {
                (self.flat, self.level) = (0, peak);
            }
            if self.flat > self.most_flat.0.max(2) {
                self.most_flat = (self.flat, self.level);
            }
            // Slow start doubles each round (half that with delayed ACKs); two rounds of a segment or less are no slow start.
            let steady = last / 4 > size && peak.abs_diff(last) <= size;
            over = steady && self.steady || self.threshold > 0 && peak >= self.threshold;
            self.steady = steady;
        }
        self.last_peak = peak;
        self.peak = 0;
        over
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

    /// The last rounds were filled evenly at one rate.
    pub(crate) fn is_even(&self) -> bool {
        self.even >= 2
    }

    /// Most of the last round went by without a segment: its window was sent at once and then waited for.
    pub(crate) fn is_bursty(&self) -> bool {
        self.silent
    }

    /// The larger of the last two rounds' peaks.
    pub(crate) fn recent_peak(&self) -> u32 {
        self.peak.max(self.last_peak)
    }
}
