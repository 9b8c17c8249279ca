//! Keeping to a rate.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock;

/// Sleeps so that `done` bytes take as long as the rate says. Behind schedule by more than 100 ms it starts anew rather
/// than catch up in a burst.
pub(crate) struct Pacer {
    bits_per_second: u64,
    start_ns: u64,
    from_bytes: u64,
}

impl Pacer {
    const FORGIVEN_NS: u64 = 100_000_000;

    pub fn new(bits_per_second: u64) -> Self {
        // Timers are otherwise allowed to be 50 µs late so that wake-ups can be merged.
        // SAFETY: PR_SET_TIMERSLACK takes a number and concerns only this thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
        Self { bits_per_second: bits_per_second.max(1), start_ns: clock::monotonic_ns(), from_bytes: 0 }
    }

    /// Waits for the time of byte `done`; gives the time then.
    pub fn wait(&mut self, done: u64, stop: &AtomicBool) -> u64 {
        let ns = u128::from(done - self.from_bytes) * 8_000_000_000 / u128::from(self.bits_per_second);
        let due = self.start_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX));
        let mut now = clock::monotonic_ns();
        if now > due.saturating_add(Self::FORGIVEN_NS) {
            (self.start_ns, self.from_bytes) = (now, done);
        }
        while now < due && !stop.load(Ordering::Relaxed) {
            clock::sleep_until(due.min(now + 50_000_000));
            now = clock::monotonic_ns();
        }
        now
    }
}
