//! Controlled Delay, RFC 8289: once segments have waited longer than `target` for a whole
//! `interval`, drops (or marks) one at a time, the next sooner the longer it lasts, until they wait
//! less.

use super::{Dropped, Fifo, Reason, Segment};
use crate::direction::CodelSettings;

/// The state of RFC 8289, section 5.3.
#[derive(Clone, Debug)]
pub(super) struct Codel {
    target: u64,
    interval: u64,
    ecn: bool,
    /// A queue of no more than a full segment is never dropped from (section 5.4).
    largest: u64,
    /// When the wait will have been above target for an interval; 0 while it is not above.
    first_above: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Codel {
    pub(super) fn new(asked: CodelSettings, largest: u32) -> Self {
        Self {
            target: asked.target.0,
            interval: asked.interval.0,
            ecn: asked.ecn,
            largest: u64::from(largest),
            first_above: 0,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// The head of the queue, and whether it may be dropped (`dodequeue`, section 5.6).
    fn head<T>(&mut self, queue: &mut Fifo<T>, now: u64) -> (Option<Segment<T>>, bool) {
        let Some(segment) = queue.pop() else {
            self.first_above = 0;
            return (None, false);
        };
        let waited = now.saturating_sub(segment.entered);
        if waited < self.target || queue.bytes() <= self.largest {
            self.first_above = 0;
            return (Some(segment), false);
        }
        if self.first_above == 0 {
            self.first_above = now + self.interval;
            return (Some(segment), false);
        }
        (Some(segment), now >= self.first_above)
    }

    /// When to drop next (section 5.7): the rate of drops grows with the square root of their
    /// number.
    fn control_law(&self, at: u64) -> u64 {
        at + (self.interval as f64 / f64::from(self.count.max(1)).sqrt()) as u64
    }

    /// The segment that leaves at `now` (section 5.5).
    pub(super) fn dequeue<T>(&mut self, queue: &mut Fifo<T>, now: u64, dropped: &mut Dropped<T>) -> Option<Segment<T>> {
        let (mut head, mut may_drop) = self.head(queue, now);
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let mut segment = head?;
                self.count = self.count.saturating_add(1);
                if self.ecn && segment.markable {
                    segment.marked = true;
                    self.drop_next = self.control_law(self.drop_next);
                    return Some(segment);
                }
                dropped.push((segment.item, Reason::Early));
                (head, may_drop) = self.head(queue, now);
                if may_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
            return head;
        }
        if !may_drop {
            return head;
        }
        let mut segment = head?;
        self.dropping = true;
        // Where dropping stopped a short while ago, it goes on at the rate that held the queue
        // then.
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < 16 * self.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        if self.ecn && segment.markable {
            segment.marked = true;
            return Some(segment);
        }
        dropped.push((segment.item, Reason::Early));
        self.head(queue, now).0
    }
}
