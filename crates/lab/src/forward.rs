//! The built-in path at work: one thread for each direction that reads frames from one TAP device, asks the
//! [`Line`] for their fate, and writes them to the other when they are due.
//!
//! A frame of many segments stays whole where it can: its segments are charged and drawn for one by one, and neighbours
//! with the same fate that arrive within [`GATHER`] of the first are delivered together, when the last is due.
//! So an undisturbed frame passes whole, a lost segment cuts it in two, and at a low rate it comes segment by segment.

use std::collections::BinaryHeap;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clock::Monotonic;

use crate::config::Direction;
use crate::frame::Shape;
use crate::line::{Arrival, Fate, Line};
use crate::report::{Achieved, Delivery, Tally};

/// Segments of one frame that arrive within this time of the first, ns, are delivered together.
pub const GATHER: u64 = 100_000;

/// How many bytes may be under way in one direction, waiting and travelling together; beyond it frames are dropped, and
/// counted as such.
pub const MEMORY_BOUND: usize = 512 << 20;

/// Frames read before deadlines are looked at again.
const BATCH: usize = 32;

/// The largest that a TAP device gives: the header and a frame of 64 KiB, with room to see a longer one.
const LARGEST_FRAME: usize = 70_000;

/// A sleeping CPU needs this long to come back, ns. Before a delivery that was slept for, the thread wakes up so
/// much earlier and waits the rest awake; not again before [`BETWEEN`] has gone by, so that waiting awake
/// never takes more than a fifth of a CPU.
const EARLY: u64 = 40_000;
const BETWEEN: u64 = 5 * EARLY;

/// What the thread shares with those who ask it.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    tally: Tally,
    in_flight: u64,
    change: Option<Direction>,
    stop: bool,
}

impl Shared {
    pub(crate) fn new(wake: OwnedFd) -> Self {
        Self { state: Mutex::default(), wake }
    }

    /// The state is counters and flags, each valid by itself, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // SAFETY: eight bytes to an eventfd that we own; a full counter wakes just as well.
        unsafe { libc::write(self.wake.as_raw_fd(), (&raw const ONE).cast(), 8) };
    }

    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.ring();
    }

    pub(crate) fn change(&self, to: Direction) {
        self.lock().change = Some(to);
        self.ring();
    }

    /// What was achieved so far, and how often the path was changed.
    pub(crate) fn achieved(&self, missed_frames: u64) -> (Achieved, u64) {
        let state = self.lock();
        (state.tally.achieved(state.in_flight, missed_frames), state.tally.changes)
    }
}

static ONE: u64 = 1;

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

/// A run of segments while it is put together.
struct Run {
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
    pub line: Line,
    pub shared: Arc<Shared>,
    under_way: BinaryHeap<Piece>,
    under_way_bytes: usize,
    order: u64,
    lost_before: u64,
    /// What the machine adds to each frame's way before and behind this thread, ns.
    overhead: u64,
    /// Whether the last wait was for a delivery some way off.
    slept: bool,
    /// When this thread last waited awake.
    awake_until: u64,
}

impl Forwarder {
    pub(crate) fn new(from: Arc<OwnedFd>, to: Arc<OwnedFd>, line: Line, shared: Arc<Shared>, overhead: u64) -> Self {
        let under_way = BinaryHeap::new();
        Self {
            from,
            to,
            line,
            shared,
            under_way,
            under_way_bytes: 0,
            order: 0,
            lost_before: 0,
            overhead,
            slept: false,
            awake_until: 0,
        }
    }

    /// Runs until asked to stop.
    pub(crate) fn run(mut self) {
        keep_time(&self.line);
        let mut frame = vec![0u8; LARGEST_FRAME];
        loop {
            {
                let mut state = self.shared.lock();
                if state.stop {
                    return;
                }
                if let Some(to) = state.change.take() {
                    state.tally.changes += 1;
                    drop(state);
                    self.line.change(to);
                    keep_time(&self.line);
                }
            }
            let mut more = true;
            for _ in 0..BATCH {
                self.deliver_due();
                // SAFETY: reads into a buffer of the length given.
                let got = unsafe { libc::read(self.from.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len()) };
                match usize::try_from(got) {
                    Ok(n) if n > 0 => self.accept(&frame[..n]),
                    _ => {
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

    /// Sleeps until a frame comes, a delivery is due, or somebody rings.
    fn wait(&mut self) {
        let due = self.under_way.peek().map(|p| p.delivery.due);
        let mut left = due.map(|due| due.saturating_sub(clock()));
        if left == Some(0) {
            return;
        }
        let slept = std::mem::take(&mut self.slept);
        if let (Some(ns), Some(due)) = (&mut left, due) {
            if slept && *ns <= EARLY {
                while clock() < due {
                    std::hint::spin_loop();
                }
                self.awake_until = due;
                return;
            }
            if *ns > EARLY && due.saturating_sub(self.awake_until) >= BETWEEN {
                *ns -= EARLY;
                self.slept = true;
            }
        }
        let timeout = left.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let mut watched = [self.from.as_raw_fd(), self.shared.wake.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: two pollfds and a timespec (or none) that live over the call; no signal mask.
        unsafe { libc::ppoll(watched.as_mut_ptr(), 2, timeout, std::ptr::null()) };
        if watched[1].revents != 0 {
            let mut rung = 0u64;
            // SAFETY: eight bytes from an eventfd that does not block.
            unsafe { libc::read(self.shared.wake.as_raw_fd(), (&raw mut rung).cast(), 8) };
        }
    }

    /// Takes a frame in: decides its fate and, where nothing delays it, passes it on at once.
    fn accept(&mut self, frame: &[u8]) {
        let read = clock();
        // Its host sent it before it was read here, and the other host takes it after it is written: both are part of the delay.
        let now = read.saturating_sub(self.overhead);
        let shape = Shape::read(frame);
        let markable = shape.markable();
        let mut counted = Achieved { frames: 1, offered: u64::from(shape.segments()), ..Achieved::default() };
        let mut run: Option<Run> = None;
        let mut pieces = Vec::new();
        for index in 0..shape.segments() {
            let on_wire = shape.on_wire(index);
            let arrival = match self.line.offer(now, on_wire, markable) {
                Fate::QueueFull => {
                    counted.dropped_queue += 1;
                    pieces.extend(run.take().map(|r| (r, std::mem::take(&mut self.lost_before))));
                    continue;
                }
                Fate::Lost { .. } => {
                    counted.lost += 1;
                    pieces.extend(run.take().map(|r| (r, std::mem::take(&mut self.lost_before))));
                    self.lost_before += u64::from(on_wire);
                    continue;
                }
                Fate::Arrives(arrival) => arrival,
            };
            counted.marked += u64::from(arrival.marked);
            counted.held += u64::from(arrival.held);
            let joins = run.as_ref().is_some_and(|r| {
                let alike = r.arrival.marked == arrival.marked && !r.arrival.twice && !arrival.twice;
                let together = arrival.at >= r.arrival.at && arrival.at - r.starts_at <= GATHER;
                alike && together && r.arrival.held == arrival.held
            });
            match &mut run {
                Some(r) if joins => {
                    r.end = index + 1;
                    r.wire_bytes += u64::from(on_wire);
                    r.arrival = Arrival { found_idle: r.arrival.found_idle, ..arrival };
                }
                _ => {
                    pieces.extend(run.take().map(|r| (r, std::mem::take(&mut self.lost_before))));
                    let wire_bytes = u64::from(on_wire);
                    run = Some(Run { first: index, end: index + 1, arrival, starts_at: arrival.at, wire_bytes });
                }
            }
        }
        pieces.extend(run.take().map(|r| (r, std::mem::take(&mut self.lost_before))));

        // Counted before anything is passed on, so that the account is balanced whenever it is looked at.
        {
            let mut state = self.shared.lock();
            state.in_flight += pieces.iter().map(|(run, _)| u64::from(run.end - run.first)).sum::<u64>();
            let a = &mut state.tally.achieved;
            a.frames += counted.frames;
            a.offered += counted.offered;
            a.dropped_queue += counted.dropped_queue;
            a.lost += counted.lost;
            a.marked += counted.marked;
            a.held += counted.held;
        }
        for (run, lost_before) in pieces {
            self.order += 1;
            let delivery = Delivery {
                order: self.order,
                entered: now,
                sent: run.arrival.sent,
                due: run.arrival.at,
                out: 0,
                segments: run.end - run.first,
                wire_bytes: run.wire_bytes,
                lost_before,
                found_idle: run.arrival.found_idle,
            };
            let whole = run.first == 0 && run.end == shape.segments() && !run.arrival.marked;
            if whole && !run.arrival.twice && run.arrival.at <= read && self.under_way.is_empty() {
                self.deliver(frame, delivery, false);
                continue;
            }
            if self.under_way_bytes + frame.len() > MEMORY_BOUND {
                let mut state = self.shared.lock();
                state.in_flight -= u64::from(delivery.segments);
                state.tally.achieved.dropped_memory += u64::from(delivery.segments);
                continue;
            }
            let bytes = shape.piece(frame, run.first..run.end, run.arrival.marked);
            self.under_way_bytes += bytes.len();
            self.under_way.push(Piece { bytes, twice: run.arrival.twice, delivery });
        }
    }

    fn deliver_due(&mut self) {
        while self.under_way.peek().is_some_and(|p| p.delivery.due <= clock()) {
            let Some(piece) = self.under_way.pop() else { return };
            self.under_way_bytes -= piece.bytes.len();
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
        state.tally.achieved.duplicated += if copied { segments } else { 0 };
        if taken {
            state.tally.delivered(&delivery);
        } else {
            state.tally.achieved.refused += segments;
        }
    }

    fn write(&self, frame: &[u8]) -> bool {
        // SAFETY: writes from a buffer of the length given.
        unsafe { libc::write(self.to.as_raw_fd(), frame.as_ptr().cast(), frame.len()) >= 0 }
    }
}

/// Has the kernel wake this thread on time: no timer slack, and before ordinary threads where there are times to keep
/// and the machine allows it.
fn keep_time(line: &Line) {
    let priority = libc::sched_param { sched_priority: i32::from(!line.asked().is_plain()) };
    let policy = if line.asked().is_plain() { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    // SAFETY: plain system calls about this thread. Where they are refused the path is still right, only less exact,
    // and its lateness is in the report.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
        libc::sched_setscheduler(0, policy, &raw const priority);
    }
}
