//! Ranges of a stream in bounded memory: what was never seen, and what the receiver reported as received.

/// Where stream positions begin, so that a packet from before the first one seen has a position too.
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

/// Disjoint ranges in ascending order. At most `LIMIT`; what exceeds it is forgotten from the low end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Option<Box<Held>>);

#[derive(Clone, Debug, Default)]
struct Held {
    list: Vec<Range>,
    /// Bytes from the stream's start on that were forgotten because there was no room.
    forgotten: u64,
}

/// 64 ranges of 40 bytes; a path that keeps more than 64 separate holes open at a time is beyond repair anyway.
const LIMIT: usize = 64;

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|h| h.list.is_empty())
    }

    pub(crate) fn highest(&self) -> Option<u64> {
        self.0.as_ref()?.list.last().map(|r| r.end)
    }

    /// Adds a range, joined with those it meets; returns how many bytes of it are new.
    pub(crate) fn insert(&mut self, range: Range) -> u64 {
        if range.end <= range.start {
            return 0;
        }
        let held = self.0.get_or_insert_default();
        let first = held.list.partition_point(|r| r.end < range.start);
        let last = held.list.partition_point(|r| r.start <= range.end);
        let known: u64 =
            held.list[first..last].iter().map(|r| r.end.min(range.end).saturating_sub(r.start.max(range.start))).sum();
        let mut joined = range;
        if let (Some(a), Some(b)) = (held.list[first..last].first(), held.list[first..last].last()) {
            joined.start = joined.start.min(a.start);
            joined.end = joined.end.max(b.end);
        }
        held.list.splice(first..last, [joined]);
        if held.list.len() > LIMIT {
            let lowest = held.list.remove(0);
            held.forgotten += lowest.end.saturating_sub(lowest.start.max(START));
        }
        range.end - range.start - known
    }

    /// Takes `[start, end)` away; returns how many bytes were there, and the first range that was touched.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> (u64, Option<Range>) {
        let Some(held) = &mut self.0 else { return (0, None) };
        let first = held.list.partition_point(|r| r.end <= start);
        let last = held.list.partition_point(|r| r.start < end);
        if first >= last {
            return (0, None);
        }
        let (a, b) = (held.list[first], held.list[last - 1]);
        let taken =
            held.list[first..last].iter().map(|r| r.end.min(end).saturating_sub(r.start.max(start))).sum::<u64>();
        let rest = [Range { end: start, ..a }, Range { start: end, ..b }].into_iter().filter(|r| r.end > r.start);
        held.list.splice(first..last, rest.collect::<Vec<_>>());
        (taken, Some(a))
    }

    /// Bytes of the ranges that lie in `[start, end)`.
    pub(crate) fn bytes_in(&self, start: u64, end: u64) -> u64 {
        let all = self.0.iter().flat_map(|h| &h.list);
        all.map(|r| r.end.min(end).saturating_sub(r.start.max(start))).sum()
    }

    /// Bytes that were forgotten because there was no room.
    pub(crate) fn forgotten(&self) -> u64 {
        self.0.as_ref().map_or(0, |h| h.forgotten)
    }

    /// Forgets everything below `position`.
    pub(crate) fn trim(&mut self, position: u64) {
        if self.0.as_ref().and_then(|h| h.list.first()).is_some_and(|r| r.start < position) {
            self.remove(0, position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Ranges {
        fn list(&self) -> &[Range] {
            self.0.as_ref().map_or(&[], |h| &h.list)
        }
    }

    fn range(start: u64, end: u64) -> Range {
        Range { start, end, at: 0, id: None }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 1..60)) {
            let (mut ranges, mut bytes) = (Ranges::default(), std::collections::BTreeSet::new());
            for (add, start, len) in steps {
                let span = start..start + len;
                if add {
                    let new = span.clone().filter(|b| bytes.insert(*b)).count() as u64;
                    prop_assert_eq!(ranges.insert(range(start, start + len)), new);
                } else {
                    let gone = span.filter(|b| bytes.remove(b)).count() as u64;
                    prop_assert_eq!(ranges.remove(start, start + len).0, gone);
                }
                prop_assert_eq!(ranges.list().iter().map(|r| r.end - r.start).sum::<u64>(), bytes.len() as u64);
                prop_assert_eq!(ranges.bytes_in(7, 31), bytes.range(7..31).count() as u64);
                prop_assert!(ranges.list().windows(2).all(|w| w[0].end <= w[1].start));
            }
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
