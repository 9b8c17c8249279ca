//! CPU time of all processes of the machine, kernel threads too: it has what the observers, the
//! receiver and the kernel's own threads take, which the sender's own does not.

use std::collections::BTreeMap;

/// The CPU time that each process has had, ns, by its number.
pub(super) struct CpuTimes(BTreeMap<i32, u64>);

impl CpuTimes {
    /// Of the processes that this one can see, now.
    pub fn now() -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid: i32| Some((pid, cpu_time(pid)?))).collect())
    }

    /// What all of them have had since then, ns. Of a process that has ended meanwhile, nothing is
    /// known.
    pub fn elapsed(&self) -> u64 {
        let now = Self::now();
        let since = |(pid, time): (&i32, &u64)| time.saturating_sub(self.0.get(pid).copied().unwrap_or(0));
        now.0.iter().map(since).sum()
    }
}

/// The CPU time that this process has had, ns: by the clock that the kernel has for each, which is
/// exact, where `/proc/stat` counts in hundredths of a second.
pub(super) fn cpu_time(pid: i32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write to the variable that they are given and to nothing else.
    let read = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0
    };
    read.then(|| time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_a_thread_of_this_process_works_is_in_the_sum() {
        let (before, begin) = (CpuTimes::now(), traffic::thread_cpu_time());
        let until = Instant::now() + Duration::from_millis(20);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let own = traffic::thread_cpu_time().saturating_sub(begin).0;
        assert!(own > 0 && before.elapsed() >= own);
    }
}
