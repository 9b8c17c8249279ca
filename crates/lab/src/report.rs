//! What a path was asked to be, beside what it was.

use clock::Nanos;
use serde::{Deserialize, Serialize};
use stats::{Distribution, DurationSummary, Precision};

use crate::direction::Direction;
use crate::ethernet::ETHERNET_OVERHEAD;
use crate::schedule::MOST_STEPS;

/// The fewest segments that give a rate.
pub const BUSY_SEGMENTS: u64 = 100;

/// The shortest busy period that counts for the rate: a delivery that is 0.1 ms late at either end
/// is 1 % of it. Shorter ones are excluded, even if there are many: the last delivery of each is
/// late because its host was busy with the first one, and the rate would show that delay.
pub const BUSY_TIME: Nanos = Nanos::from_millis(10);

/// What a path reports, to be kept with every result that was measured over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// `built-in`, `netem`, or `tbf` where that is all it takes.
    pub backend: String,
    /// Why that backend.
    pub reason: String,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Where the random draws began.
    pub seed: u64,
    /// How long the path has been up.
    #[serde(rename = "up_ns")]
    pub up: Nanos,
    /// From `a` to `b`.
    pub a_to_b: DirectionReport,
    /// From `b` to `a`.
    pub b_to_a: DirectionReport,
}

/// What one direction reports. Counts are of segments on the wire unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionReport {
    /// What it is asked to be at present.
    pub asked: Direction,
    /// The delay that the machine itself adds between the sending host and the path, and between
    /// the path and the receiving host. It is measured when the path comes up and is part of the
    /// path's delay, which cannot be shorter. `None` where the backend does not know.
    #[serde(default, rename = "overhead_ns")]
    pub overhead: Option<Nanos>,
    /// What hosts measured when it came up, for a delay of up to 1 ms.
    #[serde(default)]
    pub probes: Option<Probes>,
    /// How often that was changed while it ran.
    pub changes: u64,
    /// What it did since it came up. `None` where the backend does not know.
    pub achieved: Option<Achieved>,
    /// What it was asked to be and what it did between changes, if there were any: the last entry
    /// is the present. Only the first 10,000 are kept. A segment belongs to the step in which it
    /// was delivered, dropped or lost.
    #[serde(default)]
    pub steps: Vec<StepReport>,
    /// Steps of its schedule that were not possible, because a change from outside had left a path
    /// that they do not fit.
    #[serde(default)]
    pub steps_refused: u64,
}

/// Datagrams that were sent one at a time, before a path came up, over an unused path of the same
/// kind: the delay as hosts see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probes {
    /// The delay that was asked for then.
    #[serde(rename = "asked_ns")]
    pub asked: Nanos,
    /// From the call that sends a datagram to the receiving kernel's stamp.
    pub seen: DurationSummary,
    /// The share of that time, 0 to 1, in which at least one task of the machine waited for a CPU.
    /// `None` where the kernel does not account for it.
    pub cpu_pressure: Option<f64>,
}

/// What a direction did between two changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// When it began, since the path came up.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// How long it lasted; of the last, so far.
    #[serde(rename = "lasted_ns")]
    pub lasted: Nanos,
    /// What it was asked to be.
    pub asked: Direction,
    /// What it did. Segments in flight, and frames that the sending device missed, are counted for
    /// the whole path only.
    pub achieved: Achieved,
}

/// What one direction did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Achieved {
    /// From a segment's last bit on the wire to its delivery: the delay, jitter and hold as hosts
    /// see them, with [`DirectionReport::overhead`].
    pub delay: Option<DurationSummary>,
    /// From a frame's entry to its delivery: the same with the queue and the transmission.
    pub transit: Option<DurationSummary>,
    /// How much later than intended each delivery was.
    pub lateness: Option<DurationSummary>,
    /// Bits a second on the wire over the busy periods of at least [`BUSY_TIME`] each, by the clock
    /// at delivery. `None` below [`BUSY_SEGMENTS`] segments in them.
    pub busy_rate: Option<f64>,
    /// Segments from which `busy_rate` is computed: those of each such period after its first
    /// delivery.
    pub busy_segments: u64,
    /// Total length of those busy periods, each from its first delivery to its last.
    #[serde(rename = "busy_ns")]
    pub busy: Nanos,
    /// Share of the segments sent that were lost on the way (`lost / (lost + delivered)`); `None`
    /// before any.
    pub loss: Option<f64>,
    /// Frames that came in; one of many segments is one.
    pub frames: u64,
    /// Frames for which the kernel gave no departure time: their delay counts from when the path
    /// read them, up to 0.2 ms after they left.
    pub timed_when_read: u64,
    /// Segments that came in.
    pub offered: u64,
    /// Segments that were delivered, copies not counted.
    pub delivered: u64,
    /// Segments still under way.
    pub in_flight: u64,
    /// Dropped because the queue was full.
    pub dropped_queue: u64,
    /// Dropped by the queue discipline to keep the queue short.
    pub dropped_early: u64,
    /// Lost on the way, as asked.
    pub lost: u64,
    /// Dropped because more than the memory bound was under way (see [`crate::MEMORY_BOUND`]).
    pub dropped_memory: u64,
    /// Dropped because the receiving host would not take the frame.
    pub refused: u64,
    /// Frames (not segments) that the sending device dropped because the path did not read fast
    /// enough.
    pub missed_frames: u64,
    /// Marked "congestion experienced".
    pub marked: u64,
    /// Held back so that others overtook them.
    pub held: u64,
    /// Delivered after a segment that came in later.
    pub reordered: u64,
    /// Copies delivered beside the original.
    pub duplicated: u64,
    /// Bytes of Ethernet frames delivered (no preamble, check sequence or gap).
    pub bytes: u64,
    /// The same on the wire, everything that Ethernet adds counted.
    pub wire_bytes: u64,
}

/// The counters while the path runs: of the whole time, and of the present step.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub changes: u64,
    pub steps_refused: u64,
    whole: Counts,
    /// Since the last change. Before the first change it equals the whole and is not kept.
    step: Option<Box<Counts>>,
    began: Nanos,
    asked: Direction,
    past: Vec<StepReport>,
}

/// The counters of some time.
#[derive(Clone, Debug)]
struct Counts {
    achieved: Achieved,
    delay: Distribution,
    transit: Distribution,
    lateness: Distribution,
    /// When the last delivery was.
    last_out: Option<u64>,
    /// The current busy period, and the sum of the earlier ones that were long enough.
    period: Busy,
    busy: Busy,
    highest_order: u64,
}

/// What busy periods delivered after their first delivery.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    bytes: u64,
    segments: u64,
    ns: u64,
}

impl Busy {
    /// With one more period, if it is long enough for a rate.
    fn and(self, period: Self) -> Self {
        if period.ns < BUSY_TIME.0 {
            return self;
        }
        Self { bytes: self.bytes + period.bytes, segments: self.segments + period.segments, ns: self.ns + period.ns }
    }
}

/// One delivery, for the tally. Times are nanoseconds on the path's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub order: u64,
    pub entered: u64,
    pub sent: u64,
    pub due: u64,
    pub out: u64,
    pub segments: u32,
    pub wire_bytes: u64,
    /// Wire bytes of segments lost since the piece before: they took their time on the wire too.
    pub lost_before: u64,
    /// Whether the wire was idle when this piece's first segment came.
    pub found_idle: bool,
}

impl Tally {
    /// The counters of a direction that begins as `asked`.
    pub(crate) fn new(asked: &Direction) -> Self {
        Self {
            changes: 0,
            steps_refused: 0,
            whole: Counts::default(),
            step: None,
            began: Nanos::ZERO,
            asked: asked.clone(),
            past: Vec::new(),
        }
    }

    /// Counts in the whole and in the present step.
    pub(crate) fn count(&mut self, add: impl Fn(&mut Achieved)) {
        add(&mut self.whole.achieved);
        if let Some(step) = &mut self.step {
            add(&mut step.achieved);
        }
    }

    pub(crate) fn delivered(&mut self, d: &Delivery) {
        self.whole.delivered(d);
        if let Some(step) = &mut self.step {
            step.delivered(d);
        }
    }

    pub(crate) fn achieved(&self, in_flight: u64, missed_frames: u64) -> Achieved {
        self.whole.achieved(in_flight, missed_frames)
    }

    /// The direction becomes `asked`, so long after it came up; or, if the schedule of the path
    /// begins with that, as the path begins (`with_path`).
    pub(crate) fn begin_step(&mut self, at: Nanos, asked: &Direction, with_path: bool) {
        let before = self.present(at);
        // A step that begins with the path has nothing before it, however long its thread took to
        // start.
        let nothing = with_path && before.achieved.offered == 0;
        if self.past.len() < MOST_STEPS && !nothing {
            self.past.push(before);
        }
        self.changes += 1;
        self.began = at;
        self.asked = asked.clone();
        // Segments on their way were given their order before: those that overtake each other are
        // still counted.
        let highest_order = self.whole.highest_order;
        self.step = Some(Box::new(Counts { highest_order, ..Counts::default() }));
    }

    fn present(&self, now: Nanos) -> StepReport {
        let achieved = self.step.as_deref().unwrap_or(&self.whole).achieved(0, 0);
        let lasted = Nanos(now.0.saturating_sub(self.began.0));
        StepReport { at: self.began, lasted, asked: self.asked.clone(), achieved }
    }

    /// The steps so far, where there was a change.
    pub(crate) fn steps(&self, now: Nanos) -> Vec<StepReport> {
        let mut steps = self.past.clone();
        if self.changes > 0 {
            steps.push(self.present(now));
        }
        steps
    }
}

impl Default for Counts {
    fn default() -> Self {
        let empty = || Distribution::new(Precision::Fine);
        Self {
            achieved: Achieved::default(),
            delay: empty(),
            transit: empty(),
            lateness: empty(),
            last_out: None,
            period: Busy::default(),
            busy: Busy::default(),
            highest_order: 0,
        }
    }
}

impl Counts {
    fn delivered(&mut self, d: &Delivery) {
        let n = u64::from(d.segments);
        self.delay.record_many(d.out.saturating_sub(d.sent), n);
        self.transit.record_many(d.out.saturating_sub(d.entered), n);
        self.lateness.record_many(d.out.saturating_sub(d.due), n);
        self.achieved.delivered += n;
        self.achieved.wire_bytes += d.wire_bytes;
        self.achieved.bytes += d.wire_bytes.saturating_sub(n * u64::from(ETHERNET_OVERHEAD - 14));
        if d.order < self.highest_order {
            self.achieved.reordered += n;
        }
        self.highest_order = self.highest_order.max(d.order);
        match self.last_out {
            Some(last) if !d.found_idle => {
                self.period.bytes += d.wire_bytes + d.lost_before;
                self.period.segments += n;
                self.period.ns += d.out.saturating_sub(last);
            }
            _ => self.busy = self.busy.and(std::mem::take(&mut self.period)),
        }
        self.last_out = Some(d.out);
    }

    fn achieved(&self, in_flight: u64, missed_frames: u64) -> Achieved {
        let sent = self.achieved.lost + self.achieved.delivered;
        let busy = self.busy.and(self.period);
        Achieved {
            delay: DurationSummary::of(&self.delay),
            transit: DurationSummary::of(&self.transit),
            lateness: DurationSummary::of(&self.lateness),
            busy_rate: (busy.segments >= BUSY_SEGMENTS).then(|| busy.bytes as f64 * 8e9 / busy.ns as f64),
            busy_segments: busy.segments,
            busy: Nanos(busy.ns),
            loss: (sent > 0).then(|| self.achieved.lost as f64 / sent as f64),
            in_flight,
            missed_frames,
            ..self.achieved.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One busy period of `n` segments, delivered `apart` nanoseconds from each other.
    fn stream(n: u64, wire_bytes: u64, apart: u64) -> Achieved {
        let mut tally = Counts::default();
        period(&mut tally, 1_000_000, n, wire_bytes, apart);
        tally.achieved(0, 0)
    }

    /// A busy period that begins at `at`.
    fn period(tally: &mut Counts, at: u64, n: u64, wire_bytes: u64, apart: u64) {
        for i in 0..n {
            let out = at + i * apart;
            tally.delivered(&Delivery {
                order: i,
                entered: 0,
                sent: out,
                due: out,
                out,
                segments: 1,
                wire_bytes,
                lost_before: 0,
                found_idle: i == 0,
            });
        }
    }

    #[test]
    fn the_rate_counts_what_came_between_the_first_and_the_last_delivery() {
        let a = stream(1_001, 1_519, 60_760);
        assert_eq!((a.busy_segments, a.busy), (1_000, Nanos(60_760_000)));
        assert!((a.busy_rate.unwrap() - 200e6).abs() < 1.0, "{a:?}");
    }

    #[test]
    fn short_busy_periods_of_an_idle_path_do_not_lower_its_rate() {
        // 500 exchanges of two segments on 200 Mbit/s, the second of each 20 µs late: summed up
        // they would give 150 Mbit/s.
        let mut tally = Counts::default();
        for i in 0..500 {
            period(&mut tally, i * 20_000_000, 2, 1_519, 60_760 + 20_000);
        }
        assert_eq!(tally.achieved(0, 0).busy_rate, None);
        // A stream among them gives the rate.
        period(&mut tally, 20_000_000_000, 1_001, 1_519, 60_760);
        for i in 0..500 {
            period(&mut tally, 30_000_000_000 + i * 20_000_000, 2, 1_519, 60_760 + 20_000);
        }
        let a = tally.achieved(0, 0);
        assert_eq!((a.busy_segments, a.busy), (1_000, Nanos(60_760_000)));
        assert!((a.busy_rate.unwrap() - 200e6).abs() < 1.0, "{a:?}");
    }

    #[test]
    fn a_few_acks_that_met_on_the_wire_give_no_rate() {
        // Two of 90 bytes within 66 µs: too few, and too short a time.
        let few = stream(3, 90, 33_000);
        assert_eq!((few.busy_segments, few.busy_rate), (0, None));
        // Many, but over less time than a late timer matters in.
        assert_eq!(stream(200, 90, 3_600).busy_rate, None);
        // Long enough, but few.
        assert_eq!(stream(50, 1_519, 607_600).busy_rate, None);
    }
}
