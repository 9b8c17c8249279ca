//! Reading the series of the kernel part: their keys and figures as `record` has them, carried over
//! where a counter wraps; and taking those away that are idle.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};
use record::histogram::{Histogram, Series, SeriesKey};
use record::{Again, Comm, Instant, IpPrefix, Leg, Monotonic, Nanos};

use super::bounds;
use super::setup::{self, FOLDED, legs, places};
use super::{Departed, Dimensions, Histograms, Ports, Snapshot};
use crate::layout::{
    FOLD_NONE, HISTOGRAM_BLOCKS, HISTOGRAM_BUCKETS, HISTOGRAM_IN_BLOCK, Plain, RETRANSMISSION_LOSS,
    RETRANSMISSION_PROBE, RETRANSMISSION_RECOVERY, RawHistogramBlock, RawLegHistogram, RawSeriesFigures, RawSeriesKey,
    SERIES_OVERFLOW,
};
use crate::object::Batches;
use crate::{Error, clock, object};

const _: () = {
    assert!(Again::Probe as u32 == RETRANSMISSION_PROBE);
    assert!(Again::Recovery as u32 == RETRANSMISSION_RECOVERY);
    assert!(Again::Loss as u32 == RETRANSMISSION_LOSS);
};

/// A program that found a series just before its key was removed has added to it by then.
const STILL_ADDED_TO: Duration = Duration::from_secs(1);

const READ: &str = "cannot read the series of the kernel part";
const REMOVE: &str = "cannot remove an idle series";

/// The series of the kernel part, and what was read of them.
pub(crate) struct Reading {
    dimensions: Dimensions,
    idle: Option<Duration>,
    /// The most series, and those among them that found room.
    most: u32,
    own: u32,
    legs: Vec<Leg>,
    /// How many histograms a series has: those of the legs, and perhaps that of round trips.
    places: u32,
    /// The length of a jiffy.
    tick: Nanos,
    /// Which bucket of `record` each bucket of the kernel part is.
    buckets: Numbers,
    series: MapHandle,
    /// Numbers of series that found room, and of those that did not, with peers and without.
    free: [MapHandle; 3],
    figures: MapHandle,
    histograms: MapHandle,
    blocks: MapHandle,
    free_blocks: MapHandle,
    /// By their numbers.
    known: BTreeMap<u32, Known>,
    /// Those with removed keys, and when these were removed.
    leaving: Vec<(u32, Known, Instant<Monotonic>)>,
    departed: Departed,
}

/// A series as it was read last.
struct Known {
    series: Series,
    raw: RawSeriesFigures,
    changed: Instant<Monotonic>,
}

impl Known {
    fn new(key: SeriesKey, now: Instant<Monotonic>) -> Self {
        Self { series: Series::new(key), raw: RawSeriesFigures::zeroed(), changed: now }
    }
}

impl Reading {
    /// The series of a loaded object of the sends.
    pub fn new(object: &Object, config: &Histograms) -> Result<Self, Error> {
        let free = ["free_series", "free_with_peer", "free_without_peer"];
        let free = [object::map(object, free[0])?, object::map(object, free[1])?, object::map(object, free[2])?];
        let most = setup::numbers(config);
        for number in 1..=most {
            push(&free[place_of(number, config.max_series)], number)?;
        }
        let (legs, places) = (legs(config), places(config));
        let (histograms, free_blocks) = (object::map(object, "histograms")?, object::map(object, "free_blocks")?);
        let mut numbers = 1..=setup::blocks(most, places);
        for place in 0..places {
            let mut of_overflow = RawLegHistogram::zeroed();
            of_overflow.blocks.iter_mut().zip(&mut numbers).for_each(|(block, number)| *block = number);
            write(&histograms, SERIES_OVERFLOW * places + place, &of_overflow)?;
        }
        for number in numbers {
            push(&free_blocks, number)?;
        }
        Ok(Self {
            dimensions: config.dimensions,
            idle: config.idle,
            most,
            own: config.max_series,
            legs,
            places,
            tick: clock::tick(),
            buckets: bounds::numbers(),
            series: object::map(object, "series")?,
            free,
            figures: object::map(object, "figures")?,
            histograms,
            blocks: object::map(object, "blocks")?,
            free_blocks,
            known: BTreeMap::new(),
            leaving: Vec::new(),
            departed: Departed::default(),
        })
    }

    /// All series now, and whether numbers of series mean others than before: then connections have
    /// to look theirs up again.
    pub fn snapshot(&mut self, now: Instant<Monotonic>) -> Result<(Snapshot, bool), Error> {
        let freed = self.free_numbers(now)?;
        let keys = self.keys()?;
        self.find(&keys, now);
        let (figures, at) = (self.figures(), timestamping::now());
        let mut known = std::mem::take(&mut self.known);
        let read = known.iter_mut().try_for_each(|(number, known)| {
            let raw = figures.get(*number as usize).copied();
            self.read((*number, raw), known, now)
        });
        self.known = known;
        read?;
        let removed = self.remove_idle(&keys, now)?;
        let series = self.known.values().filter(|known| !known.series.is_empty());
        let series = series.map(|known| known.series.clone()).collect();
        Ok((Snapshot { at, series, departed: self.departed }, freed || removed))
    }

    /// The keys of all series, with their numbers.
    fn keys(&self) -> Result<Vec<(RawSeriesKey, u32)>, Error> {
        let mut keys = Vec::new();
        let mut batches = Batches::new(&self.series, self.most);
        while let Some((of_batch, numbers)) = batches.next().map_err(Error::system(READ))? {
            let of_batch = of_batch.chunks_exact(size_of::<RawSeriesKey>());
            keys.extend(of_batch.zip(numbers.chunks_exact(size_of::<u32>())).filter_map(|(key, number)| {
                Some((RawSeriesKey::from_bytes(key)?, u32::from_ne_bytes(number.try_into().ok()?)))
            }));
        }
        Ok(keys)
    }

    /// The figures of all series by their numbers, up to the largest that is known.
    fn figures(&self) -> Vec<RawSeriesFigures> {
        let last = self.known.keys().next_back().copied().unwrap_or(0);
        object::rows_in_use(&self.figures, last + 1, |_| true).into_iter().map(|(_, raw)| raw).collect()
    }

    /// Finds series that have begun.
    fn find(&mut self, keys: &[(RawSeriesKey, u32)], now: Instant<Monotonic>) {
        let overflow = SeriesKey { overflow: true, ..SeriesKey::default() };
        self.known.entry(SERIES_OVERFLOW).or_insert_with(|| Known::new(overflow, now));
        for (key, number) in keys {
            let dimensions = &self.dimensions;
            self.known.entry(*number).or_insert_with(|| Known::new(decode_key(key, dimensions), now));
        }
    }

    /// Reads a series, where anything was added to it: `raw` are its figures where they were read.
    fn read(
        &self,
        (number, raw): (u32, Option<RawSeriesFigures>),
        known: &mut Known,
        now: Instant<Monotonic>,
    ) -> Result<(), Error> {
        let raw = raw.map_or_else(|| lookup(&self.figures, number), Ok)?;
        // Its `sends` are added to last: while they stay, so does the rest. To the overflow single
        // legs are added too.
        if raw == known.raw && number != SERIES_OVERFLOW {
            return Ok(());
        }
        (known.raw, known.changed) = (raw, now);
        set_figures(&mut known.series, &raw, self.tick);
        for place in 0..self.places {
            let of_place: RawLegHistogram = lookup(&self.histograms, number * self.places + place)?;
            let histogram = match self.legs.get(place as usize) {
                Some(leg) => known.series.legs.entry(*leg).or_default(),
                None => &mut known.series.round_trips,
            };
            histogram.sum = Nanos(raw.sums[place as usize]);
            carry(histogram, &self.counters(&of_place)?, &self.buckets);
        }
        known.series.legs.retain(|_, histogram| histogram.count() > 0);
        Ok(())
    }

    /// The counters of all buckets of a histogram.
    fn counters(&self, of: &RawLegHistogram) -> Result<Counters, Error> {
        let mut counters: Counters = [0; HISTOGRAM_BUCKETS as usize];
        for (counters, &number) in counters.chunks_exact_mut(HISTOGRAM_IN_BLOCK as usize).zip(&of.blocks) {
            if number != 0 {
                counters.copy_from_slice(&lookup::<RawHistogramBlock>(&self.blocks, number)?.counts);
            }
        }
        Ok(counters)
    }

    /// Removes the keys of series that are idle.
    fn remove_idle(&mut self, keys: &[(RawSeriesKey, u32)], now: Instant<Monotonic>) -> Result<bool, Error> {
        let Some(idle) = self.idle else { return Ok(false) };
        let since = |at| Duration::from(now.since(at).unwrap_or_default());
        let mut removed = false;
        for &(key, number) in keys {
            if self.known.get(&number).is_none_or(|known| since(known.changed) < idle) {
                continue;
            }
            self.series.delete(key.as_bytes()).map_err(Error::bpf(REMOVE))?;
            if let Some(known) = self.known.remove(&number) {
                self.departed.series += 1;
                self.departed.sends += known.series.sends;
                self.leaving.push((number, known, now));
            }
            removed = true;
        }
        Ok(removed)
    }

    /// Gives the numbers of series back that nothing is added to any more. What was added since
    /// their keys were removed is counted.
    fn free_numbers(&mut self, now: Instant<Monotonic>) -> Result<bool, Error> {
        let over = |at| Duration::from(now.since(at).unwrap_or_default()) >= STILL_ADDED_TO;
        let (gone, still): (Vec<_>, Vec<_>) = std::mem::take(&mut self.leaving).into_iter().partition(|l| over(l.2));
        self.leaving = still;
        for (number, known, _) in &gone {
            let last: RawSeriesFigures = lookup(&self.figures, *number)?;
            self.departed.sends += last.sends.saturating_sub(known.series.sends);
            write(&self.figures, *number, &RawSeriesFigures::zeroed())?;
            for place in 0..self.places {
                let entry = number * self.places + place;
                let of_leg: RawLegHistogram = lookup(&self.histograms, entry)?;
                write(&self.histograms, entry, &RawLegHistogram::zeroed())?;
                for block in of_leg.blocks.into_iter().filter(|block| *block != 0) {
                    write(&self.blocks, block, &RawHistogramBlock::zeroed())?;
                    push(&self.free_blocks, block)?;
                }
            }
            push(&self.free[place_of(*number, self.own)], *number)?;
        }
        Ok(!gone.is_empty())
    }
}

/// Which of the three lists a number belongs to.
fn place_of(number: u32, own: u32) -> usize {
    match number.saturating_sub(own) {
        0 => 0,
        1..=FOLDED => 1,
        _ => 2,
    }
}

fn lookup<T: Plain>(map: &MapHandle, number: u32) -> Result<T, Error> {
    let bytes = map.lookup(&number.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf(READ))?;
    Ok(bytes.and_then(|bytes| T::from_bytes(&bytes)).unwrap_or_else(T::zeroed))
}

/// The counters of a histogram in the kernel part.
type Counters = [u32; HISTOGRAM_BUCKETS as usize];
type Numbers = [i32; HISTOGRAM_BUCKETS as usize];

const _: () = assert!(HISTOGRAM_BLOCKS * HISTOGRAM_IN_BLOCK == HISTOGRAM_BUCKETS);

fn push(free: &MapHandle, number: u32) -> Result<(), Error> {
    free.update(&[], &number.to_ne_bytes(), MapFlags::ANY).map_err(Error::bpf("cannot fill the free list"))
}

fn write<T: Plain>(map: &MapHandle, number: u32, value: &T) -> Result<(), Error> {
    map.update(&number.to_ne_bytes(), value.as_bytes(), MapFlags::ANY).map_err(Error::bpf(REMOVE))
}

/// `tick` is the length of a jiffy.
fn set_figures(series: &mut Series, raw: &RawSeriesFigures, tick: Nanos) {
    series.sends = raw.sends;
    series.bytes = raw.bytes;
    series.sent_segments = raw.sent;
    series.retransmitted_segments = raw.retransmitted.into_iter().fold(0, u64::saturating_add);
    series.retransmitted_for = Again::ALL.map(|again| raw.retransmitted[again as usize]);
    series.spurious_segments = raw.spurious;
    series.window_limited = Nanos(tick.0.saturating_mul(raw.limited));
    series.zero_windows = raw.zero_windows;
    series.listen_drops = raw.listen_drops;
    series.dropped_segments = raw.dropped;
    series.unacked = raw.unacked;
    series.vague = raw.vague;
    series.waited = raw.waited.map(Nanos);
}

/// Adds to a histogram what the counters of the kernel part have grown by: they are the lower half
/// of its counts.
fn carry(histogram: &mut Histogram, counters: &[u32], numbers: &Numbers) {
    let grown = |counter: u32, count: u64| u64::from(counter.wrapping_sub(count as u32));
    for (at, (&counter, &bucket)) in counters.iter().zip(numbers).enumerate() {
        if at == 0 {
            histogram.zero += grown(counter, histogram.zero);
            continue;
        }
        let more = grown(counter, histogram.buckets.get(&bucket).copied().unwrap_or(0));
        if more > 0 {
            *histogram.buckets.entry(bucket).or_default() += more;
        }
    }
}

fn decode_key(raw: &RawSeriesKey, dimensions: &Dimensions) -> SeriesKey {
    // Of what listeners dropped no peer is known.
    let peer = dimensions.peer.filter(|_| raw.peer != [0; 16]).map(|bits| {
        let address = IpAddr::V6(Ipv6Addr::from(raw.peer)).to_canonical();
        IpPrefix::new(address, if address.is_ipv4() { bits.ipv4 } else { bits.ipv6 })
    });
    // A connection has either, where ports are those that servers listen at.
    let port = |port: u16| (dimensions.ports != Ports::None && port != 0).then_some(port);
    SeriesKey {
        peer,
        peer_port: port(raw.peer_port),
        local_port: port(raw.local_port),
        cgroup: dimensions.cgroup.then_some(raw.cgroup),
        program: dimensions.program.then(|| Comm(raw.program).to_string()),
        overflow: raw.fold != FOLD_NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histograms::Prefixes;
    use proptest::prelude::*;

    #[test]
    fn counters_that_wrap_are_carried_over() {
        let buckets = bounds::numbers();
        let mut counters: Counters = [0; HISTOGRAM_BUCKETS as usize];
        let mut histogram = Histogram::default();
        let mut count = 0u64;
        for more in [u32::MAX, 7, 0, 1 << 31, 1 << 31, u32::MAX] {
            counters[0] = counters[0].wrapping_add(more);
            counters[9] = counters[9].wrapping_add(more);
            count += u64::from(more);
            carry(&mut histogram, &counters, &buckets);
            assert_eq!((histogram.zero, histogram.buckets[&buckets[9]]), (count, count));
        }
        assert_eq!(histogram.buckets.len(), 1);
    }

    #[test]
    fn a_key_has_the_dimensions_that_were_asked_for() {
        let mut raw = RawSeriesKey::zeroed();
        raw.peer[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 0]);
        raw.program[..4].copy_from_slice(b"curl");
        (raw.cgroup, raw.local_port) = (77, 443);
        let all = Dimensions {
            peer: Some(Prefixes { ipv4: 24, ipv6: 64 }),
            ports: Ports::Listening,
            cgroup: true,
            program: true,
        };
        let key = decode_key(&raw, &all);
        assert_eq!(key.peer.unwrap().to_string(), "192.0.2.0/24");
        assert_eq!((key.peer_port, key.local_port, key.cgroup), (None, Some(443), Some(77)));
        assert_eq!((key.program.as_deref(), key.overflow), (Some("curl"), false));
        raw.peer = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(decode_key(&raw, &all).peer.unwrap().to_string(), "2001:db8:0:1::/64");
        let none = Dimensions { peer: None, ports: Ports::None, cgroup: false, program: false };
        assert_eq!(decode_key(&raw, &none), SeriesKey::default());
    }

    #[test]
    fn each_figure_of_a_series_is_read_from_its_own_field() {
        let mut raw = RawSeriesFigures::zeroed();
        (raw.sends, raw.bytes, raw.retransmitted, raw.dropped) = (1, 2, [4, 30, 200, 1_000], 5);
        (raw.unacked, raw.vague, raw.sent) = (6, 7, 40);
        (raw.spurious, raw.limited, raw.listen_drops, raw.zero_windows) = (50, 60, 70, 80);
        raw.waited.iter_mut().zip(8..).for_each(|(waited, ns)| *waited = ns);
        let mut s = Series::default();
        set_figures(&mut s, &raw, Nanos(4));
        assert_eq!((s.sends, s.bytes, s.retransmitted_segments, s.dropped_segments), (1, 2, 1_234, 5));
        assert_eq!((s.retransmitted_for, s.spurious_segments), ([30, 200, 1_000], 50));
        assert_eq!((s.window_limited, s.listen_drops, s.zero_windows), (Nanos(240), 70, 80));
        assert_eq!((s.unacked, s.vague, s.sent_segments), (6, 7, 40));
        assert!(s.waited.into_iter().zip(8..).all(|(waited, ns)| waited == Nanos(ns)));
    }

    proptest! {
        /// Whatever bytes the maps hold.
        #[test]
        fn no_row_panics(bytes in prop::collection::vec(any::<u8>(), 512), counters: [u32; 32], seed: u64) {
            let buckets = bounds::numbers();
            let mut histogram = Histogram { sum: Nanos(seed), zero: seed, buckets: [(3, seed)].into() };
            carry(&mut histogram, &counters, &buckets);
            prop_assert_eq!(histogram.zero as u32, counters[0]);
            let mut series = Series::default();
            set_figures(&mut series, &RawSeriesFigures::from_bytes(&bytes).unwrap(), Nanos(4_000_000));
            let _ = decode_key(&RawSeriesKey::from_bytes(&bytes).unwrap(), &Dimensions::default());
        }
    }
}
