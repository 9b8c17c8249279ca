//! The numbered datagrams of one stream: what is missing, what came late, and how evenly they came.

use std::collections::VecDeque;

use record::Nanos;
use record::conversation::Way;
use record::udp::{Numbering, UdpStream};
use stats::sequence::{Datagrams, Jitter, Tracker};
use wire::packet::{Numbered, Udp};

use crate::Distribution;
use crate::tls::Moment;

/// The clocks that RTP's stamps count with, in ticks per second (RFC 3551, section 6, and 48 kHz).
const CLOCKS: [u64; 8] = [8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 90_000];
/// How far the stamps may be from a clock: a share.
const CLOCK_WITHIN: f64 = 0.02;
/// So long a stream shows its clock, ns.
const CLOCK_AFTER: u64 = 500_000_000;
/// Skips that datagrams which come late may still fill.
const SKIPS: usize = 16;
/// So many close together are a burst that a queue may not have room for.
pub(super) const BURST: u64 = 8;

/// Numbers that were skipped.
#[derive(Clone, Copy, Debug)]
struct Skip {
    from: u64,
    to: u64,
    missing: u64,
    in_burst: bool,
    next: Moment,
}

/// The longest time between two that follow one another in number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) took: u64,
    /// What the sender's stamps say of it: ns, or ticks of RTP.
    stamped: Option<u64>,
    pub(super) from: Moment,
    pub(super) to: Moment,
}

/// Of each clock that RTP's stamps may count with, or of the sender's own.
#[derive(Clone, Debug)]
enum Stamps {
    None,
    Own { jitter: Jitter, most: Nanos, last: u64 },
    Rtp { first: u64, last: u64, since: u64, jitters: Box<[(Jitter, Nanos); CLOCKS.len()]> },
}

/// A stream.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    by: Numbering,
    stream: u64,
    bits: u8,
    /// Numbers on a scale of 64 bits: the one before the first, and the highest.
    base: u64,
    highest: u64,
    tracker: Box<Tracker>,
    /// Counts up to the last time that the numbers began anew.
    before: Datagrams,
    restarts: u64,
    /// Where it goes on if the numbers have begun anew.
    anew: Option<u64>,
    pub(super) began: Moment,
    latest: Moment,
    datagrams: u64,
    bytes: u64,
    /// How many of its side came close together up to the latest.
    burst: u64,
    gaps: Distribution,
    skips: VecDeque<Skip>,
    lost: Lost,
    payload_type: Option<u8>,
    stamps: Stamps,
    pause: Option<Pause>,
    /// The packet at which the jitter was highest.
    pub(super) jittery: Option<Moment>,
}

/// What is missing for good.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    gaps: u64,
    longest: u64,
    in_bursts: u64,
    /// The packets after the first gap and after the longest.
    first: Option<Moment>,
    worst: Option<Moment>,
}

impl Lost {
    fn add(&mut self, skip: &Skip) {
        if skip.missing == 0 {
            return;
        }
        self.gaps += 1;
        self.first.get_or_insert(skip.next);
        if skip.missing > self.longest {
            (self.longest, self.worst) = (skip.missing, Some(skip.next));
        }
        self.in_bursts += if skip.in_burst { skip.missing } else { 0 };
    }
}

/// The distance from one number to another of so many bits, the shorter way round.
fn distance(from: u64, to: u64, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits.clamp(1, 64));
    (to.wrapping_sub(from) << unused).cast_signed() >> unused
}

impl Numbers {
    /// Whether the second of two datagrams goes on with the number of the first.
    pub(super) fn follows(first: &Numbered, first_at: u64, second: &Numbered, at: u64) -> bool {
        if distance(first.number, second.number, first.bits) != 1 {
            return false;
        }
        match (first.by, first.sent_ns, second.sent_ns) {
            // Only its stamps distinguish it.
            (Numbering::Iperf3, Some(sent), Some(next)) => {
                let (gap, sent) = (at.saturating_sub(first_at), next.wrapping_sub(sent));
                gap.abs_diff(sent) < 100_000_000 + gap / 2
            }
            _ => true,
        }
    }

    /// One that begins with this datagram of so many bytes.
    pub(super) fn new(first: &Numbered, began: Moment, bytes: u32) -> Self {
        let at = began.at;
        let stamps = match (first.rtp, first.sent_ns) {
            (Some((_, stamp)), _) => {
                let mut jitters = Box::new([(Jitter::default(), Nanos::ZERO); CLOCKS.len()]);
                jitters.iter_mut().for_each(|(jitter, _)| jitter.arrived(0, at));
                // Those before the first are not below 0.
                Stamps::Rtp { first: 1 << 32 | u64::from(stamp), last: 1 << 32 | u64::from(stamp), since: at, jitters }
            }
            (None, Some(sent)) => {
                let mut jitter = Jitter::default();
                jitter.arrived(sent, at);
                Stamps::Own { jitter, most: Nanos::ZERO, last: sent }
            }
            (None, None) => Stamps::None,
        };
        let mut tracker = Box::<Tracker>::default();
        tracker.numbered(1);
        Self {
            by: first.by,
            stream: first.stream,
            bits: first.bits,
            base: first.number.wrapping_sub(1),
            highest: first.number,
            tracker,
            before: Datagrams::default(),
            restarts: 0,
            anew: None,
            began,
            latest: began,
            datagrams: 1,
            bytes: bytes.into(),
            burst: 1,
            gaps: Distribution::default(),
            skips: VecDeque::new(),
            lost: Lost::default(),
            payload_type: first.rtp.map(|(kind, _)| kind),
            stamps,
            pause: None,
            jittery: None,
        }
    }

    pub(super) fn is_of(&self, numbered: &Numbered) -> bool {
        (self.by, self.stream, self.bits) == (numbered.by, numbered.stream, numbered.bits)
    }

    pub(super) fn take(&mut self, n: &Numbered, udp: &Udp, burst: u64) {
        let now = Moment { at: udp.at.as_nanos(), packet: udp.number };
        self.datagrams += 1;
        self.bytes += u64::from(udp.payload);
        let gap = now.at.saturating_sub(self.latest.at);
        self.gaps.add(Nanos(gap));
        // How far numbers jump or lie behind in a stream that goes on (RFC 3550, appendix A.1).
        let (jump, behind) = if self.bits == 16 { (3_000, 100) } else { (1_000_000, 4_096) };
        let step = distance(self.highest, n.number, self.bits);
        let number = self.highest.wrapping_add_signed(step);
        let is_within = step < jump && step > -behind && number.wrapping_sub(self.base).cast_signed() > 0;
        let goes_on = is_within && !self.is_too_soon(step, gap);
        if !goes_on {
            self.jumps(n, now);
            self.latest = now;
            return;
        }
        self.anew = None;
        let is_new = self.tracker.numbered(number.wrapping_sub(self.base));
        if step > 1 {
            let in_burst = burst >= BURST || burst == 1 && self.burst >= BURST;
            self.skip(Skip {
                from: self.highest.wrapping_add(1),
                to: number,
                missing: step as u64 - 1,
                in_burst,
                next: now,
            });
        } else if step < 0 && is_new {
            let within = |skip: &&mut Skip| (skip.from..skip.to).contains(&number);
            if let Some(skip) = self.skips.iter_mut().find(within) {
                skip.missing = skip.missing.saturating_sub(1);
            }
        }
        if is_new {
            let stamped = self.stamp(n, now);
            if step == 1 && self.pause.is_none_or(|pause| gap > pause.took) {
                self.pause = Some(Pause { took: gap, stamped, from: self.latest, to: now });
            }
        }
        if step > 0 {
            self.highest = number;
        }
        self.burst = burst;
        self.latest = now;
    }

    /// Whether RTP's numbers jumped by more than can have been sent meanwhile: a sender that begins
    /// anew takes any number.
    fn is_too_soon(&self, step: i64, gap: u64) -> bool {
        const FAR: u64 = 100;
        let took = self.latest.at.saturating_sub(self.began.at);
        let sent = self.datagrams.saturating_sub(2).max(1);
        let step = step.max(0).cast_unsigned();
        self.bits == 16 && step >= FAR && u128::from(gap) * 4 < u128::from(step) * u128::from(took / sent)
    }

    /// A number that is far from the others: where the next one follows it, they have begun anew.
    fn jumps(&mut self, n: &Numbered, now: Moment) {
        if self.anew != Some(n.number) {
            self.anew = Some(n.number.wrapping_add(1));
            return;
        }
        let counts = self.tracker.counts();
        self.before = sum(&self.before, &counts);
        self.skips.drain(..).for_each(|skip| self.lost.add(&skip));
        *self.tracker = Tracker::default();
        // The one that showed it, and this one.
        (1..=2).for_each(|number| _ = self.tracker.numbered(number));
        (self.base, self.highest) = (n.number.wrapping_sub(2), n.number);
        (self.anew, self.restarts) = (None, self.restarts + 1);
        // Its stamps begin anew too.
        match (&mut self.stamps, n.rtp) {
            (Stamps::Own { jitter, .. }, _) => *jitter = Jitter::default(),
            (Stamps::Rtp { first, last, since, jitters }, Some((_, stamp))) => {
                let stamp = 1 << 32 | u64::from(stamp);
                (*first, *last, *since) = (stamp, stamp, now.at);
                jitters.iter_mut().for_each(|(jitter, _)| *jitter = Jitter::default());
            }
            _ => {}
        }
    }

    fn skip(&mut self, skip: Skip) {
        if self.skips.len() == SKIPS
            && let Some(oldest) = self.skips.pop_front()
        {
            self.lost.add(&oldest);
        }
        self.skips.push_back(skip);
    }

    /// Takes the sender's stamp; gives how much later than the one before it was sent.
    fn stamp(&mut self, n: &Numbered, now: Moment) -> Option<u64> {
        let has_more = |jitter: &mut Jitter, most: &mut Nanos, sent: u64| {
            jitter.arrived(sent, now.at);
            let value = jitter.value();
            let is_more = value > *most;
            *most = value.max(*most);
            is_more
        };
        match &mut self.stamps {
            Stamps::None => None,
            Stamps::Own { jitter, most, last } => {
                let sent = n.sent_ns?;
                if has_more(jitter, most, sent) {
                    self.jittery = Some(now);
                }
                let later = sent.saturating_sub(*last);
                *last = sent;
                Some(later)
            }
            Stamps::Rtp { first, last, jitters, .. } => {
                let (kind, stamp) = n.rtp?;
                self.payload_type = Some(kind);
                let step = distance(*last, stamp.into(), 32);
                let stamp = last.wrapping_add_signed(step);
                *last = stamp;
                let ticks = u128::from(stamp.saturating_sub(*first));
                let mut is_more = false;
                for ((jitter, most), clock) in jitters.iter_mut().zip(CLOCKS) {
                    is_more |= has_more(jitter, most, (ticks * 1_000_000_000 / u128::from(clock)) as u64);
                }
                if is_more {
                    self.jittery = Some(now);
                }
                Some(step.max(0).cast_unsigned())
            }
        }
    }

    /// RTP's clock: that of its payload type, else the one that its stamps agree with.
    fn clock(&self) -> Option<usize> {
        let Stamps::Rtp { first, last, since, .. } = &self.stamps else { return None };
        let fixed = match self.payload_type? {
            0 | 3..=5 | 7..=9 | 12 | 13 | 15 | 18 => Some(8_000),
            6 => Some(16_000),
            10 | 11 => Some(44_100),
            14 | 25 | 26 | 28 | 31..=34 => Some(90_000),
            16 => Some(11_025),
            17 => Some(22_050),
            _ => None,
        };
        if let Some(clock) = fixed {
            return CLOCKS.iter().position(|of| *of == clock);
        }
        let took = self.latest.at.saturating_sub(*since);
        if took < CLOCK_AFTER || self.datagrams < 10 {
            return None;
        }
        let rate = last.saturating_sub(*first) as f64 * 1e9 / took as f64;
        CLOCKS.iter().position(|clock| (rate / *clock as f64 - 1.0).abs() < CLOCK_WITHIN)
    }

    /// Interarrival jitter at the end and at its highest, and the clock of the stamps.
    fn jitter(&self) -> (Option<Nanos>, Option<Nanos>, Option<u64>) {
        match &self.stamps {
            Stamps::None => (None, None, None),
            Stamps::Own { jitter, most, .. } => {
                let hz = if self.by == Numbering::Iperf3 { 1_000_000 } else { 1_000_000_000 };
                (Some(jitter.value()), Some(*most), Some(hz))
            }
            Stamps::Rtp { jitters, .. } => match self.clock() {
                Some(i) => (Some(jitters[i].0.value()), Some(jitters[i].1), Some(CLOCKS[i])),
                None => (None, None, None),
            },
        }
    }

    /// The longest pause, as far as it was not the sender's, by its stamps.
    pub(super) fn pause(&self) -> Option<(Pause, bool)> {
        let pause = self.pause?;
        let stamped = match (&self.stamps, pause.stamped) {
            (Stamps::Rtp { .. }, Some(ticks)) => {
                let clock = CLOCKS[self.clock()?];
                Some(u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(clock)).unwrap_or(u64::MAX))
            }
            (_, stamped) => stamped,
        };
        match stamped {
            Some(sent) if sent > pause.took / 2 => None,
            _ => Some((pause, stamped.is_some())),
        }
    }

    /// The packets after the first gap and after the longest.
    pub(super) fn after_loss(&self) -> [Option<Moment>; 2] {
        let lost = self.lost();
        [lost.first, lost.worst]
    }

    fn lost(&self) -> Lost {
        let mut lost = self.lost;
        self.skips.iter().for_each(|skip| lost.add(skip));
        lost
    }

    pub(super) fn row(&self, conversation: u64, way: Way) -> UdpStream {
        let counts = sum(&self.before, &self.tracker.counts());
        let lost = self.lost();
        let (jitter_ns, jitter_max_ns, clock_hz) = self.jitter();
        UdpStream {
            conversation,
            way,
            numbering: self.by,
            stream: match self.by {
                Numbering::Rtp => format!("{:#010x}", self.stream),
                Numbering::Irtt => format!("{:#018x}", self.stream),
                Numbering::Wirelapse | Numbering::Generate | Numbering::Iperf3 => String::new(),
            },
            payload_type: self.payload_type.map(u64::from),
            clock_hz,
            start_ns: Nanos(self.began.at),
            duration_ns: Nanos(self.latest.at.saturating_sub(self.began.at)),
            datagrams: self.datagrams,
            bytes: self.bytes,
            expected: counts.expected,
            received: counts.received,
            lost: counts.lost,
            gaps: lost.gaps,
            longest_loss: lost.longest,
            lost_in_bursts: lost.in_bursts,
            reordered: counts.reordered,
            duplicated: counts.duplicated,
            too_late: counts.too_late,
            restarts: self.restarts,
            jitter_ns,
            jitter_max_ns,
            gap_median_ns: self.gaps.quantile(0.5),
            gap_max_ns: self.gaps.max(),
        }
    }
}

fn sum(a: &Datagrams, b: &Datagrams) -> Datagrams {
    Datagrams {
        expected: a.expected + b.expected,
        received: a.received + b.received,
        lost: a.lost + b.lost,
        reordered: a.reordered + b.reordered,
        duplicated: a.duplicated + b.duplicated,
        too_late: a.too_late + b.too_late,
        ..Datagrams::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_way_round_is_taken() {
        assert_eq!(distance(65_535, 0, 16), 1);
        assert_eq!(distance(0, 65_535, 16), -1);
        assert_eq!(distance((1 << 32) + 5, 4, 16), -1);
        assert_eq!(distance(u64::from(u32::MAX), 2, 32), 3);
        assert_eq!(distance(7, 9, 64), 2);
    }
}
