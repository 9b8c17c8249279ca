//! Ranges of a stream in bounded memory: what was never seen, and what the receiver reported as
//! received.

use std::collections::VecDeque;

/// Where stream positions begin, so that a packet from before the first one seen has a position
/// too.
pub(crate) const START: u64 = 1 << 40;

/// A half-open range of stream positions with what opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// When it appeared, ns.
    pub(crate) at: u64,
    /// IPv4 identification of the packet that opened it, where there is one.
    pub(crate) id: Option<u16>,
}

/// Disjoint ranges in ascending order. Adding at the end, where new data come, and taking off the
/// start, where ACKs do, cost the same however many there are; elsewhere it is two binary searches,
/// and one chunk is moved. At most `LIMIT`; what exceeds it is forgotten from the low end.
///
/// Most packets come when there are none: then nothing is held, and no other memory is read to know
/// that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Option<Box<Held>>);

#[derive(Clone, Debug, Default)]
struct Held {
    /// None of them empty, and none of more than [`CHUNK`].
    chunks: VecDeque<VecDeque<Range>>,
    count: usize,
    /// Bytes of all of them.
    bytes: u64,
    /// Two that were asked for last and are there in whole: ACK after ACK reports the same. Empty
    /// ones say nothing.
    latest: [(u64, u64); 2],
    /// Bytes from the stream's start on that were forgotten because there was no room.
    forgotten: u64,
}

/// A flight of 90 MB of which every second segment is missing. 1 MB of memory.
const LIMIT: usize = 1 << 15;
/// What is moved at most where a range is put between others: 4 KiB.
const CHUNK: usize = 128;

impl Held {
    fn all(&self) -> impl Iterator<Item = &Range> {
        self.chunks.iter().flatten()
    }

    fn first(&self) -> Option<&Range> {
        self.chunks.front()?.front()
    }

    fn last(&self) -> Option<&Range> {
        self.chunks.back()?.back()
    }

    /// Where the highest range that begins before `end` stands.
    fn last_before(&self, end: u64) -> Option<(usize, usize)> {
        let last = self.chunks.back()?;
        if last.back()?.start < end {
            return Some((self.chunks.len() - 1, last.len() - 1));
        }
        let chunk = self.chunks.partition_point(|c| c.front().is_some_and(|r| r.start < end)).checked_sub(1)?;
        Some((chunk, self.chunks[chunk].partition_point(|r| r.start < end).checked_sub(1)?))
    }

    /// Whether one range has all of `[start, end)`.
    fn has(&mut self, start: u64, end: u64) -> bool {
        if self.latest.contains(&(start, end)) {
            return true;
        }
        let has = self.last_before(start.saturating_add(1)).is_some_and(|(chunk, i)| self.chunks[chunk][i].end >= end);
        if has {
            self.latest = [(start, end), self.latest[0]];
        }
        has
    }

    /// Adds a range that begins within or right behind the last one, as most do: to that. Returns
    /// how many bytes of it are new.
    fn extend(&mut self, range: Range) -> Option<u64> {
        let last = self.chunks.back_mut()?.back_mut().filter(|l| (l.start..=l.end).contains(&range.start))?;
        let new = range.end.saturating_sub(last.end);
        *last = Range { start: last.start, end: last.end.max(range.end), ..range };
        self.bytes += new;
        Some(new)
    }

    /// Takes off the highest range that begins before `end` and ends at or after `start`.
    fn take_meeting(&mut self, start: u64, end: u64) -> Option<Range> {
        let (chunk, i) = self.last_before(end)?;
        if self.chunks[chunk][i].end < start {
            return None;
        }
        let met = self.chunks[chunk].remove(i)?;
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        }
        self.count -= 1;
        self.bytes -= met.end - met.start;
        Some(met)
    }

    /// Puts a range that meets none in its place.
    fn put(&mut self, range: Range) {
        self.count += 1;
        self.bytes += range.end - range.start;
        let Some((chunk, i)) = self.last_before(range.start) else {
            match self.chunks.front_mut().filter(|c| c.len() < CHUNK) {
                Some(first) => first.push_front(range),
                None => self.chunks.push_front(VecDeque::from([range])),
            }
            return;
        };
        if self.chunks[chunk].len() == CHUNK {
            // Behind the last of all a new chunk begins; elsewhere a full one is halved.
            let upper = self.chunks[chunk].split_off(if i + 1 == CHUNK { CHUNK } else { CHUNK / 2 });
            self.chunks.insert(chunk + 1, upper);
            let kept = self.chunks[chunk].len();
            let (chunk, i) = if i + 1 > kept || i + 1 == CHUNK { (chunk + 1, i + 1 - kept) } else { (chunk, i + 1) };
            self.chunks[chunk].insert(i, range);
        } else {
            self.chunks[chunk].insert(i + 1, range);
        }
    }

    fn take_first(&mut self) -> Option<Range> {
        let first = self.chunks.front_mut()?.pop_front()?;
        if self.chunks.front().is_some_and(VecDeque::is_empty) {
            self.chunks.pop_front();
        }
        self.count -= 1;
        self.bytes -= first.end - first.start;
        self.latest = [(0, 0); 2];
        Some(first)
    }
}

impl Ranges {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|h| h.count == 0)
    }

    pub(crate) fn highest(&self) -> Option<u64> {
        Some(self.0.as_ref()?.last()?.end)
    }

    /// Adds a range, joined with those it meets; returns how many bytes of it are new.
    pub(crate) fn insert(&mut self, range: Range) -> u64 {
        if range.end <= range.start {
            return 0;
        }
        let held = self.0.get_or_insert_default();
        if held.has(range.start, range.end) {
            return 0;
        }
        if let Some(new) = held.extend(range) {
            return new;
        }
        let (mut joined, mut known) = (range, 0);
        while let Some(met) = held.take_meeting(range.start, range.end.saturating_add(1)) {
            known += met.end.min(range.end).saturating_sub(met.start.max(range.start));
            (joined.start, joined.end) = (joined.start.min(met.start), joined.end.max(met.end));
        }
        held.put(joined);
        if held.count > LIMIT
            && let Some(lowest) = held.take_first()
        {
            held.forgotten += lowest.end.saturating_sub(lowest.start.max(START));
        }
        range.end - range.start - known
    }

    /// Gives the memory back where nothing is left to know.
    fn release(&mut self) {
        if self.0.as_ref().is_some_and(|h| h.count == 0 && h.forgotten == 0) {
            self.0 = None;
        }
    }

    /// Takes `[start, end)` away; returns how many bytes were there, and the first range that was
    /// touched.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> (u64, Option<Range>) {
        let (mut taken, mut first) = (0, None);
        let Some(held) = &mut self.0 else { return (0, None) };
        held.latest = [(0, 0); 2];
        while start < end
            && let Some(met) = held.take_meeting(start.saturating_add(1), end)
        {
            taken += met.end.min(end) - met.start.max(start);
            first = Some(met);
            for rest in [Range { end: start, ..met }, Range { start: end, ..met }] {
                if rest.end > rest.start {
                    held.put(rest);
                }
            }
        }
        self.release();
        (taken, first)
    }

    /// Bytes of the ranges that lie in `[start, end)`.
    pub(crate) fn bytes_in(&self, start: u64, end: u64) -> u64 {
        let all = self.0.iter().flat_map(|h| h.all());
        all.map(|r| r.end.min(end).saturating_sub(r.start.max(start))).sum()
    }

    /// Bytes of the ranges that lie at `start` and beyond; `None` where there is no range.
    pub(crate) fn bytes_from(&self, start: u64) -> Option<u64> {
        let held = self.0.as_ref()?;
        let first = held.first()?;
        Some(if first.start >= start { held.bytes } else { self.bytes_in(start, u64::MAX) })
    }

    /// Bytes that were forgotten because there was no room.
    pub(crate) fn forgotten(&self) -> u64 {
        self.0.as_ref().map_or(0, |h| h.forgotten)
    }

    /// Forgets everything below `position`.
    #[inline]
    pub(crate) fn trim(&mut self, position: u64) {
        if self.0.is_some() {
            self.take_below(position);
        }
    }

    fn take_below(&mut self, position: u64) {
        let Some(held) = &mut self.0 else { return };
        while held.first().is_some_and(|first| first.start < position) {
            if let Some(range) = held.take_first().filter(|r| r.end > position) {
                held.put(Range { start: position, ..range });
            }
        }
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Ranges {
        fn list(&self) -> Vec<Range> {
            self.0.iter().flat_map(|h| h.all()).copied().collect()
        }
    }

    fn range(start: u64, end: u64) -> Range {
        Range { start, end, at: 0, id: None }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(steps in prop::collection::vec((0u8..5, 0u64..60, 0u64..20), 1..60)) {
            let (mut ranges, mut bytes) = (Ranges::default(), std::collections::BTreeSet::new());
            for (step, start, len) in steps {
                let span = start..start + len;
                if step < 3 {
                    let new = span.clone().filter(|b| bytes.insert(*b)).count() as u64;
                    prop_assert_eq!(ranges.insert(range(start, start + len)), new);
                } else if step == 3 {
                    ranges.trim(start);
                    bytes.retain(|b| *b >= start);
                } else {
                    let gone = span.filter(|b| bytes.remove(b)).count() as u64;
                    prop_assert_eq!(ranges.remove(start, start + len).0, gone);
                }
                prop_assert_eq!(ranges.list().iter().map(|r| r.end - r.start).sum::<u64>(), bytes.len() as u64);
                prop_assert_eq!(ranges.bytes_in(7, 31), bytes.range(7..31).count() as u64);
                let beyond = bytes.range(9..).count() as u64;
                prop_assert_eq!(ranges.bytes_from(9), (!bytes.is_empty()).then_some(beyond));
                prop_assert!(ranges.list().windows(2).all(|w| w[0].end <= w[1].start));
            }
        }
    }

    #[test]
    fn many_ranges_in_any_order_stay_sorted_and_whole() {
        // Every third number of 3,001, in an order that begins nowhere near an end, added and taken
        // away again.
        for (by, of) in [(1, 3_001u64), (3_000, 3_001), (1_234, 3_001), (7, 3_001)] {
            let mut ranges = Ranges::default();
            for n in 0..of {
                let place = n * by % of * 10;
                assert_eq!(ranges.insert(range(place, place + 4)), 4);
            }
            let list = ranges.list();
            assert_eq!(list.len() as u64, of);
            assert!(list.windows(2).all(|w| w[0].start + 10 == w[1].start));
            for n in 0..of {
                let place = n * by % of * 10;
                assert_eq!(ranges.remove(place + 1, place + 3).0, 2);
                assert_eq!(ranges.remove(place, place + 10).0, 2);
            }
            assert!(ranges.is_empty() && ranges.highest().is_none());
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut ranges = Ranges::default();
        for n in 0..LIMIT as u64 + 3 {
            ranges.insert(range(START + n * 10 - 2, START + n * 10 + 5));
        }
        // Two bytes of the first lie before the stream's start.
        assert_eq!((ranges.list().len(), ranges.forgotten()), (LIMIT, 7 * 3 - 2));
    }
}
