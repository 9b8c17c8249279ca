//! The built-in path at work: one thread for each direction that reads frames from one TAP device,
//! asks the [`Line`] for their fate, and writes them to the other when they are due.
//!
//! A frame of many segments stays whole where it can: its segments are charged and drawn for one by
//! one, and neighbours with the same fate that arrive within [`GATHER`] of the first are delivered
//! together, when the last is due. So an undisturbed frame passes whole, a lost segment cuts it in
//! two, and at a low rate it comes segment by segment.

use std::collections::{BinaryHeap, HashMap};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use clock::{Monotonic, Nanos, Realtime};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::thread::CapabilitySet;

use crate::departures::Departures;
use crate::direction::Direction;
use crate::end::Side;
use crate::frame::{Shape, VIRTIO};
use crate::idle::KeptAwake;
use crate::line::{Arrival, Fate, Fates, Line, Offer};
use crate::report::{Achieved, Delivery};
use crate::schedule::Schedule;
use crate::shared::Shared;

/// Segments of one frame that arrive within this time of the first, ns, are delivered together.
pub const GATHER: u64 = 100_000;

/// How many bytes may be under way in one direction, waiting and travelling together; beyond it
/// frames are dropped, and counted as such.
pub const MEMORY_BOUND: usize = 512 << 20;

/// Frames read before deadlines are looked at again.
const BATCH: usize = 32;

/// The largest that a TAP device gives: the header and a frame of 64 KiB, with room to see a longer
/// one.
const LARGEST_FRAME: usize = 70_000;

/// A sleeping CPU needs up to this long to come back, ns, where it is a virtual one: the thread
/// wakes up so much before a delivery and waits the rest awake.
const EARLY: u64 = 150_000;

/// How long the thread may wait awake: never more than a fifth of a CPU, of which it may save up to
/// [`EARLY`].
#[derive(Clone, Copy, Debug, Default)]
struct Awake {
    allowed: u64,
    at: u64,
    waiting: bool,
}

impl Awake {
    /// It is `now`.
    fn pass(&mut self, now: u64) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.at, now));
        self.allowed = if std::mem::take(&mut self.waiting) {
            self.allowed.saturating_sub(passed)
        } else {
            (self.allowed + passed / 5).min(EARLY)
        };
    }
}

/// Delays up to this are asked for less by what the machine adds.
const SHORT: Nanos = Nanos::from_millis(1);

/// What a direction is asked for less by, where the machine adds `measured`: a path that delays
/// nothing has nothing to be taken off from; on a long one the machine's share is nothing beside
/// the delay, and no packet is to be earlier than asked.
pub(crate) fn overhead(asked: &Direction, measured: Nanos) -> Nanos {
    if is_short(asked) { measured } else { Nanos::ZERO }
}

/// Whether the direction delays, and by so little that the machine's share matters.
pub(crate) fn is_short(asked: &Direction) -> bool {
    asked.delay > Nanos::ZERO && asked.delay <= SHORT
}

/// `CLOCK_MONOTONIC`, ns.
pub(crate) fn clock() -> u64 {
    timestamping::now::<Monotonic>().as_nanos()
}

/// Neighbouring segments of one frame on their way.
struct Piece {
    bytes: Vec<u8>,
    twice: bool,
    delivery: Delivery,
}

// Ordered for a max-heap: the earliest due is the greatest, and among equals the first to enter.
impl Ord for Piece {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.delivery.due, other.delivery.order).cmp(&(self.delivery.due, self.delivery.order))
    }
}

impl PartialOrd for Piece {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Piece {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Piece {}

/// How far ahead of the time the wire is given segments, ns, as a driver fills the ring of its NIC:
/// the thread need not wake for each.
const AHEAD: u64 = GATHER;

/// Which segment of which frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    frame: u64,
    index: u32,
}

/// A frame of which segments wait for the wire.
struct Stored {
    bytes: Vec<u8>,
    shape: Shape,
    entered: u64,
    left: u32,
}

/// The frame that is being read.
#[derive(Clone, Copy)]
struct Current<'f> {
    number: u64,
    bytes: &'f [u8],
    shape: &'f Shape,
    /// When it left its host, and when it was read here.
    entered: u64,
    read: u64,
}

/// A run of segments while it is put together.
struct Run {
    frame: u64,
    first: u32,
    end: u32,
    arrival: Arrival,
    starts_at: u64,
    wire_bytes: u64,
}

/// One direction of the built-in path.
pub(crate) struct Forwarder {
    pub from: Arc<OwnedFd>,
    pub to: Arc<OwnedFd>,
    line: Line<Tag>,
    pub shared: Arc<Shared>,
    /// Frames that wait, whole or in part, by their number.
    waiting: HashMap<u64, Stored>,
    fates: Fates<Tag>,
    under_way: BinaryHeap<Piece>,
    /// Bytes of the frames that wait and the pieces under way.
    held_bytes: usize,
    frames: u64,
    order: u64,
    lost_before: u64,
    /// When frames left their host, where the kernel notes that.
    departures: Option<Departures>,
    /// When the sending device last had no frame: what is read since then left its host since then.
    found_none: u64,
    /// What the machine adds to each frame's way before it leaves its host and behind this thread.
    overhead: Nanos,
    awake: Awake,
    /// While the path is short.
    kept_awake: Option<KeptAwake>,
    plan: Plan,
}

/// What becomes of the direction, and when.
pub(crate) struct Plan {
    pub schedule: Schedule,
    pub side: Side,
    /// When the schedule begins.
    pub start: u64,
    next: usize,
}

impl Plan {
    pub(crate) fn new(schedule: Schedule, side: Side, start: u64) -> Self {
        Self { schedule, side, start, next: 0 }
    }

    /// When the next step is that changes this direction.
    fn next(&mut self) -> Option<u64> {
        let steps = self.schedule.steps();
        while steps.get(self.next).is_some_and(|step| step.changes[self.side as usize].is_empty()) {
            self.next += 1;
        }
        steps.get(self.next).map(|step| self.start.saturating_add(step.at.0))
    }
}

impl Forwarder {
    pub(crate) fn new(
        [from, to]: [Arc<OwnedFd>; 2],
        line: Line<Tag>,
        shared: Arc<Shared>,
        departures: Option<Departures>,
        overhead: Nanos,
        plan: Plan,
    ) -> Self {
        Self {
            from,
            to,
            line,
            shared,
            waiting: HashMap::new(),
            fates: Vec::new(),
            under_way: BinaryHeap::new(),
            held_bytes: 0,
            frames: 0,
            order: 0,
            lost_before: 0,
            departures,
            found_none: 0,
            overhead,
            awake: Awake::default(),
            kept_awake: None,
            plan,
        }
    }

    /// Runs until asked to stop, and gives back the notes of departures.
    pub(crate) fn run(mut self) -> Option<Departures> {
        self.keep_time();
        // Its devices are open. What it reads are frames of others; another priority may be asked
        // for later.
        crate::rights::keep(CapabilitySet::SYS_NICE);
        let mut frame = vec![0u8; LARGEST_FRAME];
        loop {
            let change = {
                let mut state = self.shared.lock();
                if state.stop {
                    return self.departures;
                }
                state.change.take()
            };
            if let Some(to) = change {
                self.become_another(clock(), to);
                self.shared.lock().taken += 1;
                self.shared.changed.notify_all();
            }
            let mut more = true;
            for _ in 0..BATCH {
                self.follow_schedule();
                self.serve();
                self.deliver_due();
                let now = clock();
                match rustix::io::read(&*self.from, &mut frame[..]) {
                    Ok(n) if n > 0 => self.accept(&frame[..n]),
                    _ => {
                        self.found_none = now;
                        more = false;
                        break;
                    }
                }
            }
            if !more {
                self.wait();
            }
        }
    }

    /// Makes the line another at `now`, and begins a step of the account.
    fn become_another(&mut self, now: u64, to: Direction) {
        let mut fates = std::mem::take(&mut self.fates);
        self.line.change(now, to.clone(), &mut fates);
        self.fates = fates;
        self.settle(None);
        self.keep_time();
        let mut state = self.shared.lock();
        let began = Nanos(clock().saturating_sub(self.plan.start));
        state.tally.begin_step(began, &to, now == self.plan.start);
        state.asked = to;
    }

    fn follow_schedule(&mut self) {
        while let Some(at) = self.plan.next()
            && at <= clock()
        {
            let change = &self.plan.schedule.steps()[self.plan.next].changes[self.plan.side as usize];
            self.plan.next += 1;
            // Every step was tried when the schedule was read; one that no longer fits what
            // `change` made of the path meanwhile is counted.
            let to = change.applied(self.line.asked()).and_then(|to| to.check(self.shared.mtu).map(|()| to));
            match to {
                Ok(to) => self.become_another(at, to),
                Err(_) => self.shared.lock().tally.steps_refused += 1,
            }
        }
    }

    /// Has the wire take what it can.
    fn serve(&mut self) {
        let now = clock();
        let until = if self.line.is_recorded() { now } else { now + AHEAD };
        if self.line.next().is_some_and(|next| next <= until) {
            let mut fates = std::mem::take(&mut self.fates);
            self.line.serve(until, &mut fates);
            self.fates = fates;
            self.settle(None);
        }
    }

    /// When this thread has something to do next.
    fn due(&mut self) -> Option<u64> {
        let ahead = if self.line.is_recorded() { 0 } else { AHEAD / 2 };
        let wire = self.line.next().map(|next| next.saturating_sub(ahead));
        let delivery = self.under_way.peek().map(|p| p.delivery.due);
        [delivery, wire, self.plan.next()].into_iter().flatten().min()
    }

    /// Sleeps until a frame comes, a delivery is due, or somebody rings.
    fn wait(&mut self) {
        let now = clock();
        self.awake.pass(now);
        let mut left = self.due().map(|due| due.saturating_sub(now));
        if let Some(left) = &mut left {
            if *left <= self.awake.allowed {
                self.awake.waiting = true;
                std::hint::spin_loop();
                return;
            }
            *left -= self.awake.allowed;
        }
        let timeout =
            left.map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 });
        let mut watched = [PollFd::new(&*self.from, PollFlags::IN), PollFd::new(&self.shared.wake, PollFlags::IN)];
        rustix::event::poll(&mut watched, timeout.as_ref()).ok();
        if !watched[1].revents().is_empty() {
            rustix::io::read(&self.shared.wake, &mut [0; 8]).ok();
        }
    }

    /// When a frame that was read a moment ago left its host, where that is known, and what time it
    /// is.
    fn left_host(&mut self, frame: &[u8]) -> (Option<u64>, u64) {
        let noted = self.departures.as_mut().and_then(|departures| departures.of(frame.get(VIRTIO..)?));
        // In this order a thread that loses the CPU between the readings takes the frame for
        // younger than it is, never for older: no path gets shorter than asked.
        let real = timestamping::now::<Realtime>().as_nanos();
        let read = clock();
        // A real-time clock that is set meanwhile makes no frame older than the last look at an
        // empty device.
        let left = noted.map(|noted| read.saturating_sub(real.saturating_sub(noted)).max(self.found_none).min(read));
        (left, read)
    }

    /// Takes a frame in: offers its segments to the line and, where nothing delays them, passes
    /// them on without waiting.
    fn accept(&mut self, frame: &[u8]) {
        let (left, read) = self.left_host(frame);
        // Its program sent it before it left, and the other host takes it after it is written: both
        // are part of the delay.
        let now = left.unwrap_or(read).saturating_sub(overhead(self.line.asked(), self.overhead).0);
        let shape = Shape::read(frame);
        let segments = shape.segments();
        let room = self.held_bytes + frame.len() <= MEMORY_BOUND;
        {
            let mut state = self.shared.lock();
            state.tally.count(|a| {
                a.frames += 1;
                a.offered += u64::from(segments);
                a.timed_when_read += u64::from(left.is_none());
                a.dropped_memory += if room { 0 } else { u64::from(segments) };
            });
            state.in_flight += if room { u64::from(segments) } else { 0 };
        }
        if !room {
            return;
        }
        self.frames += 1;
        let current = Current { number: self.frames, bytes: frame, shape: &shape, entered: now, read };
        let (markable, flow) = (shape.markable(), shape.flow(frame));
        let mut fates = std::mem::take(&mut self.fates);
        for index in 0..segments {
            let offer = Offer { on_wire: shape.on_wire(index), markable, flow };
            self.line.offer(now, offer, Tag { frame: self.frames, index }, &mut fates);
        }
        if !self.line.is_recorded() {
            self.line.serve(read + AHEAD, &mut fates);
        }
        let decided = fates.iter().filter(|(tag, _)| tag.frame == self.frames).count() as u32;
        self.fates = fates;
        self.settle(Some(current));
        if decided < segments {
            self.held_bytes += frame.len();
            let stored = Stored { bytes: frame.to_vec(), shape, entered: now, left: segments - decided };
            self.waiting.insert(self.frames, stored);
        }
    }

    /// Makes pieces of the segments with known fates, and counts those that do not arrive.
    fn settle(&mut self, current: Option<Current<'_>>) {
        let mut fates = std::mem::take(&mut self.fates);
        let mut counted = Achieved::default();
        let mut run: Option<Run> = None;
        for (tag, fate) in fates.drain(..) {
            let on_wire = match current {
                Some(c) if c.number == tag.frame => c.shape.on_wire(tag.index),
                _ => self.waiting.get(&tag.frame).map_or(0, |stored| stored.shape.on_wire(tag.index)),
            };
            let arrival = match fate {
                Fate::Arrives(arrival) => arrival,
                lost => {
                    // What is before it and behind it are pieces apart.
                    if let Some(run) = run.take() {
                        self.finish(run, current);
                    }
                    match lost {
                        Fate::QueueFull => counted.dropped_queue += 1,
                        Fate::DroppedEarly => counted.dropped_early += 1,
                        _ => {
                            counted.lost += 1;
                            self.lost_before += u64::from(on_wire);
                        }
                    }
                    self.decided(tag.frame, 1, current);
                    continue;
                }
            };
            counted.marked += u64::from(arrival.marked);
            counted.held += u64::from(arrival.held);
            let joins = run.as_ref().is_some_and(|r| {
                let alike = r.arrival.marked == arrival.marked && !r.arrival.twice && !arrival.twice;
                let together = arrival.at >= r.arrival.at && arrival.at - r.starts_at <= GATHER;
                let next = r.frame == tag.frame && r.end == tag.index;
                next && alike && together && r.arrival.held == arrival.held
            });
            match &mut run {
                Some(r) if joins => {
                    r.end += 1;
                    r.wire_bytes += u64::from(on_wire);
                    r.arrival = Arrival { found_idle: r.arrival.found_idle, ..arrival };
                }
                _ => {
                    if let Some(run) = run.take() {
                        self.finish(run, current);
                    }
                    let (first, end) = (tag.index, tag.index + 1);
                    let (starts_at, wire_bytes) = (arrival.at, u64::from(on_wire));
                    run = Some(Run { frame: tag.frame, first, end, arrival, starts_at, wire_bytes });
                }
            }
        }
        if let Some(run) = run.take() {
            self.finish(run, current);
        }
        self.fates = fates;
        let gone = counted.dropped_queue + counted.dropped_early + counted.lost;
        if gone + counted.marked + counted.held > 0 {
            let mut state = self.shared.lock();
            state.in_flight -= gone;
            state.tally.count(|a| {
                a.dropped_queue += counted.dropped_queue;
                a.dropped_early += counted.dropped_early;
                a.lost += counted.lost;
                a.marked += counted.marked;
                a.held += counted.held;
            });
        }
    }

    /// So many segments of a frame have a fate; one that waits no longer is let go.
    fn decided(&mut self, frame: u64, segments: u32, current: Option<Current<'_>>) {
        if current.is_some_and(|c| c.number == frame) {
            return;
        }
        if let Some(stored) = self.waiting.get_mut(&frame) {
            stored.left = stored.left.saturating_sub(segments);
            if stored.left == 0 {
                self.held_bytes -= stored.bytes.len();
                self.waiting.remove(&frame);
            }
        }
    }

    /// Sends a run of segments on its way.
    fn finish(&mut self, run: Run, current: Option<Current<'_>>) {
        let own = current.filter(|c| c.number == run.frame);
        let (frame, shape, entered) = match (own, self.waiting.get(&run.frame)) {
            (Some(c), _) => (c.bytes, c.shape, c.entered),
            (None, Some(stored)) => (&stored.bytes[..], &stored.shape, stored.entered),
            // Every frame that waits is kept until its last segment has a fate.
            (None, None) => return,
        };
        self.order += 1;
        let delivery = Delivery {
            order: self.order,
            entered,
            sent: run.arrival.sent,
            due: run.arrival.at,
            out: 0,
            segments: run.end - run.first,
            wire_bytes: run.wire_bytes,
            lost_before: std::mem::take(&mut self.lost_before),
            found_idle: run.arrival.found_idle,
        };
        let whole = run.first == 0 && run.end == shape.segments() && !run.arrival.marked && !run.arrival.twice;
        if let Some(c) = own.filter(|c| whole && run.arrival.at <= c.read && self.under_way.is_empty()) {
            return self.deliver(c.bytes, delivery, false);
        }
        let bytes = shape.piece(frame, run.first..run.end, run.arrival.marked);
        self.held_bytes += bytes.len();
        self.under_way.push(Piece { bytes, twice: run.arrival.twice, delivery });
        self.decided(run.frame, run.end - run.first, current);
    }

    fn deliver_due(&mut self) {
        while self.under_way.peek().is_some_and(|p| p.delivery.due <= clock()) {
            let Some(piece) = self.under_way.pop() else { return };
            self.held_bytes -= piece.bytes.len();
            self.deliver(&piece.bytes, piece.delivery, piece.twice);
        }
    }

    fn deliver(&self, frame: &[u8], mut delivery: Delivery, twice: bool) {
        delivery.out = clock();
        let taken = self.write(frame);
        let copied = twice && self.write(frame);
        let segments = u64::from(delivery.segments);
        let mut state = self.shared.lock();
        state.in_flight -= segments;
        state.tally.count(|a| {
            a.duplicated += if copied { segments } else { 0 };
            a.refused += if taken { 0 } else { segments };
        });
        if taken {
            state.tally.delivered(&delivery);
        }
    }

    fn write(&self, frame: &[u8]) -> bool {
        rustix::io::write(&*self.to, frame).is_ok()
    }

    /// Has the kernel wake this thread on time: no timer slack, before ordinary threads where there
    /// are times to keep and the machine allows it, and on CPUs that do not sleep where those times
    /// are short.
    fn keep_time(&mut self) {
        let asked = self.line.asked();
        if !is_short(asked) {
            self.kept_awake = None;
        } else if self.kept_awake.is_none() {
            self.kept_awake = KeptAwake::new();
        }
        let priority = libc::sched_param { sched_priority: i32::from(!asked.is_plain()) };
        let policy = if asked.is_plain() { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
        // Where this is refused the path is still right, only less exact, and its lateness is in
        // the report.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).ok();
        // SAFETY: reads one sched_param, which lives over the call. rustix and nix have no
        // sched_setscheduler.
        unsafe { libc::sched_setscheduler(0, policy, &raw const priority) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_awake_takes_no_more_than_a_fifth_of_a_cpu() {
        let mut awake = Awake::default();
        let (mut now, mut waited) = (0, 0);
        for _ in 0..10_000 {
            // A delivery every 200 µs, waited for awake as long as that is allowed.
            awake.pass(now);
            now += 200_000 - awake.allowed;
            awake.pass(now);
            waited += awake.allowed;
            awake.waiting = true;
            now += awake.allowed;
        }
        assert!(waited * 5 <= now, "{waited} of {now}");
        // After a pause it is not more than what a CPU needs to come back.
        awake.pass(now);
        awake.pass(now + 1_000_000_000);
        assert_eq!(awake.allowed, EARLY);
    }
}
