//! What the agent itself takes.

use std::fs;

use record::Nanos;

/// CPU time in user space and in the kernel, and resident memory in bytes, of this process.
pub(crate) fn of_this_process() -> (Nanos, Nanos, u64) {
    let (user, system) = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| ticks(&stat)).unwrap_or_default();
    let tick = Nanos(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1));
    let nanos = |ticks: u64| Nanos(ticks.saturating_mul(tick.0));
    let pages = fs::read_to_string("/proc/self/statm").ok().and_then(|statm| statm.split(' ').nth(1)?.parse().ok());
    let page = rustix::param::page_size() as u64;
    (nanos(user), nanos(system), pages.unwrap_or(0_u64).saturating_mul(page))
}

/// `utime` and `stime` of proc_pid_stat(5). The name before them may hold anything, so counting
/// begins behind it.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_found_behind_any_name() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194304 100 0 0 0 25 7 0 0 20 0 1 0 100 0 0";
        assert_eq!(ticks(stat), Some((25, 7)));
        assert_eq!(ticks("12 (a"), None);
        assert!(of_this_process().2 > 0);
    }
}
