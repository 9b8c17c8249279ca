//! Putting IP fragments together, as far as analysis needs: the packet's beginning and its length.
//!
//! Only the first [`KEPT`] bytes of a packet are kept, enough for a tunnel's and TCP's headers with
//! all options; of the rest only which ranges came. So memory is bounded by the number of packets
//! in the making.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use record::{Instant, Realtime};

use super::ip_protocol;
use super::span::{NotDecoded, Span};
use crate::capture::Frame;

/// Bytes kept of a packet's beginning.
pub(super) const KEPT: usize = 256;

/// Packets in the making at once; the oldest gives way to the next.
const MOST_PACKETS: usize = 1_024;

/// Separate ranges of one packet; a stack that sends in order has one.
const MOST_RANGES: usize = 32;

/// How long a packet may take (RFC 8200, section 4.5).
const LONGEST_NS: u64 = 60_000_000_000;

/// What makes fragments belong together (RFC 791, section 3.2; RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FragmentKey {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) id: u32,
    pub(super) protocol: u8,
}

/// A packet of which fragments came, and not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The number of the first packet of it in the capture.
    pub number: u64,
    /// When that was captured.
    pub at: Instant<Realtime>,
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// What it carries ([`super::ip_protocol`]).
    pub protocol: u8,
    /// IP's identification.
    pub identification: u32,
    /// The ports of TCP or UDP, where the first fragment came.
    pub ports: Option<[u16; 2]>,
    /// Fragments that came.
    pub fragments: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Bytes that did not come, where the last fragment did.
    pub missing: Option<u64>,
}

struct Partial {
    begun: u64,
    /// The packet with the first fragment that came, and how many came.
    number: u64,
    fragments: u64,
    /// Distinguishes this one from an earlier of the same key in the queue.
    serial: u64,
    total: Option<u32>,
    /// Ranges that came, sorted, apart from each other.
    ranges: Vec<(u32, u32)>,
    kept: [u8; KEPT],
    /// Ranges of `kept` that were captured, likewise.
    captured: Vec<(u32, u32)>,
}

/// What came of fragments that were not put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentLosses {
    /// Packets given up because others needed their place.
    pub displaced: u64,
    /// Packets of which fragments did not all come within 60 s.
    pub expired: u64,
    /// Fragments that were malformed or in more pieces than are followed.
    pub refused: u64,
    /// Fragments with bytes that had come before (sent twice, captured twice, or an attack); the
    /// first are kept.
    pub overlapping: u64,
}

/// Packets that were given up and wait to be asked for at most.
const MOST_UNFINISHED: usize = 4_096;

impl Partial {
    fn unfinished(&self, key: &FragmentKey) -> Unfinished {
        let bytes = self.ranges.iter().map(|range| u64::from(range.1 - range.0)).sum();
        let has_ports = matches!(key.protocol, ip_protocol::TCP | ip_protocol::UDP)
            && self.captured.first().is_some_and(|range| range.0 == 0 && range.1 >= 4);
        Unfinished {
            number: self.number,
            at: Instant::from_nanos(self.begun),
            source: key.source,
            destination: key.destination,
            protocol: key.protocol,
            identification: key.id,
            ports: has_ports.then(|| [0, 2].map(|at| u16::from_be_bytes([self.kept[at], self.kept[at + 1]]))),
            fragments: self.fragments,
            bytes,
            missing: self.total.map(|total| u64::from(total).saturating_sub(bytes)),
        }
    }
}

/// Packets in the making. One belongs to one capture. At most about 1 MiB.
#[derive(Default)]
pub struct Reassembly {
    partial: HashMap<FragmentKey, Partial>,
    order: VecDeque<(FragmentKey, u64)>,
    serial: u64,
    losses: FragmentLosses,
    /// Those that were given up.
    unfinished: Vec<Unfinished>,
}

impl Reassembly {
    /// With nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was not put together so far. Packets still waiting are in [`Reassembly::waiting`].
    pub fn losses(&self) -> FragmentLosses {
        self.losses
    }

    /// Packets of which fragments are missing.
    pub fn waiting(&self) -> usize {
        self.partial.len()
    }

    /// The packets that were given up since this was asked last, at most 4,096.
    pub fn take_unfinished(&mut self) -> Vec<Unfinished> {
        std::mem::take(&mut self.unfinished)
    }

    /// The packets of which fragments are missing, in the order of their first ones.
    pub fn under_way(&self) -> Vec<Unfinished> {
        let mut all: Vec<Unfinished> = self.partial.iter().map(|(key, partial)| partial.unfinished(key)).collect();
        all.sort_by_key(|unfinished| unfinished.number);
        all
    }

    fn give_up(&mut self, key: &FragmentKey) {
        if let Some(partial) = self.partial.remove(key)
            && self.unfinished.len() < MOST_UNFINISHED
        {
            self.unfinished.push(partial.unfinished(key));
        }
    }

    /// Takes a fragment; gives the packet's beginning and length where it was the last one missing.
    ///
    /// # Errors
    /// [`NotDecoded::FragmentHeld`] where more are needed, [`NotDecoded::FragmentLost`] where this
    /// one is of no use.
    pub(super) fn add(
        &mut self,
        key: FragmentKey,
        (offset, more): (u32, bool),
        payload: Span<'_>,
        frame: &Frame<'_>,
    ) -> Result<Whole, NotDecoded> {
        let end = offset.saturating_add(payload.wire);
        // All but the last are multiples of 8 bytes long; none goes beyond what a length field can
        // say.
        if payload.wire == 0 || (more && !payload.wire.is_multiple_of(8)) || end > 65_535 {
            self.losses.refused += 1;
            return Err(NotDecoded::FragmentLost);
        }
        let now = frame.at.map_or(0, Instant::as_nanos);
        if self.partial.get(&key).is_some_and(|partial| now.saturating_sub(partial.begun) > LONGEST_NS) {
            self.give_up(&key);
            self.losses.expired += 1;
        }
        if !self.partial.contains_key(&key) {
            self.begin(key, now, frame.number);
        }
        let Some(partial) = self.partial.get_mut(&key) else { return Err(NotDecoded::FragmentLost) };
        let contradicts = match (partial.total, more) {
            (Some(total), true) => end > total,
            (Some(total), false) => end != total,
            (None, true) => false,
            (None, false) => partial.ranges.last().is_some_and(|last| last.1 > end),
        };
        if contradicts || partial.ranges.len() >= MOST_RANGES {
            self.losses.refused += 1;
            return Err(NotDecoded::FragmentLost);
        }
        if partial.ranges.iter().any(|range| range.0 < end && offset < range.1) {
            self.losses.overlapping += 1;
        }
        partial.fragments += 1;
        if !more {
            partial.total = Some(end);
        }
        for (at, byte) in (offset as usize..KEPT).zip(payload.data) {
            if !partial.captured.iter().any(|range| (range.0..range.1).contains(&(at as u32))) {
                partial.kept[at] = *byte;
            }
        }
        let captured_end = offset.saturating_add(payload.data.len() as u32).min(KEPT as u32);
        if offset < captured_end {
            insert(&mut partial.captured, (offset, captured_end));
        }
        insert(&mut partial.ranges, (offset, end));
        let Some(total) = partial.total.filter(|total| partial.ranges == [(0, *total)]) else {
            return Err(NotDecoded::FragmentHeld);
        };
        let captured = partial.captured.first().filter(|range| range.0 == 0).map_or(0, |range| range.1);
        let whole = Whole { kept: partial.kept, captured: captured as usize, total };
        self.partial.remove(&key);
        Ok(whole)
    }

    fn begin(&mut self, key: FragmentKey, now: u64, number: u64) {
        while self.order.len() >= MOST_PACKETS {
            let Some((oldest, serial)) = self.order.pop_front() else { break };
            if self.partial.get(&oldest).is_some_and(|partial| partial.serial == serial) {
                self.give_up(&oldest);
                self.losses.displaced += 1;
            }
        }
        self.serial += 1;
        self.order.push_back((key, self.serial));
        let partial = Partial {
            begun: now,
            number,
            fragments: 0,
            serial: self.serial,
            total: None,
            ranges: Vec::new(),
            kept: [0; KEPT],
            captured: Vec::new(),
        };
        self.partial.insert(key, partial);
    }
}

/// A packet put together: its beginning and its length.
#[derive(Debug)]
pub(super) struct Whole {
    kept: [u8; KEPT],
    captured: usize,
    total: u32,
}

impl Whole {
    pub(super) fn span(&self) -> Span<'_> {
        Span { data: &self.kept[..self.captured], wire: self.total }
    }
}

/// Puts a range among sorted ones and joins those that touch.
fn insert(ranges: &mut Vec<(u32, u32)>, new: (u32, u32)) {
    let at = ranges.partition_point(|range| range.0 < new.0);
    ranges.insert(at, new);
    ranges.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::LinkType;
    use proptest::prelude::*;

    fn key(id: u32) -> FragmentKey {
        FragmentKey { source: [1, 1, 1, 1].into(), destination: [2, 2, 2, 2].into(), id, protocol: 6 }
    }

    fn add(
        r: &mut Reassembly,
        key: FragmentKey,
        place: (u32, bool),
        payload: Span<'_>,
        at: Option<Instant<Realtime>>,
    ) -> Result<Whole, NotDecoded> {
        let mut frame = Frame::new(7, Instant::from_nanos(0), LinkType::ETHERNET, &[]);
        frame.at = at;
        r.add(key, place, payload, &frame)
    }

    #[test]
    fn a_packet_that_takes_too_long_begins_anew() {
        let mut r = Reassembly::new();
        let at = |s: u64| Some(Instant::from_nanos(s * 1_000_000_000));
        let bytes = [7; 16];
        assert_eq!(add(&mut r, key(1), (0, true), Span::whole(&bytes), at(1)).err(), Some(NotDecoded::FragmentHeld));
        assert_eq!(add(&mut r, key(1), (16, false), Span::whole(&bytes), at(99)).err(), Some(NotDecoded::FragmentHeld));
        assert_eq!((r.losses().expired, r.waiting()), (1, 1));
    }

    #[test]
    fn memory_is_bounded_and_what_gives_way_is_counted() {
        let mut r = Reassembly::new();
        for id in 0..5_000 {
            let _ = add(&mut r, key(id), (0, true), Span::whole(&[0; 8]), None);
        }
        assert_eq!(r.waiting(), MOST_PACKETS);
        assert_eq!(r.losses().displaced, 5_000 - MOST_PACKETS as u64);
    }

    #[test]
    fn contradictions_are_refused() {
        let mut r = Reassembly::new();
        assert_eq!(add(&mut r, key(1), (0, true), Span::whole(&[0; 7]), None).err(), Some(NotDecoded::FragmentLost));
        assert_eq!(
            add(&mut r, key(1), (65_528, false), Span::whole(&[0; 8]), None).err(),
            Some(NotDecoded::FragmentLost)
        );
        assert_eq!(add(&mut r, key(1), (8, false), Span::whole(&[0; 4]), None).err(), Some(NotDecoded::FragmentHeld));
        assert_eq!(add(&mut r, key(1), (8, true), Span::whole(&[0; 8]), None).err(), Some(NotDecoded::FragmentLost));
        assert_eq!(r.losses().refused, 3);
    }

    proptest! {
        #[test]
        fn any_order_gives_the_beginning_and_the_length(order in Just((0usize..10).collect::<Vec<_>>()).prop_shuffle(), twice in 0usize..10) {
            let bytes: Vec<u8> = (0..397u32).map(|n| n as u8).collect();
            let mut pieces: Vec<_> = bytes.chunks(40).enumerate().collect();
            prop_assert_eq!(pieces.len(), 10);
            pieces = order.iter().map(|i| pieces[*i]).collect();
            let mut r = Reassembly::new();
            for (n, (i, piece)) in pieces.iter().enumerate() {
                let got = add(&mut r, key(1), ((*i * 40) as u32, *i < 9), Span::whole(piece), None);
                if n < 9 {
                    prop_assert_eq!(got.err(), Some(NotDecoded::FragmentHeld));
                    if n == twice {
                        let _ = add(&mut r, key(1), ((*i * 40) as u32, *i < 9), Span::whole(piece), None);
                        prop_assert_eq!(r.losses().overlapping, 1);
                    }
                } else {
                    let whole = got.unwrap();
                    prop_assert_eq!(whole.span().data, &bytes[..KEPT]);
                    prop_assert_eq!(whole.span().wire, 397);
                }
            }
            prop_assert_eq!(r.waiting(), 0);
        }
    }
}
