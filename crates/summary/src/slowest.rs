//! The slowest sends, as many as asked for and no more.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use record::{Leg, Nanos, Send};

/// A slow send, with the ends of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowSend {
    /// From its `send` to its ACK, or to when it was last seen without one.
    pub total: Nanos,
    /// The send.
    pub send: Send,
    /// Local and remote end, where the connection was announced.
    pub ends: Option<(SocketAddr, SocketAddr)>,
}

/// By time, then the earlier send first: the order in which they are shown is the same in every run
/// over the same sends.
impl Ord for SlowSend {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |s: &Self| (s.total, std::cmp::Reverse(s.send.stamps.send), s.send.connection, s.send.first_seq.0);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for SlowSend {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A heap of bounded size.
#[derive(Clone, Debug)]
pub struct Slowest {
    keep: usize,
    heap: BinaryHeap<std::cmp::Reverse<SlowSend>>,
}

impl Slowest {
    /// One that keeps this many.
    pub fn new(keep: usize) -> Self {
        Self { keep, heap: BinaryHeap::new() }
    }

    /// Offers a send. One without an ACK has taken as long as it was seen.
    pub fn offer(&mut self, send: &Send, ends: impl FnOnce() -> Option<(SocketAddr, SocketAddr)>) {
        let Some(total) = send.awaited(Leg::Total).ok().flatten().or(send.unacknowledged_for()) else { return };
        let full = self.heap.len() >= self.keep;
        if self.keep == 0 || full && self.heap.peek().is_some_and(|least| total < least.0.total) {
            return;
        }
        self.heap.push(std::cmp::Reverse(SlowSend { total, send: *send, ends: ends() }));
        if full {
            self.heap.pop();
        }
    }

    /// What was kept, the slowest first.
    pub fn sorted(&self) -> Vec<SlowSend> {
        let mut all: Vec<SlowSend> = self.heap.iter().map(|s| s.0).collect();
        all.sort_by(|a, b| b.cmp(a));
        all
    }
}
