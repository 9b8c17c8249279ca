//! Round-trip times of one direction: from its packets passing the capture to the peer's answer
//! passing it.

use std::collections::VecDeque;

use record::Nanos;

use crate::distribution::Distribution;
use crate::fetch::{self, Fetch};
use crate::flight::Sent;
use crate::stall::Stall;

/// Not known.
const NONE: u64 = u64::MAX;

/// How many samples make a block of the slow series that steps of the path's delay are read from.
const BLOCK: u32 = 16;

/// By how much a round trip is longer than `rest`, ns, at least, where data wait in a queue: a
/// quarter, and 1 ms, which scheduling adds on a LAN.
#[inline(always)]
pub(crate) fn least_queue(rest: u64) -> u64 {
    rest / 4 + 1_000_000
}

/// So many rises in a row are no chance.
const RISES: u8 = 3;

/// A block's smallest sample with where it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) at: u64,
    pub(crate) number: u64,
    pub(crate) min: u64,
}

/// Sums from which the correlation of RTT with the bytes in flight follows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Correlation {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Correlation {
    pub(crate) fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
    }

    /// Pearson's r; `None` where one of the two does not vary.
    pub(crate) fn r(&self) -> Option<f64> {
        let (vx, vy) = (self.n * self.xx - self.x * self.x, self.n * self.yy - self.y * self.y);
        (self.n > 2.0 && vx > 0.0 && vy > 0.0).then(|| (self.n * self.xy - self.x * self.y) / (vx * vy).sqrt())
    }
}

/// What only connections with many samples need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detail {
    /// The slow series, at most [`BLOCKS`] long: when full, neighbours are joined and blocks double
    /// in length.
    pub(crate) blocks: Vec<Block>,
    samples_a_block: u32,
    in_block: u32,
    pub(crate) with_flight: Correlation,
    /// From timestamp echoes (RFC 7323, section 4).
    pub(crate) echoes: Distribution,
    /// Values sent and when, oldest first, of which the echo has not been seen.
    values: VecDeque<(u32, u64)>,
    /// A standstill of the path that late ACKs suggest.
    pub(crate) stall: Option<Stall>,
    delivery: Delivery,
}

/// How fast data were delivered while much was in flight: what was out when a segment left was
/// delivered between the ACK before and its own, as the delivery rate samples of BBR have it
/// (draft-ietf-ccwg-bbr). A queue gives out what a path carries, no more and no less; answers that
/// come late for another reason vary.
#[derive(Clone, Copy, Debug, Default)]
struct Delivery {
    /// Running mean, kB/s.
    rate: u32,
    /// The highest of the running and of the last block of samples, kB/s.
    fastest: [u32; 2],
}

impl Delivery {
    /// So many bytes were delivered in so many nanoseconds.
    #[inline(always)]
    fn take(&mut self, bytes: u32, took: u64) {
        let rate = (f64::from(bytes) * 1e6 / took.max(1) as f64) as u32;
        self.rate = if self.rate == 0 { rate } else { self.rate - self.rate / 4 + rate / 4 };
        self.fastest[0] = self.fastest[0].max(rate);
    }

    fn end_block(&mut self) {
        self.fastest = [0, self.fastest[0]];
    }

    /// Whether half of the highest rate of late was delivered all the time.
    fn is_steady(&self) -> bool {
        self.rate >= self.fastest[0].max(self.fastest[1]) / 2
    }
}

const BLOCKS: usize = 64;
/// Time-stamp values waiting for their echo. At 1 ms a tick this is a path of 32 ms with a new
/// value each tick; longer paths lose samples, evenly.
const VALUES: usize = 32;

/// The estimators. In memory as they stand here: a direction without data is asked for the first
/// two alone.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Rtt {
    /// The smallest ever seen, handshake included.
    base: u64,
    pub(crate) detail: Option<Box<Detail>>,
    smoothed: u64,
    /// At most the 4.3 s that fit.
    variation: u32,
    /// By how much the last sample was longer than the one before, in units of 16,384 ns, and how
    /// often in a row it had been by about as much.
    rise: u16,
    rises: u8,
    /// For how long the latest data have been acknowledged bit by bit, at least, in units of 2^17
    /// ns.
    answered_for: u8,
    last: u64,
    /// Smallest of the running and of the last block of samples.
    block_min: [u64; 2],
    /// Running mean over samples taken with four or more segments in flight.
    loaded: u64,
    pub(crate) samples: Distribution,
    /// From SYN to SYN-ACK, or SYN-ACK to its ACK.
    pub(crate) handshake: u64,
}

impl Default for Rtt {
    fn default() -> Self {
        Self {
            handshake: NONE,
            base: NONE,
            smoothed: NONE,
            variation: 0,
            last: NONE,
            block_min: [NONE; 2],
            loaded: NONE,
            rise: 0,
            rises: 0,
            answered_for: 0,
            samples: Distribution::default(),
            detail: None,
        }
    }
}

fn known(v: u64) -> Option<u64> {
    (v != NONE).then_some(v)
}

impl Rtt {
    /// The handshake's round trip and the median of the others, where something nearer than the
    /// peer acknowledges for it: the handshake took at least 10 ms more, and 8 times as long. Where
    /// a tenth of the others takes half as long as it, the path's delay varies by as much, and one
    /// handshake shows nothing.
    pub(crate) fn acknowledged_nearer(&self) -> Option<(Nanos, Nanos)> {
        let handshake = known(self.handshake).filter(|h| *h >= 10_000_000 && self.samples.count() >= 10)?;
        let usual = self.samples.quantile(0.5)?.0;
        let seldom = self.samples.quantile(0.9)?.0;
        let nearer = handshake >= usual.saturating_add(10_000_000) && handshake / 8 >= usual && seldom < handshake / 2;
        nearer.then_some((Nanos(handshake), Nanos(usual)))
    }

    /// See [`Connection::fetch_boxes`](crate::connection::Connection::fetch_boxes).
    #[inline(always)]
    pub(crate) fn fetch_boxes(&self, with: impl Fetch) {
        self.samples.fetch_boxes(with);
        fetch::each(self.detail.as_deref(), with);
    }

    /// See [`Connection::fetch_further`](crate::connection::Connection::fetch_further).
    #[inline(always)]
    pub(crate) fn fetch_further(&self, with: impl Fetch) {
        self.samples.fetch_further(with);
        let Some(detail) = &self.detail else { return };
        detail.echoes.fetch_boxes(with);
        fetch::each(detail.values.front(), with);
        fetch::each(detail.blocks.last(), with);
    }

    pub(crate) fn base(&self) -> Option<u64> {
        known(self.base)
    }

    /// Whether the handshake's round trip is known, which is that of packets without payload.
    pub(crate) fn saw_handshake(&self) -> bool {
        self.handshake != NONE
    }

    pub(crate) fn smoothed(&self) -> Option<u64> {
        known(self.smoothed).or(self.base())
    }

    pub(crate) fn variation(&self) -> u64 {
        self.variation.into()
    }

    pub(crate) fn loaded(&self) -> Option<u64> {
        known(self.loaded)
    }

    /// Whether longer round trips under load are those of a queue, as far as the rates show at
    /// which data were delivered meanwhile.
    #[inline(always)]
    pub(crate) fn may_be_queued(&self) -> bool {
        self.detail.as_ref().is_none_or(|d| d.delivery.is_steady())
    }

    /// How much longer than at rest (`beyond` being the other part of the path's) the last answer
    /// took, where it and those before show a burst that drains from a queue: each is later than
    /// the one before by about as much (less at the burst's part-filled end), as a path's rate lets
    /// packets through that were sent at once.
    #[inline(always)]
    pub(crate) fn draining(&self, beyond: u64) -> Option<u64> {
        if self.rises < RISES {
            return None;
        }
        let longer = self.last.saturating_sub(self.base);
        (longer > least_queue(self.base.saturating_add(beyond))).then_some(longer)
    }

    /// Data were acknowledged, for the first time after the latest data, or so many nanoseconds
    /// after others of them.
    #[inline(always)]
    pub(crate) fn answered(&mut self, after_others: Option<u64>) {
        let more = |after: u64| self.answered_for.saturating_add((after >> 17).min(u8::MAX.into()) as u8);
        self.answered_for = after_others.map_or(0, more);
    }

    /// For how long the latest data have been acknowledged bit by bit, at least, ns.
    pub(crate) fn answered_for(&self) -> u64 {
        u64::from(self.answered_for) << 17
    }

    /// What an answer takes these days when nothing holds it back: the smallest of the last 16 to
    /// 32 samples, or the handshake's where there are none.
    pub(crate) fn recent(&self) -> Option<u64> {
        known(self.block_min[0].min(self.block_min[1])).or(self.base())
    }

    /// What an answer may well take while much is in flight: as long as the one before, and as it
    /// varies.
    pub(crate) fn expected(&self) -> Option<u64> {
        let queued = known(self.last).map(|l| l.saturating_add(self.variation() * 2));
        self.recent().max(queued)
    }

    pub(crate) fn take_handshake(&mut self, rtt: u64) {
        if self.handshake == NONE {
            self.handshake = rtt;
            self.base = self.base.min(rtt);
            // The handshake stands in for the block before the first: a late first ACK is then seen
            // to be late.
            self.block_min[1] = rtt;
        }
    }

    /// A data–ACK pair that Karn's rule allows; `loaded` where the sender had four or more segments
    /// in flight, `held_back` where the ACK was a delayed one.
    #[inline(always)]
    pub(crate) fn take(&mut self, rtt: u64, at: u64, sent: &Sent, loaded: bool, held_back: bool) {
        self.samples.add(Nanos(rtt));
        let rise =
            if self.last == NONE { 0 } else { (rtt.saturating_sub(self.last) >> 14).min(u16::MAX.into()) as u16 };
        if rise == 0 || rise / 2 > self.rise {
            (self.rise, self.rises) = (rise, 0);
        } else if rise >= self.rise / 2 {
            (self.rise, self.rises) = (rise, self.rises.saturating_add(1));
        }
        self.last = rtt;
        self.base = self.base.min(rtt);
        // RFC 6298, section 2: gains 1/8 and 1/4.
        if self.smoothed == NONE {
            (self.smoothed, self.variation) = (rtt, (rtt / 2).min(u32::MAX.into()) as u32);
        } else {
            let off = self.smoothed.abs_diff(rtt).min(u32::MAX.into()) as u32;
            self.variation = self.variation - self.variation / 4 + off / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        }
        if loaded {
            self.loaded = if self.loaded == NONE { rtt } else { self.loaded - self.loaded / 4 + rtt / 4 };
            if let Some(d) = &mut self.detail {
                d.delivery.take(sent.flight, rtt.saturating_add(sent.since_ack.into()));
            }
        }
        self.block_min[0] = self.block_min[0].min(rtt);
        if self.samples.count().is_multiple_of(BLOCK.into()) {
            self.block_min = [NONE, self.block_min[0]];
            match &mut self.detail {
                Some(d) => d.delivery.end_block(),
                None => {
                    // The first block was passed before there was a series.
                    let first = Block { at, number: sent.number, min: self.block_min[1] };
                    self.detail.get_or_insert_default().blocks.push(first);
                }
            }
        }
        // An ACK that the receiver held back says nothing of queues, nor of the path.
        if let Some(d) = self.detail.as_mut().filter(|_| !held_back) {
            d.with_flight.add(f64::from(sent.flight), rtt as f64);
            d.series(rtt, at, sent.number);
        }
    }

    /// Whether late ACKs suggest that the path stands still, and nothing has shown yet whether it
    /// does.
    pub(crate) fn may_stand_still(&self) -> bool {
        self.detail.as_ref().is_some_and(|d| d.stall.is_some())
    }

    /// A timestamp value leaves for the first time on a packet that will be answered.
    #[inline(always)]
    pub(crate) fn value_sent(&mut self, value: u32, at: u64) {
        if let Some(d) = &mut self.detail
            && d.values.back().is_none_or(|(v, _)| (value.wrapping_sub(*v) as i32) > 0)
        {
            d.sent(value, at);
        }
    }

    /// The peer echoed `value`.
    #[inline(always)]
    pub(crate) fn value_echoed(&mut self, value: u32, at: u64) {
        if let Some(d) = &mut self.detail
            && d.values.front().is_some_and(|(v, _)| (value.wrapping_sub(*v) as i32) >= 0)
        {
            d.echoed(value, at);
        }
    }
}

impl Detail {
    /// A value leaves that is newer than those that wait for their echo.
    #[inline(never)]
    fn sent(&mut self, value: u32, at: u64) {
        if self.values.len() < VALUES {
            self.values.push_back((value, at));
        }
    }

    /// An echo came of the oldest value that waits for one, or of a later one.
    #[inline(never)]
    fn echoed(&mut self, value: u32, at: u64) {
        while let Some(&(v, sent)) = self.values.front().filter(|(v, _)| (value.wrapping_sub(*v) as i32) >= 0) {
            if v == value {
                self.echoes.add(Nanos(at.saturating_sub(sent)));
            }
            self.values.pop_front();
        }
    }

    fn series(&mut self, rtt: u64, at: u64, number: u64) {
        let size = self.samples_a_block.max(BLOCK);
        match self.blocks.last_mut() {
            Some(last) if self.in_block > 0 => last.min = last.min.min(rtt),
            _ => self.blocks.push(Block { at, number, min: rtt }),
        }
        self.in_block += 1;
        if self.in_block >= size {
            self.in_block = 0;
            if self.blocks.len() >= BLOCKS {
                self.blocks =
                    self.blocks.chunks(2).map(|c| Block { min: c[0].min.min(c[c.len() - 1].min), ..c[0] }).collect();
                self.samples_a_block = size.saturating_mul(2);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(number: u64) -> Sent {
        Sent { start: 0, end: 1, at: 0, number, flight: 1, since_ack: 0, segments: 1, retransmissions: 0 }
    }

    #[test]
    fn the_slow_series_is_bounded_and_keeps_the_minimum() {
        let mut rtt = Rtt::default();
        for n in 0..100_000u64 {
            rtt.take(1_000_000 + (n * 7919) % 1_000, n, &sent(n), false, false);
        }
        let detail = rtt.detail.unwrap();
        assert!(detail.blocks.len() <= BLOCKS + 1);
        assert_eq!(detail.blocks.iter().map(|b| b.min).min(), Some(1_000_000));
        assert_eq!(rtt.base, 1_000_000);
    }

    #[test]
    fn a_handshake_makes_a_late_first_ack_stand_out() {
        let mut rtt = Rtt::default();
        rtt.take_handshake(1_000);
        rtt.take(40_000_000, 0, &sent(1), false, true);
        assert_eq!(rtt.recent(), Some(1_000));
    }
}
