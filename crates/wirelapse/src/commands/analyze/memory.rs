//! How many connections there is memory for: a share of what the machine, or the control group that
//! this process is in, has left.

use crate::memory;

/// What one connection takes with its lists and its share of the table, bytes; measured, with some
/// room (docs/analyze.md).
const CONNECTION: u64 = 3_000;
/// The most that are followed by default, however much memory there is.
const MOST: u64 = 2_000_000;
/// The least: 30 MB.
const LEAST: u64 = 10_000;

/// Connections that fit into half of the memory that is left.
pub(super) fn connections() -> usize {
    fitting(memory::left()) as usize
}

fn fitting(left: Option<u64>) -> u64 {
    left.map_or(MOST, |bytes| (bytes / 2 / CONNECTION).clamp(LEAST, MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_has_bounds() {
        assert_eq!(fitting(Some(6_000_000_000)), 1_000_000);
        assert_eq!(fitting(Some(1_000)), LEAST);
        assert_eq!((fitting(Some(u64::MAX)), fitting(None)), (MOST, MOST));
    }
}
