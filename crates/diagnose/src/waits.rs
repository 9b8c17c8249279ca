//! What hosts waited, where several things were waited for at the same time.

use std::net::IpAddr;
use std::ops::Range;

use record::Nanos;

/// The time of all these waits together: what one host waited for two things at the same time cost
/// it that time once.
pub(crate) fn once(waits: impl IntoIterator<Item = (IpAddr, Range<u64>)>) -> Nanos {
    let mut waits: Vec<(IpAddr, Range<u64>)> = waits.into_iter().collect();
    waits.sort_by_key(|(host, w)| (*host, w.start));
    let (mut all, mut until) = (0, None);
    for (host, waited) in waits {
        let from = match until {
            Some((of, end)) if of == host => waited.start.max(end),
            _ => waited.start,
        };
        let end = waited.end.max(from);
        all += end - from;
        until = Some((host, end));
    }
    Nanos(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_at_the_same_time_counts_once() {
        let [a, b] = [1, 2].map(|n| IpAddr::from([192, 0, 2, n]));
        assert_eq!(once([(a, 0..10), (b, 0..10)]), Nanos(20));
        assert_eq!(once([(a, 5..15), (a, 0..10), (a, 20..30), (a, 21..22)]), Nanos(25));
    }
}
