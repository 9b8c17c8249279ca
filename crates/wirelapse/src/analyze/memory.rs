//! How many connections there is memory for: a share of what the machine, or the control group that this process is in, has left.

use std::fs;
use std::path::Path;

/// What one connection takes with its lists and its share of the table, bytes; measured, with some room (docs/analyze.md).
const CONNECTION: u64 = 3_000;
/// The most that are followed by default, however much memory there is.
const MOST: u64 = 2_000_000;
/// The least: 30 MB.
const LEAST: u64 = 10_000;

/// Connections that fit into half of the memory that is left.
pub(super) fn connections() -> usize {
    let left = [available(), group_left()].into_iter().flatten().min();
    fitting(left) as usize
}

fn fitting(left: Option<u64>) -> u64 {
    left.map_or(MOST, |bytes| (bytes / 2 / CONNECTION).clamp(LEAST, MOST))
}

/// What the machine has left (`MemAvailable` of `/proc/meminfo`).
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    kilobytes(&text, "MemAvailable:")
}

fn kilobytes(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find(|l| l.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// What the control groups above this process leave it: the least of all limits, less what is in use under each.
fn group_left() -> Option<u64> {
    let (groups, mounts) = (fs::read_to_string("/proc/self/cgroup").ok()?, fs::read_to_string("/proc/mounts").ok()?);
    let own = groups.lines().find_map(|l| l.strip_prefix("0::/"))?;
    let root = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>()).find(|w| w.get(2) == Some(&"cgroup2"))?[1];
    let number = |path: &Path, name: &str| fs::read_to_string(path.join(name)).ok()?.trim().parse::<u64>().ok();
    let root = Path::new(root);
    root.join(own)
        .ancestors()
        .take_while(|path| path.starts_with(root))
        .filter_map(|path| {
            Some(number(path, "memory.max")?.saturating_sub(number(path, "memory.current").unwrap_or(0)))
        })
        .min()
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

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   22000000 kB\n";
        assert_eq!(kilobytes(text, "MemAvailable:"), Some(22_000_000 * 1_024));
        assert_eq!(kilobytes("", "MemAvailable:"), None);
    }
}
