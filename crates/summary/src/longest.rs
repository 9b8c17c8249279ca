//! The longest of many things, as many as asked for and no more.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use record::Nanos;

/// A heap of bounded size, by time; of two that took as long, the one that was offered first stays.
#[derive(Clone, Debug)]
pub struct Longest<T> {
    keep: usize,
    offered: u64,
    heap: BinaryHeap<Reverse<Entry<T>>>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    time: Nanos,
    order: Reverse<u64>,
    what: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (Nanos, Reverse<u64>) {
        (self.time, self.order)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Longest<T> {
    /// One that keeps this many.
    pub fn new(keep: usize) -> Self {
        Self { keep, offered: 0, heap: BinaryHeap::new() }
    }

    /// Offers something that took `time`; `what` is asked for only where it is kept.
    pub fn offer(&mut self, time: Nanos, what: impl FnOnce() -> T) {
        self.offered += 1;
        let full = self.heap.len() >= self.keep;
        if self.keep == 0 || full && self.heap.peek().is_some_and(|least| time <= least.0.time) {
            return;
        }
        self.heap.push(Reverse(Entry { time, order: Reverse(self.offered), what: what() }));
        if full {
            self.heap.pop();
        }
    }

    /// What was kept with its time, the longest first.
    pub fn sorted(&self) -> Vec<(Nanos, &T)> {
        let mut all: Vec<_> = self.heap.iter().map(|e| &e.0).collect();
        all.sort_by(|a, b| b.cmp(a));
        all.into_iter().map(|e| (e.time, &e.what)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_kept_and_of_equals_the_first() {
        let mut longest = Longest::new(2);
        for (i, time) in [3, 9, 1, 9, 4, 9].into_iter().enumerate() {
            longest.offer(Nanos(time), || i);
        }
        assert_eq!(longest.sorted(), [(Nanos(9), &1), (Nanos(9), &3)]);
        let mut none = Longest::new(0);
        none.offer(Nanos(1), || panic!("nothing is kept"));
        assert!(none.sorted().is_empty());
    }
}
