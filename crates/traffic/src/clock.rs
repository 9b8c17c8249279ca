//! The clocks that the workloads read, and the CPU time that they spend.

use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; the clocks used here exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// `CLOCK_MONOTONIC` in nanoseconds; shared by every process and network namespace of the host.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Sleeps until `deadline_ns` on `CLOCK_MONOTONIC`.
pub(crate) fn sleep_until(deadline_ns: u64) {
    let time = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `time` lives through the call, and no remainder is asked for with an absolute time.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

/// CPU time, as `getrusage` counts it. Work that the kernel does in interrupts is charged to whatever thread they hit;
/// on loopback and veth that is mostly the sending one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In the program.
    pub user_ns: u64,
    /// In the kernel on its behalf.
    pub system_ns: u64,
}

impl CpuTime {
    /// Of the calling thread, since it began.
    pub fn of_this_thread() -> Self {
        // SAFETY: rusage is plain integers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live rusage.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        let ns = |t: libc::timeval| {
            u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_usec).unwrap_or(0) * 1_000
        };
        Self { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
    }

    /// Both together.
    pub fn total_ns(self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// What was spent since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }

    /// CPU seconds for each 10⁹ bytes; `None` where no byte was carried.
    pub fn seconds_per_gigabyte(self, bytes: u64) -> Option<f64> {
        (bytes > 0).then(|| self.total_ns() as f64 / bytes as f64)
    }
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, other: Self) {
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.system_ns = self.system_ns.saturating_add(other.system_ns);
    }
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// [`Error::SocketOption`] where the machine has no such CPU, or the process may not use it.
pub fn pin_this_thread(cpu: usize) -> Result<(), Error> {
    let refused = |source| Error::SocketOption { option: "CPU affinity", value: cpu.to_string(), source };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(refused(std::io::Error::from_raw_os_error(libc::EINVAL)));
    }
    // SAFETY: cpu_set_t is plain integers, for which zero is the empty set; `cpu` is below its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    };
    // SAFETY: pointer and length describe `set`; 0 is the calling thread.
    let rc = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if rc == 0 { Ok(()) } else { Err(refused(std::io::Error::last_os_error())) }
}

/// A period as the kernel takes it for a socket's time-out; never zero, which would mean none.
pub(crate) fn timeout(ns: u64) -> Option<Duration> {
    Some(Duration::from_nanos(ns.max(1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time_and_only_of_this_thread() {
        let before = CpuTime::of_this_thread();
        let mut x = 1u64;
        while CpuTime::of_this_thread().since(before).total_ns() < 5_000_000 {
            for _ in 0..10_000 {
                x = std::hint::black_box(x.wrapping_mul(3));
            }
        }
        let other = std::thread::spawn(CpuTime::of_this_thread).join().unwrap();
        assert!(other.total_ns() < CpuTime::of_this_thread().total_ns());
        assert_eq!(
            CpuTime { user_ns: 1_500_000_000, system_ns: 500_000_000 }.seconds_per_gigabyte(4_000_000_000),
            Some(0.5)
        );
        assert_eq!(CpuTime::default().seconds_per_gigabyte(0), None);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        assert!(pin_this_thread(1_000_000).is_err());
        assert!(pin_this_thread(1_023).is_err());
    }
}
