//! The buckets that the kernel part counts in, and the table that it finds them by.
//!
//! They are those buckets of [`record::histogram`] that lie in the powers of two from 2 ns to 2^40
//! ns, after one for a duration of zero and one for 1 ns; the last holds all that is longer than
//! 1,024 s. Each power of two has the same eight bounds, so a duration is moved up to the highest
//! one, and looked up by the four bits after its first one: such a cell is narrower than a bucket,
//! so its durations are in the bucket of the lowest of them, or in the next.

use record::histogram::{LOWEST, bucket_of, upper_bound_ns};

use crate::layout::{HISTOGRAM_BUCKETS, HISTOGRAM_CELLS, HISTOGRAM_LAST, HISTOGRAM_POWERS};

const BUCKETS: usize = HISTOGRAM_BUCKETS as usize;
const CELLS: usize = HISTOGRAM_CELLS as usize;

/// The first bucket of `record` with a bound that is not below the highest power of two.
const HIGHEST_POWER: i32 = 73;

/// Which bucket of `record` each bucket of the kernel part is.
pub(super) fn numbers() -> [i32; BUCKETS] {
    std::array::from_fn(|at| match at as i32 {
        // Zero is in no bucket of `record`.
        0 | 1 => LOWEST,
        at => HIGHEST_POWER + 8 + at - HISTOGRAM_LAST as i32,
    })
}

/// Of each cell of the highest power of two, in the lowest four bits the bucket of its lowest
/// duration, of the eight; above these the bound of that bucket.
pub(super) fn edges() -> [u64; CELLS] {
    let power = 1u64 << (HISTOGRAM_POWERS - 1);
    std::array::from_fn(|cell| {
        let lowest = power + cell as u64 * (power / CELLS as u64);
        let bucket = bucket_of(record::Nanos(lowest)).unwrap_or(LOWEST);
        upper_bound_ns(bucket) << 4 | (bucket - HIGHEST_POWER) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::HISTOGRAM_SKIPPED;
    use proptest::prelude::*;
    use record::Nanos;
    use record::histogram::UPPER_BOUNDS_NS;

    /// As `bucket_of` in `histograms.h`.
    fn found(edges: &[u64; CELLS], ns: u64) -> usize {
        if ns < 2 {
            return ns as usize;
        }
        if ns >> HISTOGRAM_POWERS > 0 {
            return HISTOGRAM_LAST as usize;
        }
        let power = ns.ilog2();
        let mantissa = ns << (HISTOGRAM_POWERS - 1 - power);
        let edge = edges[(mantissa >> (HISTOGRAM_POWERS - 5)) as usize & (CELLS - 1)];
        (power * 8) as usize + (edge & 15) as usize + usize::from(mantissa << 4 > edge) - HISTOGRAM_SKIPPED as usize
    }

    fn check(edges: &[u64; CELLS], ns: u64) {
        let (found, numbers) = (found(edges, ns), numbers());
        match bucket_of(Nanos(ns)) {
            None => assert_eq!(found, 0),
            Some(bucket) => assert_eq!(numbers[found], bucket.min(numbers[HISTOGRAM_LAST as usize]), "{ns}"),
        }
        assert!(found <= HISTOGRAM_LAST as usize && (found > 0 || ns == 0), "{ns}");
    }

    #[test]
    fn the_last_bucket_begins_at_1024_seconds() {
        let edges = edges();
        assert_eq!(found(&edges, 1_024_000_000_000), HISTOGRAM_LAST as usize - 1);
        assert_eq!(found(&edges, 1_024_000_000_001), HISTOGRAM_LAST as usize);
    }

    #[test]
    fn every_bound_and_its_neighbours_are_found() {
        let edges = edges();
        let powers = (0..64).map(|power| 1u64 << power);
        (0..70_000).chain(UPPER_BOUNDS_NS).chain(powers).for_each(|ns| {
            check(&edges, ns.saturating_sub(1));
            check(&edges, ns);
            check(&edges, ns.saturating_add(1));
        });
    }

    proptest! {
        #[test]
        fn any_duration_is_in_the_bucket_of_record(bits in 0..64u32, random: u64) {
            check(&edges(), random >> bits);
        }
    }
}
