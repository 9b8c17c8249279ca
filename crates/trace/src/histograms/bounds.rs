//! The buckets that the kernel part counts in, and the table that it finds them by.
//!
//! They are those buckets of [`record::histogram`] that hold a whole nanosecond, up to 2^10 s, after one for a duration of zero; the last
//! holds all that is longer. A duration is looked up by the cell that its power of two and the four bits after its first one make. No cell
//! is as wide as a bucket, so its durations are in the bucket of the lowest of them, or in the next.

use record::histogram::{LOWEST, UPPER_BOUNDS_NS};

use crate::layout::{HISTOGRAM_BUCKETS, HISTOGRAM_CELLS};

const BUCKETS: usize = HISTOGRAM_BUCKETS as usize;
const CELLS: usize = HISTOGRAM_CELLS as usize;

/// The highest duration of each bucket of the kernel part, ns, and which bucket of `record` each but the first is.
pub(super) struct Buckets {
    pub bounds: [u64; BUCKETS],
    pub numbers: [i32; BUCKETS],
}

impl Buckets {
    pub fn new() -> Self {
        let (mut bounds, mut numbers) = ([0; BUCKETS], [LOWEST; BUCKETS]);
        let (mut at, mut below) = (1, 0);
        for (i, &bound) in UPPER_BOUNDS_NS.iter().enumerate() {
            if bound > below && at < BUCKETS {
                (bounds[at], numbers[at]) = (bound, LOWEST + i as i32);
                (at, below) = (at + 1, bound);
            }
        }
        bounds[BUCKETS - 1] = u64::MAX;
        Self { bounds, numbers }
    }

    /// The bucket of the lowest duration of each cell.
    pub fn cells(&self) -> [u16; CELLS] {
        std::array::from_fn(|cell| {
            let (power, sixteenth) = (cell / 16, (cell % 16) as u64);
            let first = (1u64 << power) + ((sixteenth << power) >> 4);
            // No duration is in such a cell but zero.
            let lowest = if cell == 0 { 0 } else { first };
            self.bounds.partition_point(|bound| *bound < lowest) as u16
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use record::Nanos;
    use record::histogram::bucket_of;

    /// As `bucket_of` in `histograms.h`.
    fn found(buckets: &Buckets, cells: &[u16; CELLS], ns: u64) -> usize {
        let power = ns.checked_ilog2().unwrap_or(0);
        let cell = if power >= 4 { ns >> (power - 4) } else { ns << (4 - power) };
        let cell = power as usize * 16 + (cell & 15) as usize;
        match cells.get(cell).map(|bucket| usize::from(*bucket)) {
            Some(bucket) if bucket < BUCKETS - 1 => bucket + usize::from(ns > buckets.bounds[bucket]),
            _ => BUCKETS - 1,
        }
    }

    fn check(buckets: &Buckets, cells: &[u16; CELLS], ns: u64) {
        let found = found(buckets, cells, ns);
        match bucket_of(Nanos(ns)) {
            None => assert_eq!(found, 0),
            Some(bucket) => assert_eq!(buckets.numbers[found], bucket.min(buckets.numbers[BUCKETS - 1]), "{ns}"),
        }
        assert!(ns <= buckets.bounds[found] && (found == 0 || ns > buckets.bounds[found - 1]), "{ns}");
    }

    #[test]
    fn the_last_bucket_begins_at_1024_seconds() {
        let buckets = Buckets::new();
        assert_eq!(buckets.bounds[BUCKETS - 2], 1_024_000_000_000);
        assert_eq!(buckets.bounds[..4], [0, 1, 2, 3]);
    }

    #[test]
    fn every_bound_and_its_neighbours_are_found() {
        let buckets = Buckets::new();
        let cells = buckets.cells();
        (0..70_000).chain(buckets.bounds).for_each(|ns| {
            check(&buckets, &cells, ns.saturating_sub(1));
            check(&buckets, &cells, ns);
            check(&buckets, &cells, ns.saturating_add(1));
        });
    }

    proptest! {
        #[test]
        fn any_duration_is_in_the_bucket_of_record(bits in 0..64u32, random: u64) {
            let buckets = Buckets::new();
            check(&buckets, &buckets.cells(), random >> bits);
        }
    }
}
