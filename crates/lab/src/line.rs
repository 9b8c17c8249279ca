//! One direction of the path, as arithmetic: when does a segment that arrives now come out, if it does?
//!
//! Pure: no system call, no clock; the caller passes the time. A segment waits for the wire behind those before it
//! (rate), is then lost or not, travels (delay, jitter, hold) and arrives. Nothing is scheduled here: because the wire
//! serves in order at a known rate, every fate is known when the segment arrives, so none is ever taken back.

use clock::Nanos;

use crate::config::{DEFAULT_QUEUE_SEGMENTS, Depth, Direction, ETHERNET_OVERHEAD, Loss};
use crate::random::Random;

/// What becomes of a segment. Times are nanoseconds on the caller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The queue had no room: it never reaches the wire.
    QueueFull,
    /// Sent, and lost on the way.
    Lost {
        /// When its last bit was on the wire.
        sent: u64,
    },
    /// It arrives.
    Arrives(Arrival),
}

/// When and how a segment arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When its last bit was on the wire.
    pub sent: u64,
    /// When it arrives.
    pub at: u64,
    /// Whether it found the wire idle.
    pub found_idle: bool,
    /// Whether it is marked "congestion experienced".
    pub marked: bool,
    /// Whether a copy arrives right behind it.
    pub twice: bool,
    /// Whether it was held back so that later ones overtake it.
    pub held: bool,
}

/// One direction of the path.
#[derive(Clone, Debug)]
pub struct Line {
    asked: Direction,
    full_segment: u64,
    draws: Draws,
    in_bad_state: bool,
    /// When the wire has sent all that was accepted, ns, and the part of a nanosecond beyond it, as the remainder of
    /// the division by the rate, so that no rounding adds up.
    wire_free: u64,
    wire_free_part: u64,
    /// The latest arrival promised so far, ns.
    latest: u64,
}

/// One generator for each effect, so that the loss of the nth segment does not depend on whether there is jitter.
#[derive(Clone, Debug)]
struct Draws {
    loss: Random,
    state: Random,
    jitter: Random,
    reorder: Random,
    duplicate: Random,
}

impl Line {
    /// A line as `asked`, for IP packets of at most `mtu` bytes.
    pub fn new(asked: Direction, mtu: u32, seed: u64) -> Self {
        let draws = Draws {
            loss: Random::new(seed, 1),
            state: Random::new(seed, 2),
            jitter: Random::new(seed, 3),
            reorder: Random::new(seed, 4),
            duplicate: Random::new(seed, 5),
        };
        let full_segment = u64::from(mtu + ETHERNET_OVERHEAD);
        Self { asked, full_segment, draws, in_bad_state: false, wire_free: 0, wire_free_part: 0, latest: 0 }
    }

    /// What the line is asked to be.
    pub fn asked(&self) -> &Direction {
        &self.asked
    }

    /// Changes the line from the next segment on: fates already decided stay as they are, and random draws go on.
    pub fn change(&mut self, asked: Direction) {
        if asked.rate != self.asked.rate {
            self.wire_free_part = 0;
        }
        self.asked = asked;
    }

    /// How long the wire needs for what waits at `now`, ns.
    pub fn backlog(&self, now: u64) -> u64 {
        self.wire_free.saturating_sub(now)
    }

    /// A segment of `on_wire` bytes (everything Ethernet adds counted) arrives at `now`; `now` never goes back.
    /// `markable` says that it has an ECN-capable codepoint.
    pub fn offer(&mut self, now: u64, on_wire: u32, markable: bool) -> Fate {
        // Every effect draws for every segment, whatever becomes of it, so that fates depend on order alone.
        let lost = self.draw_loss();
        let jitter = self.draw_jitter();
        let held = self.asked.reorder.filter(|r| self.draws.reorder.chance(r.share));
        let twice = self.asked.duplicate > 0.0 && self.draws.duplicate.chance(self.asked.duplicate);

        let backlog = self.backlog(now);
        let found_idle = backlog == 0;
        let (sent, marked) = match self.asked.rate {
            None => (now.max(self.wire_free), false),
            Some(rate) => {
                let rate = rate.bits();
                let waiting = u128::from(backlog) * u128::from(rate) / 8_000_000_000;
                let with_this = waiting + u128::from(on_wire);
                let queue = self.asked.queue.unwrap_or(Depth::Bytes(DEFAULT_QUEUE_SEGMENTS * self.full_segment));
                // An idle wire takes any segment: a queue shorter than one would carry nothing at all.
                let fits = match queue {
                    Depth::Bytes(limit) => with_this <= u128::from(limit),
                    Depth::Time(limit) => with_this * 8_000_000_000 <= u128::from(limit.0) * u128::from(rate),
                };
                if !fits && !found_idle {
                    return Fate::QueueFull;
                }
                let marked = markable
                    && self.asked.ecn.is_some_and(|threshold| match threshold {
                        Depth::Bytes(limit) => waiting > u128::from(limit),
                        Depth::Time(limit) => backlog > limit.0,
                    });
                if found_idle {
                    // A wire that is free within this nanosecond stays busy for the rest of the one before.
                    if self.wire_free < now {
                        self.wire_free_part = 0;
                    }
                    self.wire_free = now;
                }
                let time = u128::from(on_wire) * 8_000_000_000 + u128::from(self.wire_free_part);
                self.wire_free = self.wire_free.saturating_add((time / u128::from(rate)) as u64);
                self.wire_free_part = (time % u128::from(rate)) as u64;
                // A segment is sent when its last bit is: rounded up, never early.
                (self.wire_free.saturating_add(u64::from(self.wire_free_part > 0)), marked)
            }
        };
        if lost || self.asked.black_hole.is_some_and(|largest| on_wire > largest + ETHERNET_OVERHEAD) {
            return Fate::Lost { sent };
        }
        let delay = (self.asked.delay.0 as i64).saturating_add(jitter).max(0) as u64;
        let mut at = sent.saturating_add(delay).saturating_add(held.map_or(0, |r| r.by.0));
        if self.asked.reorder.is_none() {
            at = at.max(self.latest);
        }
        self.latest = self.latest.max(at);
        Fate::Arrives(Arrival { sent, at, found_idle, marked, twice, held: held.is_some() })
    }

    fn draw_loss(&mut self) -> bool {
        match self.asked.loss {
            Loss::None => false,
            Loss::Independent(p) => self.draws.loss.chance(p),
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => {
                let lost = self.draws.loss.chance(if self.in_bad_state { loss_in_bad } else { loss_in_good });
                let changes = self.draws.state.chance(if self.in_bad_state { bad_to_good } else { good_to_bad });
                self.in_bad_state ^= changes;
                lost
            }
        }
    }

    fn draw_jitter(&mut self) -> i64 {
        let Nanos(spread) = self.asked.jitter;
        if spread == 0 { 0 } else { self.draws.jitter.between(-(spread as i64), spread as i64) }
    }
}
