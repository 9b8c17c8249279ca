//! One direction of the path, as arithmetic: when does a segment that arrives now come out, if it
//! does?
//!
//! Pure: no system call, no clock; the caller passes the time. A segment waits for the wire behind
//! others (rate or recorded link, queue discipline), is then lost or not, travels (delay, jitter,
//! hold) and arrives. Its fate is known when the wire takes it: the caller has the line serve what
//! waits, up to a moment ([`Line::serve`]).

use std::sync::Arc;

use crate::direction::{DEFAULT_QUEUE_SEGMENTS, Depth, Direction, Loss};
use crate::ethernet::ETHERNET_OVERHEAD;
use crate::jitter::Jitter;
use crate::queue::{Dropped, Queue, Reason, Segment};
use crate::random::Random;
use crate::recorded::{Player, Recording};

/// What becomes of a segment. Times are nanoseconds on the caller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The queue had no room: it never reaches the wire.
    QueueFull,
    /// Dropped by the queue discipline to keep the queue short.
    DroppedEarly,
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

/// What comes to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Bytes on the wire, everything Ethernet adds counted.
    pub on_wire: u32,
    /// Whether it has an ECN-capable codepoint.
    pub markable: bool,
    /// The same for all segments of one flow.
    pub flow: u32,
}

/// A segment that waits: what the caller knows it by, and what was drawn for it.
#[derive(Clone, Copy, Debug)]
struct Waiting<T> {
    tag: T,
    found_idle: bool,
    drawn: Drawn,
}

/// Every effect draws for every segment, whatever becomes of it, so that fates depend on order
/// alone.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    lost: bool,
    jitter: i64,
    held: bool,
    twice: bool,
}

/// One direction of the path. The caller knows each segment by a tag.
#[derive(Clone, Debug)]
pub struct Line<T> {
    asked: Direction,
    full_segment: u64,
    seed: u64,
    draws: Draws,
    in_bad_state: bool,
    queue: Queue<Waiting<T>>,
    dropped: Dropped<Waiting<T>>,
    /// When the wire has sent all that it took, ns, and the part of a nanosecond beyond it, as the
    /// remainder of the division by the rate, so that no rounding adds up.
    wire_free: u64,
    wire_free_part: u64,
    /// A recorded link, and the segment of which it has sent a part.
    player: Option<Player>,
    in_part: Option<Segment<Waiting<T>>>,
    /// The latest arrival promised so far, ns.
    latest: u64,
}

/// One generator for each effect, so that the loss of the nth segment does not depend on whether
/// there is jitter.
#[derive(Clone, Debug)]
struct Draws {
    loss: Random,
    state: Random,
    jitter: Jitter,
    reorder: Random,
    duplicate: Random,
}

/// Fates that became known, in the order in which the wire took the segments.
pub type Fates<T> = Vec<(T, Fate)>;

impl<T: Copy> Line<T> {
    /// A line as `asked`, for IP packets of at most `mtu` bytes.
    pub fn new(asked: Direction, mtu: u32, seed: u64) -> Self {
        let draws = Draws {
            loss: Random::new(seed, 1),
            state: Random::new(seed, 2),
            jitter: Jitter::new(Random::new(seed, 3)),
            reorder: Random::new(seed, 4),
            duplicate: Random::new(seed, 5),
        };
        let full_segment = mtu + ETHERNET_OVERHEAD;
        Self {
            queue: Queue::new(asked.qdisc, full_segment, seed),
            asked,
            full_segment: u64::from(full_segment),
            seed,
            draws,
            in_bad_state: false,
            dropped: Vec::new(),
            wire_free: 0,
            wire_free_part: 0,
            player: None,
            in_part: None,
            latest: 0,
        }
    }

    /// The same with a recorded link that begins at `start`.
    #[must_use]
    pub fn with_recording(mut self, recording: Arc<Recording>, start: u64) -> Self {
        self.player = Some(Player::new(recording, start));
        self
    }

    /// What the line is asked to be.
    pub fn asked(&self) -> &Direction {
        &self.asked
    }

    /// Changes the line at `now`: fates that are known stay as they are, what waits meets the new
    /// line, and random draws go on.
    pub fn change(&mut self, now: u64, asked: Direction, fates: &mut Fates<T>) {
        self.serve(now, fates);
        if asked.rate != self.asked.rate {
            self.wire_free_part = 0;
        }
        if asked.qdisc != self.asked.qdisc {
            let waiting = self.queue.drain();
            self.queue = Queue::new(asked.qdisc, self.full_segment as u32, self.seed);
            for segment in waiting {
                self.queue.enqueue(now, segment, u64::MAX, &mut self.dropped);
            }
        }
        self.asked = asked;
        self.serve(now, fates);
    }

    /// How long the wire needs for what waits at `now`, ns.
    pub fn backlog(&self, now: u64) -> u64 {
        let queued = match self.asked.mean_rate() {
            Some(rate) => u128::from(self.queue.bytes()) * 8_000_000_000 / u128::from(rate.bits()),
            None => 0,
        };
        self.wire_free.saturating_sub(now).saturating_add(queued as u64)
    }

    /// When the wire takes the next segment that waits, ns; `None` where none does.
    pub fn next(&self) -> Option<u64> {
        match &self.player {
            Some(player) => (self.in_part.is_some() || !self.queue.is_empty()).then(|| player.next()),
            None => (!self.queue.is_empty()).then_some(self.wire_free),
        }
    }

    /// Whether the next segment is taken at a moment of a recording, before which nothing can be
    /// decided.
    pub fn is_recorded(&self) -> bool {
        self.player.is_some()
    }

    /// A segment arrives at `now`, which never goes back. Its fate is among `fates` once it is
    /// known: at once where there is no bottleneck, or when the line serves.
    pub fn offer(&mut self, now: u64, offer: Offer, tag: T, fates: &mut Fates<T>) {
        let drawn = Drawn {
            lost: self.draw_loss(),
            jitter: self.draws.jitter.draw(&self.asked),
            held: self.asked.reorder.is_some_and(|r| self.draws.reorder.chance(r.share)),
            twice: self.asked.duplicate > 0.0 && self.draws.duplicate.chance(self.asked.duplicate),
        };
        let Some(rate) = self.asked.mean_rate() else {
            let waiting = Waiting { tag, found_idle: self.wire_free <= now, drawn };
            let sent = now.max(self.wire_free);
            return fates.push((tag, self.travel(sent, offer.on_wire, &waiting, false)));
        };
        self.serve(now, fates);
        let rate = u128::from(rate.bits());
        let on_wire = u64::from(offer.on_wire);
        let wire = u128::from(self.wire_free.saturating_sub(now)) * rate / 8_000_000_000;
        let wire = wire.min(u128::from(u64::MAX / 2)) as u64;
        let found_idle = self.queue.is_empty() && self.in_part.is_none() && self.wire_free <= now;
        let waiting = wire + self.queue.bytes();
        let room = match self.asked.queue.unwrap_or(Depth::Bytes(DEFAULT_QUEUE_SEGMENTS * self.full_segment)) {
            Depth::Bytes(limit) => limit,
            Depth::Time(limit) => (u128::from(limit.0) * rate / 8_000_000_000).min(u128::from(u64::MAX)) as u64,
        };
        // An idle wire takes any segment: a queue shorter than one would carry nothing at all.
        let room = if found_idle { room.max(on_wire) } else { room.saturating_sub(wire) };
        let marked = offer.markable
            && self.asked.ecn.is_some_and(|threshold| match threshold {
                Depth::Bytes(limit) => waiting > limit,
                Depth::Time(limit) => self.backlog(now) > limit.0,
            });
        if found_idle && self.player.is_none() {
            // A wire that is free within this nanosecond stays busy for the rest of the one before.
            if self.wire_free < now {
                self.wire_free_part = 0;
            }
            self.wire_free = now;
        }
        let segment = Segment {
            entered: now,
            bytes: offer.on_wire,
            markable: offer.markable && !marked,
            marked,
            flow: offer.flow,
            item: Waiting { tag, found_idle, drawn },
        };
        self.queue.enqueue(now, segment, room, &mut self.dropped);
        self.tell_dropped(fates);
        if self.player.is_none() {
            self.serve(now, fates);
        }
    }

    /// Has the wire take what it can up to `until`, which may lie ahead of the time where no
    /// segment comes before it.
    pub fn serve(&mut self, until: u64, fates: &mut Fates<T>) {
        if self.player.is_some() {
            self.play(until, fates);
        } else {
            loop {
                // Where the rate was taken off, what waits leaves at the moment of the change.
                let at = if self.asked.rate.is_some() { self.wire_free } else { until };
                if at > until {
                    break;
                }
                let Some(segment) = self.queue.dequeue(at, &mut self.dropped) else { break };
                let sent = match self.asked.rate {
                    None => self.wire_free.max(until),
                    Some(rate) => {
                        let rate = u128::from(rate.bits());
                        let time = u128::from(segment.bytes) * 8_000_000_000 + u128::from(self.wire_free_part);
                        self.wire_free = self.wire_free.saturating_add((time / rate) as u64);
                        self.wire_free_part = (time % rate) as u64;
                        // A segment is sent when its last bit is: rounded up, never early.
                        self.wire_free.saturating_add(u64::from(self.wire_free_part > 0))
                    }
                };
                self.sent(sent, &segment, fates);
            }
        }
        self.tell_dropped(fates);
    }

    /// The last bit of a segment is on the wire at `at`.
    fn sent(&mut self, at: u64, segment: &Segment<Waiting<T>>, fates: &mut Fates<T>) {
        let fate = self.travel(at, segment.bytes, &segment.item, segment.marked);
        self.tell_dropped(fates);
        fates.push((segment.item.tag, fate));
    }

    fn play(&mut self, until: u64, fates: &mut Fates<T>) {
        let Some(mut player) = self.player.take() else { return };
        loop {
            if self.in_part.is_none() && self.queue.is_empty() {
                player.waste(until);
                break;
            }
            let at = player.next();
            if at > until {
                break;
            }
            player.take();
            while player.has_room() {
                if !player.busy() {
                    let Some(next) = self.queue.dequeue(at, &mut self.dropped) else { break };
                    player.begin(next.bytes);
                    self.in_part = Some(next);
                }
                if player.send()
                    && let Some(sent) = self.in_part.take()
                {
                    self.sent(at, &sent, fates);
                }
            }
        }
        self.player = Some(player);
    }

    fn tell_dropped(&mut self, fates: &mut Fates<T>) {
        fates.extend(self.dropped.drain(..).map(|(waiting, reason)| {
            let fate = match reason {
                Reason::Full => Fate::QueueFull,
                Reason::Early => Fate::DroppedEarly,
            };
            (waiting.tag, fate)
        }));
    }

    /// What becomes of a segment of which the last bit is on the wire at `sent`.
    fn travel(&mut self, sent: u64, on_wire: u32, segment: &Waiting<T>, marked: bool) -> Fate {
        let Waiting { found_idle, drawn, .. } = *segment;
        if drawn.lost || self.asked.black_hole.is_some_and(|largest| on_wire > largest + ETHERNET_OVERHEAD) {
            return Fate::Lost { sent };
        }
        let delay = (self.asked.delay.0 as i64).saturating_add(drawn.jitter).max(0) as u64;
        let hold = self.asked.reorder.filter(|_| drawn.held).map_or(0, |r| r.by.0);
        let mut at = sent.saturating_add(delay).saturating_add(hold);
        if self.asked.reorder.is_none() {
            at = at.max(self.latest);
        }
        self.latest = self.latest.max(at);
        Fate::Arrives(Arrival { sent, at, found_idle, marked, twice: drawn.twice, held: drawn.held })
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
}
