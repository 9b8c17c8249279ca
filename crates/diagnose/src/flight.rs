//! What one side has sent and the other has not yet acknowledged, segment by segment.

use std::collections::VecDeque;

use crate::fetch::{self, Fetch};

/// A segment on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// When its last byte was last sent, ns.
    pub(crate) at: u64,
    /// The packet's number.
    pub(crate) number: u64,
    /// Bytes in flight when it left, itself among them.
    pub(crate) flight: u32,
    /// How long before that the latest of the data before it had been acknowledged, ns; at most the
    /// 4.3 s that fit.
    pub(crate) since_ack: u32,
    /// How many segments stand in this entry: more than one where the list was full.
    pub(crate) segments: u16,
    /// How often it was retransmitted; nothing of it is measured after that (Karn's rule).
    pub(crate) retransmissions: u8,
}

/// At most `LIMIT` entries: beyond, later segments are joined to the last entry, which costs RTT
/// samples and no count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {
    list: VecDeque<Sent>,
}

/// 48 bytes each: 12 KiB for a direction with a full list.
const LIMIT: usize = 256;

/// What an acknowledgment took off the list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    pub(crate) segments: u32,
    /// The one sent last among them.
    pub(crate) last: Option<Sent>,
    /// One of them had been retransmitted.
    pub(crate) retransmitted: bool,
}

impl Flight {
    /// See [`Connection::fetch_boxes`](crate::connection::Connection::fetch_boxes).
    #[inline(always)]
    pub(crate) fn fetch_boxes(&self, with: impl Fetch) {
        fetch::each([self.list.front(), self.list.back()].into_iter().flatten(), with);
    }

    /// Adds a segment of new data, at the end or into a gap.
    #[inline(never)]
    pub(crate) fn push(&mut self, sent: Sent) {
        let length = self.list.len();
        if length < self.list.capacity().min(LIMIT) && self.list.back().is_none_or(|back| sent.start >= back.end) {
            self.list.push_back(sent);
        } else {
            self.make_room(sent);
        }
    }

    #[inline(never)]
    fn make_room(&mut self, sent: Sent) {
        let full = self.list.len() >= LIMIT;
        match self.list.back_mut() {
            Some(back) if sent.start < back.end => {
                let i = self.list.partition_point(|s| s.start < sent.start);
                if !full {
                    self.list.insert(i, sent);
                }
            }
            Some(back) if full => {
                let (segments, retransmissions) =
                    (back.segments.saturating_add(1), back.retransmissions.max(sent.retransmissions));
                *back = Sent { start: back.start, segments, retransmissions, ..sent };
            }
            _ => {
                if self.list.capacity() == 0 {
                    // What a dialogue has in flight; a transfer grows it soon enough.
                    self.list.reserve_exact(2);
                }
                self.list.push_back(sent);
            }
        }
    }

    /// Marks what `[start, end)` covers as retransmitted; returns the first of them as it was.
    pub(crate) fn retransmit(&mut self, start: u64, end: u64, at: u64) -> Option<Sent> {
        let mut i = self.list.partition_point(|s| s.end <= start);
        let before = self.list.get(i).copied().filter(|s| s.start < end);
        while let Some(s) = self.list.get_mut(i).filter(|s| s.start < end) {
            s.retransmissions = s.retransmissions.saturating_add(1);
            s.at = at;
            i += 1;
        }
        before
    }

    /// The end of what was sent until `time`, of what is still out.
    pub(crate) fn sent_by(&self, time: u64) -> Option<u64> {
        self.list.iter().rev().find(|s| s.at <= time).map(|s| s.end)
    }

    /// When the segment that ends at `position` was sent, by itself or with others that offload
    /// left whole; `None` where it was retransmitted, or is none.
    pub(crate) fn sent_once(&self, position: u64) -> Option<u64> {
        let i = self.list.partition_point(|s| s.end < position);
        self.list.get(i).filter(|s| s.start < position && s.retransmissions == 0).map(|s| s.at)
    }

    /// Takes off everything that ends at or before `position`.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, position: u64) -> Acked {
        let mut acked = Acked::default();
        while let Some(front) = self.list.front() {
            if front.end > position {
                break;
            }
            acked.segments += u32::from(front.segments);
            acked.retransmitted |= front.retransmissions > 0;
            if acked.last.is_none_or(|l| l.at <= front.at) {
                acked.last = Some(*front);
            }
            self.list.pop_front();
        }
        acked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(n: u64) -> Sent {
        Sent {
            start: n * 10,
            end: n * 10 + 10,
            at: n,
            number: n,
            flight: 10,
            since_ack: 0,
            segments: 1,
            retransmissions: 0,
        }
    }

    #[test]
    fn segments_are_counted_even_where_the_list_is_full() {
        let mut flight = Flight::default();
        for n in 0..1_000 {
            flight.push(sent(n));
        }
        assert_eq!(flight.list.len(), LIMIT);
        let acked = flight.acknowledge(10_000);
        assert_eq!((acked.segments, acked.last.map(|l| l.at)), (1_000, Some(999)));
    }

    #[test]
    fn a_retransmitted_segment_is_marked_and_keeps_its_place() {
        let mut flight = Flight::default();
        (0..4).for_each(|n| flight.push(sent(n)));
        assert_eq!(flight.retransmit(10, 20, 99).map(|s| s.at), Some(1));
        assert!(!flight.acknowledge(10).retransmitted);
        let acked = flight.acknowledge(40);
        assert!(acked.retransmitted && acked.segments == 3);
    }
}
