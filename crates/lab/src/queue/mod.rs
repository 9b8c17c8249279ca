//! What waits at the bottleneck, and who leaves next: the queue disciplines.
//!
//! Pure: no system call, no clock; the caller passes the time, which never goes back. A discipline
//! takes segments in, gives them out one by one when the wire is free, and says which it drops.

mod codel;
mod fq_codel;
mod pie;

use std::collections::VecDeque;

use crate::direction::Discipline;
use crate::random::Random;
use codel::Codel;
use fq_codel::FqCodel;
use pie::Pie;

/// A segment that waits, with whatever its owner keeps with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment<T> {
    /// When it came, ns.
    pub entered: u64,
    /// Its bytes on the wire.
    pub bytes: u32,
    /// Whether it can be marked instead of dropped.
    pub markable: bool,
    /// Whether it is marked "congestion experienced".
    pub marked: bool,
    /// The same for all segments of one flow.
    pub flow: u32,
    /// What its owner knows it by.
    pub item: T,
}

/// Why a segment is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no room.
    Full,
    /// The discipline keeps the queue short.
    Early,
}

/// What was dropped, and why.
pub type Dropped<T> = Vec<(T, Reason)>;

/// First in, first out, with the bytes counted.
#[derive(Clone, Debug)]
pub(crate) struct Fifo<T> {
    segments: VecDeque<Segment<T>>,
    bytes: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { segments: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Fifo<T> {
    pub(crate) fn push(&mut self, segment: Segment<T>) {
        self.bytes += u64::from(segment.bytes);
        self.segments.push_back(segment);
    }

    pub(crate) fn pop(&mut self) -> Option<Segment<T>> {
        let segment = self.segments.pop_front()?;
        self.bytes -= u64::from(segment.bytes);
        Some(segment)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A queue of any discipline.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    kind: Kind<T>,
    segments: usize,
}

#[derive(Clone, Debug)]
enum Kind<T> {
    Fifo(Fifo<T>),
    Codel(Fifo<T>, Codel),
    FqCodel(FqCodel<T>),
    Pie(Fifo<T>, Pie),
}

impl<T> Queue<T> {
    /// An empty queue for segments of at most `largest` bytes. `seed` is for the draws of PIE and
    /// the hash of FQ-CoDel.
    pub fn new(discipline: Discipline, largest: u32, seed: u64) -> Self {
        let kind = match discipline {
            Discipline::Fifo => Kind::Fifo(Fifo::default()),
            Discipline::Codel(asked) => Kind::Codel(Fifo::default(), Codel::new(asked, largest)),
            Discipline::FqCodel(asked) => Kind::FqCodel(FqCodel::new(asked, largest, seed)),
            Discipline::Pie(asked) => Kind::Pie(Fifo::default(), Pie::new(asked, Random::new(seed, 6))),
        };
        Self { kind, segments: 0 }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        match &self.kind {
            Kind::Fifo(fifo) | Kind::Codel(fifo, _) | Kind::Pie(fifo, _) => fifo.bytes(),
            Kind::FqCodel(queue) => queue.bytes(),
        }
    }

    /// Segments that wait.
    pub fn len(&self) -> usize {
        self.segments
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Takes a segment in, where so many bytes may wait at most. FQ-CoDel makes room by dropping
    /// from the flow that has the most; the others drop the segment that comes.
    pub fn enqueue(&mut self, now: u64, segment: Segment<T>, room: u64, dropped: &mut Dropped<T>) {
        let fits = self.bytes() + u64::from(segment.bytes) <= room;
        match &mut self.kind {
            Kind::FqCodel(queue) => {
                queue.enqueue(segment);
                self.segments += 1;
                while queue.bytes() > room
                    && let Some(victim) = queue.drop_from_fattest()
                {
                    self.segments -= 1;
                    dropped.push((victim.item, Reason::Full));
                }
                return;
            }
            _ if !fits => return dropped.push((segment.item, Reason::Full)),
            Kind::Fifo(fifo) | Kind::Codel(fifo, _) => fifo.push(segment),
            Kind::Pie(fifo, pie) => match pie.admit(now, segment, fifo.bytes()) {
                Ok(segment) => fifo.push(segment),
                Err(segment) => return dropped.push((segment.item, Reason::Early)),
            },
        }
        self.segments += 1;
    }

    /// The segment that leaves at `now`.
    pub fn dequeue(&mut self, now: u64, dropped: &mut Dropped<T>) -> Option<Segment<T>> {
        let before = dropped.len();
        let next = match &mut self.kind {
            Kind::Fifo(fifo) => fifo.pop(),
            Kind::Codel(fifo, codel) => codel.dequeue(fifo, now, dropped),
            Kind::FqCodel(queue) => queue.dequeue(now, dropped),
            Kind::Pie(fifo, pie) => {
                let next = fifo.pop();
                pie.left(now, next.as_ref().map(|segment| now.saturating_sub(segment.entered)));
                next
            }
        };
        self.segments -= dropped.len() - before + usize::from(next.is_some());
        next
    }

    /// Takes all that waits out, in the order in which it came within each flow.
    pub fn drain(&mut self) -> Vec<Segment<T>> {
        self.segments = 0;
        match &mut self.kind {
            Kind::Fifo(fifo) | Kind::Codel(fifo, _) | Kind::Pie(fifo, _) => std::iter::from_fn(|| fifo.pop()).collect(),
            Kind::FqCodel(queue) => queue.drain(),
        }
    }
}
