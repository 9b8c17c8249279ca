//! One side's datagrams, whatever they carry: how many, how large, how far apart; and the numbered
//! streams among them.

use record::Nanos;
use record::udp::Sent;
use wire::packet::{Numbered, Udp};

use super::numbers::Numbers;
use crate::Distribution;
use crate::tls::Moment;

/// Numbered streams of one side that are followed: one for sound, one for pictures, and what comes
/// after them.
const STREAMS: usize = 8;
/// Streams that may begin at the same time.
const CANDIDATES: usize = 4;
/// Datagrams that come so many times closer than on average are a burst.
const CLOSER: u64 = 8;

/// Datagrams in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    pub(super) datagrams: u64,
    /// Payload of those after the first.
    bytes: u64,
    took: u64,
}

/// The datagrams of one side.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    smallest: u32,
    largest: u32,
    first_at: u64,
    pub(super) last_at: u64,
    gaps: Distribution,
    burst: Burst,
    longest: Burst,
    numbered: Option<Box<Streams>>,
}

#[derive(Clone, Debug, Default)]
struct Streams {
    all: Vec<Numbers>,
    /// The latest of each that may be numbered, and which of them is the oldest.
    candidates: [Option<(Numbered, Moment, u32)>; CANDIDATES],
    oldest: u8,
}

impl Flow {
    pub(super) fn take(&mut self, udp: &Udp) {
        let at = udp.at.as_nanos();
        let is_first = self.datagrams == 0;
        if is_first {
            (self.first_at, self.smallest) = (at, u32::MAX);
        } else {
            let gap = at.saturating_sub(self.last_at);
            let average = self.last_at.saturating_sub(self.first_at) / self.datagrams.saturating_sub(1).max(1);
            if gap.saturating_mul(CLOSER) < average {
                self.burst.datagrams += 1;
                self.burst.bytes += u64::from(udp.payload);
                self.burst.took += gap;
            } else {
                self.burst = Burst { datagrams: 1, ..Burst::default() };
            }
            if self.burst.datagrams > self.longest.datagrams {
                self.longest = self.burst;
            }
            self.gaps.add(Nanos(gap));
        }
        self.datagrams += 1;
        self.bytes += u64::from(udp.payload);
        self.smallest = self.smallest.min(udp.payload);
        self.largest = self.largest.max(udp.payload);
        self.last_at = self.last_at.max(at);
        if let Some(numbered) = Numbered::parse(udp.head.as_slice(), udp.payload) {
            self.number(&numbered, udp);
        }
    }

    fn number(&mut self, numbered: &Numbered, udp: &Udp) {
        let streams = self.numbered.get_or_insert_default();
        let burst = self.burst.datagrams;
        if let Some(known) = streams.all.iter_mut().rev().find(|of| of.is_of(numbered)) {
            known.take(numbered, udp, burst);
            return;
        }
        let now = Moment { at: udp.at.as_nanos(), packet: udp.number };
        let same = |(of, ..): &(Numbered, Moment, u32)| (of.by, of.stream) == (numbered.by, numbered.stream);
        let place = streams.candidates.iter().position(|of| of.as_ref().is_some_and(same));
        let place = place.unwrap_or_else(|| {
            streams.oldest = streams.oldest.wrapping_add(1);
            usize::from(streams.oldest) % CANDIDATES
        });
        let earlier = streams.candidates[place].replace((*numbered, now, udp.payload)).filter(same);
        // Two in a row are no chance (RFC 3550, appendix A.1).
        if let Some((first, began, bytes)) = earlier
            && streams.all.len() < STREAMS
            && Numbers::follows(&first, began.at, numbered, now.at)
        {
            streams.candidates[place] = None;
            let mut begun = Numbers::new(&first, began, bytes);
            begun.take(numbered, udp, burst);
            streams.all.push(begun);
        }
    }

    /// The numbered streams, in the order of their beginnings.
    pub(super) fn streams(&self) -> &[Numbers] {
        self.numbered.as_ref().map_or(&[], |streams| &streams.all)
    }

    /// The median time between two of its datagrams.
    pub(super) fn usual_gap(&self) -> Option<Nanos> {
        self.gaps.quantile(0.5)
    }

    pub(super) fn sent(&self) -> Sent {
        let burst = Some(self.longest).filter(|burst| burst.datagrams > 1);
        let rate =
            |burst: Burst| (burst.took > 0).then(|| u128::from(burst.bytes) * 8_000_000_000 / u128::from(burst.took));
        Sent {
            datagrams: self.datagrams,
            bytes: self.bytes,
            smallest: if self.datagrams > 0 { self.smallest.into() } else { 0 },
            largest: self.largest.into(),
            gap_median_ns: self.usual_gap(),
            gap_max_ns: self.gaps.max(),
            burst_datagrams: burst.map_or(0, |burst| burst.datagrams),
            burst_bits_per_second: burst.and_then(rate).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX)),
        }
    }
}
