//! What a sender that is far from the capture had learnt when it sent a segment: which of the ACKs had reached it, and how long
//! that took.
//!
//! An ACK passes the capture with a timestamp value; the segments that the sender sends after it arrived echo that value (RFC 7323,
//! section 4). So the echo says both, even while a queue between capture and sender grows.

use std::collections::VecDeque;

use record::Nanos;

use crate::distribution::Distribution;
use crate::rtt::Correlation;

/// ACKs that no echo has come for yet. At 1 ms a tick this is a round trip of a quarter of a second; of those beyond, the newest
/// stands for all.
const WAITING: usize = 256;

/// An ACK on its way to the sender.
#[derive(Clone, Copy, Debug)]
struct OnTheWay {
    value: u32,
    at: u64,
    una: u64,
    edge: u64,
}

/// The distance from the capture to the sender of one direction's data, there and back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    acks: VecDeque<OnTheWay>,
    least: Option<u64>,
    /// Running mean over samples with four or more segments in flight.
    loaded: Option<u64>,
    pub(crate) samples: Distribution,
    pub(crate) with_flight: Correlation,
    /// Echoes that were matched.
    pub(crate) echoes: u32,
}

/// This many matched echoes make a distance.
const ENOUGH: u32 = 4;

impl Sender {
    /// An ACK with this value passed the capture.
    pub(crate) fn pass(&mut self, value: u32, at: u64, una: u64, edge: u64) {
        let full = self.acks.len() >= WAITING;
        match self.acks.back_mut() {
            Some(last) if (value.wrapping_sub(last.value) as i32) < 0 => {}
            Some(last) if full => (last.value, last.una, last.edge) = (value, una, edge),
            _ => self.acks.push_back(OnTheWay { value, at, una, edge }),
        }
    }

    /// A data segment echoes `echo`: gives what its sender had learnt, as acknowledged position and edge of the window.
    ///
    /// Of the ACKs of one tick only those are counted that left long enough before.
    pub(crate) fn echoed(&mut self, echo: u32, now: u64, flight: u32, loaded: bool) -> Option<(u64, u64)> {
        let mut learnt = None;
        let mut first = None;
        while let Some(ack) = self.acks.front().copied() {
            let order = echo.wrapping_sub(ack.value) as i32;
            let travelled = ack.at.saturating_add(self.least.unwrap_or(0)) <= now;
            if order < 0 || order == 0 && first.is_some() && !travelled {
                break;
            }
            if order == 0 {
                first.get_or_insert(now - ack.at.min(now));
            }
            learnt = Some((ack.una, ack.edge));
            self.acks.pop_front();
        }
        // Only the first of a tick's ACKs is matched for certain, and only by the first segment that echoes it; and only a sender with
        // much to send answers without a pause of its application.
        if let Some(took) = first.filter(|_| loaded) {
            self.echoes = self.echoes.saturating_add(1);
            self.least = Some(self.least.map_or(took, |l| l.min(took)));
            self.samples.add(Nanos(took));
            self.with_flight.add(f64::from(flight), took as f64);
            self.loaded = Some(self.loaded.map_or(took, |l| l - l / 4 + took / 4));
        }
        learnt
    }

    /// Whether there are enough echoes to go by.
    pub(crate) fn is_known(&self) -> bool {
        self.echoes >= ENOUGH
    }

    /// The shortest.
    pub(crate) fn base(&self) -> Option<u64> {
        self.least.filter(|_| self.is_known())
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
    fn an_echo_says_which_ack_had_arrived_and_how_long_that_took() {
        let mut sender = Sender::default();
        for n in 0..6u32 {
            sender.pass(100 + n, u64::from(n) * 1_000_000, u64::from(n) * 10, u64::from(n) * 10 + 5);
        }
        assert_eq!(sender.echoed(102, 22_000_000, 1, true), Some((20, 25)));
        assert_eq!(sender.samples.min(), Some(Nanos(20_000_000)));
        assert_eq!(sender.echoed(102, 22_100_000, 1, true), None, "nothing new");
        (103..106).for_each(|v| _ = sender.echoed(v, 25_000_000, 1, true));
        assert!(sender.is_known() && sender.base() == Some(20_000_000));
    }
}
