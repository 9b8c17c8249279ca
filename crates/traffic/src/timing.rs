//! The clocks that the workloads read, and the CPU time that they spend.

use std::io;
use std::ops::AddAssign;
use std::os::fd::AsFd;
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos, Realtime};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::event::{self, PollFd, PollFlags};
use rustix::thread::{self, ClockId, CpuSet};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// `CLOCK_MONOTONIC`; shared by every process and network namespace of the host.
#[inline]
pub fn now() -> Instant<Monotonic> {
    timestamping::now()
}

/// `CLOCK_REALTIME`.
pub fn realtime() -> Instant<Realtime> {
    timestamping::now()
}

/// Sleeps until `deadline`.
pub(crate) fn sleep_until(deadline: Instant<Monotonic>) {
    let at = timespec(deadline.as_nanos());
    // A signal ends the sleep early.
    while thread::clock_nanosleep_absolute(ClockId::Monotonic, &at) == Err(rustix::io::Errno::INTR) {}
}

/// Waits until there is something to read, or until `deadline`; whether there is. A signal counts
/// as nothing to read.
///
/// # Errors
/// Of the socket.
pub(crate) fn readable_before(socket: &impl AsFd, deadline: Instant<Monotonic>) -> io::Result<bool> {
    poll_before(&mut [PollFd::new(socket, PollFlags::IN)], deadline)
}

/// Waits until one of these is ready, or until `deadline`; whether one is. A signal counts as none.
///
/// # Errors
/// Where the kernel has no memory for it.
pub(crate) fn poll_before(all: &mut [PollFd<'_>], deadline: Instant<Monotonic>) -> io::Result<bool> {
    let left = timespec(deadline.saturating_since(now()).0);
    match event::poll(all, Some(&left)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Has the kernel wake the calling thread on time: otherwise it may be 50 µs late so that wake-ups
/// can be merged.
pub(crate) fn without_timer_slack() {
    // Where it is refused, the thread wakes later, and what it times says so.
    thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).ok();
}

/// CPU time, as `getrusage` counts it. Work that the kernel does in interrupts is charged to
/// whatever thread they hit; on loopback and veth that is mostly the sending one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In the program.
    #[serde(rename = "user_ns")]
    pub user: Nanos,
    /// In the kernel on its behalf.
    #[serde(rename = "system_ns")]
    pub system: Nanos,
}

impl CpuTime {
    /// Of the calling thread, since it began.
    pub fn of_this_thread() -> Self {
        let ns = |t: TimeVal| {
            Nanos::from_secs(u64::try_from(t.tv_sec()).unwrap_or(0))
                + Nanos::from_micros(u64::try_from(t.tv_usec()).unwrap_or(0))
        };
        // It fails only for a thread that does not exist.
        getrusage(UsageWho::RUSAGE_THREAD)
            .map_or(Self::default(), |usage| Self { user: ns(usage.user_time()), system: ns(usage.system_time()) })
    }

    /// Both together.
    pub fn total(self) -> Nanos {
        self.user + self.system
    }

    /// What was spent since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user: self.user.saturating_sub(earlier.user), system: self.system.saturating_sub(earlier.system) }
    }

    /// CPU seconds for each 10⁹ bytes; `None` where no byte was carried.
    pub fn seconds_per_gigabyte(self, bytes: u64) -> Option<f64> {
        (bytes > 0).then(|| self.total().0 as f64 / bytes as f64)
    }
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
    }
}

/// The CPU time of the calling thread since it began, to the nanosecond
/// (`CLOCK_THREAD_CPUTIME_ID`), program and kernel together.
pub fn thread_cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Nanos::from_secs(time.tv_sec.unsigned_abs()) + Nanos(time.tv_nsec.unsigned_abs())
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// [`Error::SocketOption`] where the machine has no such CPU, or the process may not use it.
pub fn pin_this_thread(cpu: usize) -> Result<(), Error> {
    let refused = |source| Error::SocketOption { option: "CPU affinity", value: cpu.to_string(), source };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    thread::sched_setaffinity(None, &set).map_err(|errno| refused(errno.into()))
}

/// A period as the kernel takes it for a socket's time-out; never zero, which would mean none.
pub(crate) fn timeout(period: Nanos) -> Option<Duration> {
    Some(period.max(Nanos::from_millis(1)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time_and_only_of_this_thread() {
        let before = CpuTime::of_this_thread();
        let mut x = 1u64;
        while CpuTime::of_this_thread().since(before).total() < Nanos::from_millis(5) {
            for _ in 0..10_000 {
                x = std::hint::black_box(x.wrapping_mul(3));
            }
        }
        let other = std::thread::spawn(CpuTime::of_this_thread).join().unwrap();
        assert!(other.total() < CpuTime::of_this_thread().total());
        assert_eq!(
            CpuTime { user: Nanos::from_millis(1_500), system: Nanos::from_millis(500) }
                .seconds_per_gigabyte(4_000_000_000),
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
