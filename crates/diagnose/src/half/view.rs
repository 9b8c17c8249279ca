//! What the sender of a direction knows of the ACKs that passed the capture.

use std::collections::VecDeque;

use super::made;
use crate::fetch::{self, Fetch};
use crate::ranges::START;

/// ACKs between the capture and the sender; when more are on the way, the newest is overwritten.
const ON_THE_WAY: usize = 128;

/// What the sender can know at a moment, given that ACKs reach it some time after they passed the
/// capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    una: u64,
    edge: u64,
    /// When the newest of these ACKs passed the capture.
    heard: u64,
    /// There once an ACK had a way to go.
    #[expect(clippy::box_collection, reason = "8 bytes rather than 32 where there is none")]
    on_the_way: Option<Box<VecDeque<PassedAck>>>,
}

/// An ACK on its way from the capture to the sender.
#[derive(Clone, Copy, Debug)]
struct PassedAck {
    /// When it passed the capture.
    at: u64,
    una: u64,
    edge: u64,
}

impl PassedAck {
    /// Whether a sender that is `lag` away has it by `now`.
    const fn is_there(&self, now: u64, lag: u64) -> bool {
        self.at.saturating_add(lag) <= now
    }
}

impl View {
    /// See [`Connection::fetch_boxes`](crate::connection::Connection::fetch_boxes).
    #[inline(always)]
    pub(crate) fn fetch_boxes(&self, with: impl Fetch) {
        fetch::each(self.on_the_way.as_deref(), with);
    }

    /// See [`Connection::fetch_further`](crate::connection::Connection::fetch_further).
    #[inline(always)]
    pub(crate) fn fetch_further(&self, with: impl Fetch) {
        fetch::each(self.on_the_way.as_ref().and_then(|queue| queue.front()), with);
    }

    /// The sender sent its first packet.
    pub(crate) fn begin(&mut self) {
        self.una = START;
    }

    /// The position that is acknowledged, as the sender knows.
    #[inline(always)]
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// Up to where it may send, as it knows.
    #[inline(always)]
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// The receive window, as it knows it.
    #[inline(always)]
    pub(crate) fn window(&self) -> Option<u64> {
        (self.edge > START).then(|| self.edge.saturating_sub(self.una))
    }

    /// When the newest of the ACKs that it knows passed the capture.
    #[inline(always)]
    pub(crate) fn heard_at(&self) -> u64 {
        self.heard
    }

    /// Whether no ACK is on its way to the sender.
    #[inline]
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.on_the_way.is_none()
    }

    /// Bytes in flight up to `end`, as the sender knows.
    #[inline(always)]
    pub(crate) fn in_flight(&self, end: u64) -> u32 {
        u32::try_from(end.saturating_sub(self.una)).unwrap_or(u32::MAX)
    }

    /// An ACK that passed the capture at `at` has reached the sender.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, at: u64, una: u64, edge: u64) {
        (self.una, self.edge, self.heard) = (una, edge, at);
    }

    /// An echo shows that the sender has an ACK, and so those before it.
    #[inline]
    pub(crate) fn learn(&mut self, at: u64, una: u64, edge: u64) {
        self.arrive(at, self.una.max(una), edge);
        self.on_the_way = None;
    }

    /// An ACK passed the capture at `at`; the sender is `lag` away.
    #[inline]
    pub(crate) fn pass(&mut self, at: u64, una: u64, edge: u64, lag: u64) {
        if lag == 0 {
            self.arrive(at, una, edge);
            return;
        }
        let queue = made(&mut self.on_the_way);
        let ack = PassedAck { at, una, edge };
        if queue.len() < ON_THE_WAY {
            queue.push_back(ack);
        } else if let Some(last) = queue.back_mut() {
            *last = ack;
        }
    }

    /// What was acknowledged by the ACKs that passed the capture `lag` ago or earlier, or that
    /// echoes show as received.
    pub(crate) fn una_at(&self, now: u64, lag: u64) -> u64 {
        let queue = self.on_the_way.iter().flat_map(|queue| queue.iter());
        queue.take_while(|ack| ack.is_there(now, lag)).last().map_or(self.una, |ack| ack.una)
    }

    /// The ACKs that have reached a sender which is `lag` away by `now` are known to it.
    #[inline]
    pub(crate) fn catch_up(&mut self, now: u64, lag: u64) {
        let Some(queue) = &mut self.on_the_way else { return };
        while let Some(ack) = queue.pop_front_if(|ack| ack.is_there(now, lag)) {
            (self.una, self.edge, self.heard) = (ack.una, ack.edge, ack.at);
        }
    }
}
