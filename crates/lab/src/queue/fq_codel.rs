//! Flow queuing with CoDel, RFC 8290: a queue with CoDel for each flow (by hash), served in turn by
//! deficit round robin; a flow that comes anew goes before those that have a queue.

use std::collections::VecDeque;

use super::codel::Codel;
use super::{Dropped, Fifo, Segment};
use crate::direction::FqCodelSettings;

#[derive(Clone, Debug)]
struct Flow<T> {
    queue: Fifo<T>,
    codel: Codel,
    credits: i64,
    /// Whether it is on one of the lists.
    listed: bool,
}

/// The scheduler of RFC 8290, section 4.
#[derive(Clone, Debug)]
pub(super) struct FqCodel<T> {
    flows: Vec<Flow<T>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    bytes: u64,
    perturbation: u32,
}

impl<T> FqCodel<T> {
    pub(super) fn new(asked: FqCodelSettings, largest: u32, seed: u64) -> Self {
        let flow =
            || Flow { queue: Fifo::default(), codel: Codel::new(asked.codel, largest), credits: 0, listed: false };
        Self {
            flows: (0..asked.flows.max(1)).map(|_| flow()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: i64::from(largest),
            bytes: 0,
            perturbation: (seed ^ seed >> 32) as u32,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Which queue a flow is hashed to.
    fn bucket(&self, flow: u32) -> usize {
        let mixed = (flow ^ self.perturbation).wrapping_mul(0x9e37_79b1);
        ((u64::from(mixed) * self.flows.len() as u64) >> 32) as usize
    }

    pub(super) fn enqueue(&mut self, segment: Segment<T>) {
        let index = self.bucket(segment.flow);
        let flow = &mut self.flows[index];
        self.bytes += u64::from(segment.bytes);
        flow.queue.push(segment);
        if !flow.listed {
            flow.listed = true;
            flow.credits = self.quantum;
            self.new.push_back(index);
        }
    }

    /// Drops the head of the queue with the most bytes (section 4.1.3).
    pub(super) fn drop_from_fattest(&mut self) -> Option<Segment<T>> {
        let flow = self.flows.iter_mut().max_by_key(|flow| flow.queue.bytes())?;
        let victim = flow.queue.pop()?;
        self.bytes -= u64::from(victim.bytes);
        Some(victim)
    }

    /// The segment that leaves at `now` (section 4.2).
    pub(super) fn dequeue(&mut self, now: u64, dropped: &mut Dropped<T>) -> Option<Segment<T>> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index];
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let before = flow.queue.bytes();
            let next = flow.codel.dequeue(&mut flow.queue, now, dropped);
            self.bytes -= before - flow.queue.bytes();
            let Some(segment) = next else {
                list.pop_front();
                // A new flow that is empty waits its turn among the old ones, so that it cannot
                // come first again at once.
                if from_new && !self.old.is_empty() {
                    self.old.push_back(index);
                } else {
                    flow.listed = false;
                }
                continue;
            };
            flow.credits -= i64::from(segment.bytes);
            return Some(segment);
        }
    }

    pub(super) fn drain(&mut self) -> Vec<Segment<T>> {
        self.bytes = 0;
        self.new.clear();
        self.old.clear();
        let mut all = Vec::new();
        for flow in &mut self.flows {
            flow.listed = false;
            all.extend(std::iter::from_fn(|| flow.queue.pop()));
        }
        all.sort_by_key(|segment| segment.entered);
        all
    }
}
