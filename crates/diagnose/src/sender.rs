//! What a sender that is far from the capture had learnt when it sent a segment: which of the ACKs
//! had reached it, and how long that took.
//!
//! An ACK passes the capture with a timestamp value; the segments that the sender sends after it
//! arrived echo that value (RFC 7323, section 4). So the echo says both, even while a queue between
//! capture and sender grows.

use std::collections::VecDeque;

use record::Nanos;

use crate::distribution::Distribution;
use crate::fetch::{self, Fetch};
use crate::rtt::Correlation;
use crate::stall::{Heard, SHORTEST, SenderClock, Suspicion};

/// ACKs that no echo has come for yet. At 1 ms a tick this is a round trip of a quarter of a
/// second; of those beyond, the newest stands for all.
const WAITING: usize = 256;

/// An ACK on its way to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnTheWay {
    value: u32,
    /// How far the window reaches beyond `una`; less than 0 where an older ACK came last. Windows
    /// are below 2^30, and no ACK is taken to be more than 2^31 old.
    room: i32,
    /// When it passed the capture.
    pub(crate) at: u64,
    pub(crate) una: u64,
}

impl OnTheWay {
    fn new(value: u32, at: u64, una: u64, edge: u64) -> Self {
        let room = edge.wrapping_sub(una).cast_signed();
        Self { value, room: i32::try_from(room).unwrap_or(if room < 0 { i32::MIN } else { i32::MAX }), at, una }
    }

    /// The right edge of the window that it offers.
    pub(crate) fn edge(&self) -> u64 {
        self.una.saturating_add_signed(self.room.into())
    }
}

/// The distance from the capture to the sender of one direction's data, there and back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    acks: VecDeque<OnTheWay>,
    /// The newest value that was echoed.
    newest: Option<u32>,
    least: Option<u64>,
    /// Running mean over samples with four or more segments in flight.
    loaded: Option<u64>,
    pub(crate) samples: Distribution,
    pub(crate) with_flight: Correlation,
    /// Echoes that were matched.
    pub(crate) echoes: u32,
    /// ACKs since the last advance that speak of a loss.
    signs: u8,
    /// The ACK after which a sender retransmits: its timestamp value and when it passed the
    /// capture.
    decisive: Option<(u32, u64)>,
    /// When a segment showed that the sender had received that ACK; 0 before.
    pub(crate) informed_at: u64,
    clock: SenderClock,
    /// ACKs that reached the sender long after they should have, as a segment showed.
    late_acks: Option<Suspicion>,
    /// How long the latest matched ACK took, there and back with what it brought about.
    took: u64,
}

/// This many matched echoes make a distance.
const ENOUGH: u32 = 4;

impl Sender {
    /// See [`Connection::fetch_further`](crate::connection::Connection::fetch_further).
    #[inline(always)]
    pub(crate) fn fetch_further(&self, with: impl Fetch) {
        fetch::each([self.acks.front(), self.acks.back()].into_iter().flatten(), with);
        self.samples.fetch_boxes(with);
    }

    /// An ACK with this value passed the capture.
    pub(crate) fn pass(&mut self, value: u32, at: u64, una: u64, edge: u64) {
        let full = self.acks.len() >= WAITING;
        match self.acks.back_mut() {
            Some(last) if (value.wrapping_sub(last.value) as i32) < 0 => {}
            Some(last) if full => *last = OnTheWay::new(value, last.at, una, edge),
            _ => self.acks.push_back(OnTheWay::new(value, at, una, edge)),
        }
    }

    /// An ACK with this value speaks of a loss; the third does it for certain (RFC 5681, section
    /// 3.2), and so does one that ends a recovery and leaves a hole (`at_once`).
    pub(crate) fn speaks_of_loss(&mut self, value: u32, at: u64, at_once: bool) {
        self.signs = if at_once { 3 } else { self.signs.saturating_add(1) };
        if self.signs == 3 && self.decisive.is_none() {
            self.decisive = Some((value, at));
        }
    }

    /// No loss is suspected any more.
    pub(crate) fn no_loss(&mut self) {
        (self.signs, self.decisive, self.informed_at) = (0, None, 0);
    }

    /// A data segment echoes `echo`: gives the newest ACK that had reached its sender, where it had
    /// not been known to.
    ///
    /// Of the ACKs of one tick only those are counted that left long enough before.
    pub(crate) fn echoed(&mut self, echo: u32, now: u64, flight: u32, loaded: bool) -> Option<OnTheWay> {
        if let Some((value, at)) = self.decisive.filter(|_| self.informed_at == 0) {
            let order = echo.wrapping_sub(value) as i32;
            if order > 0 || order == 0 && at.saturating_add(self.least.unwrap_or(0)) <= now {
                self.informed_at = now;
            }
        }
        let way = self.least.unwrap_or(0);
        let is_first = self.newest != Some(echo);
        self.newest = Some(echo);
        let mut learnt = None;
        let mut first = None;
        while let Some(ack) = self.acks.front().copied() {
            let order = echo.wrapping_sub(ack.value) as i32;
            let travelled = now.saturating_sub(ack.at);
            // Each segment may be the first that its sender sent after one of them.
            let may_be_next = first.is_none() && (is_first || travelled >= way - way / 8);
            if order < 0 || order == 0 && !may_be_next && travelled < way {
                break;
            }
            if order == 0 {
                first.get_or_insert(travelled);
            }
            learnt = Some(ack);
            self.acks.pop_front();
        }
        // Only the first of a tick's ACKs is matched for certain, and only by the first segment
        // that echoes it; and only a sender with much to send answers without a pause of its
        // application.
        self.took = first.unwrap_or(0);
        if let Some(took) = first.filter(|_| loaded && is_first) {
            self.echoes = self.echoes.saturating_add(1);
            self.least = Some(self.least.map_or(took, |l| l.min(took)));
            self.samples.add(Nanos(took));
            self.with_flight.add(f64::from(flight), took as f64);
            self.loaded = Some(self.loaded.map_or(took, |l| l - l / 4 + took / 4));
        }
        learnt
    }

    /// To be asked after [`Sender::echoed`]: whether the path held up this segment, or the ACKs
    /// before it. `number` is the packet's where its data are new and in order.
    #[inline]
    pub(crate) fn held_up(&mut self, value: u32, now: u64, number: Option<u64>) -> Heard {
        let shortest = self.loaded.map_or(SHORTEST, |l| l.max(SHORTEST));
        let silence = self.clock.silence(now);
        match self.clock.arrived(value, now, shortest, number) {
            Heard::InTime => match number {
                Some(n) if self.late_acks.is_some() || silence >= SHORTEST => self.late_acks(now, silence, shortest, n),
                _ => Heard::InTime,
            },
            heard => heard,
        }
    }

    /// ACKs that had long passed the capture, and that the sender had not received when it sent
    /// this: they were held up, or lost. They were held up where a later segment echoes one of
    /// them.
    #[cold]
    fn late_acks(&mut self, now: u64, silence: u64, shortest: u64, number: u64) -> Heard {
        let Some(least) = self.base() else { return Heard::InTime };
        if let Some(suspicion) = self.late_acks {
            if self.took >= least.saturating_add(suspicion.late / 2) {
                self.late_acks = None;
                return Heard::StoodStill(suspicion.occurrence());
            }
            if suspicion.is_over(now) {
                self.late_acks = None;
            }
        }
        let late = self.acks.front().map_or(0, |a| (now - a.at.min(now)).saturating_sub(least)).min(silence);
        let Some(suspicion) = Suspicion::new(now, number, late, silence, shortest) else { return Heard::InTime };
        self.late_acks = Some(suspicion);
        Heard::HeldUp
    }

    /// To be asked after [`Sender::echoed`]: how long ago the first ACK passed that had not reached
    /// the sender of a segment with this echo; 0 where it had received all of them.
    pub(crate) fn unaware_for(&self, echo: u32, now: u64) -> u64 {
        let unknown = self.acks.iter().find(|ack| (echo.wrapping_sub(ack.value) as i32) < 0);
        unknown.map_or(0, |ack| now - ack.at.min(now))
    }

    /// Whether there are enough echoes to go by.
    pub(crate) fn is_known(&self) -> bool {
        self.echoes >= ENOUGH
    }

    /// The shortest.
    pub(crate) fn base(&self) -> Option<u64> {
        self.least.filter(|_| self.is_known())
    }

    /// How long the ACK took, there and back, that the latest segment was the first to echo.
    pub(crate) fn took(&self) -> Option<u64> {
        (self.took > 0).then_some(self.took)
    }

    /// While the sender has much in flight.
    pub(crate) fn loaded(&self) -> Option<u64> {
        self.loaded.filter(|_| self.is_known())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_of_a_window_is_kept_as_it_is() {
        let una = 1 << 40;
        for edge in [una, una + (1 << 30), una + 1, una - 1, una - (1 << 31)] {
            assert_eq!(OnTheWay::new(1, 2, una, edge).edge(), edge);
        }
    }

    #[test]
    fn the_second_segment_after_an_ack_has_not_waited_for_the_next_of_its_tick() {
        let mut sender = Sender::default();
        for tick in 0..6u32 {
            let at = u64::from(tick) * 1_000_000;
            sender.pass(100 + tick, at, 10, 15);
            sender.pass(100 + tick, at + 500_000, 10, 15);
            sender.echoed(100 + tick, at + 960_000, 10_000, true);
            assert_eq!(sender.echoed(100 + tick, at + 990_000, 10_000, true), None, "the second ACK is under way");
        }
        assert_eq!(sender.base(), Some(960_000));
    }

    #[test]
    fn an_echo_says_which_ack_had_arrived_and_how_long_that_took() {
        let mut sender = Sender::default();
        for n in 0..6u32 {
            sender.pass(100 + n, u64::from(n) * 1_000_000, u64::from(n) * 10, u64::from(n) * 10 + 5);
        }
        let learnt = sender.echoed(102, 22_000_000, 1, true);
        assert_eq!(learnt, Some(OnTheWay::new(102, 2_000_000, 20, 25)));
        assert_eq!(sender.samples.min(), Some(Nanos(20_000_000)));
        assert_eq!(sender.echoed(102, 22_100_000, 1, true), None, "nothing new");
        (103..106).for_each(|v| _ = sender.echoed(v, 25_000_000, 1, true));
        assert!(sender.is_known() && sender.base() == Some(20_000_000));
    }
}
