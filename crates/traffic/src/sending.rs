//! How a sender hands its bytes to the kernel, and how it keeps to a rate.

use std::sync::atomic::{AtomicBool, Ordering};

use clock::{Instant, Monotonic, Nanos};
use serde::{Deserialize, Serialize};

use crate::timing;

/// How a sender hands its bytes to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// `send`.
    #[default]
    Write,
    /// `send` with `MSG_ZEROCOPY`, its completions counted.
    Zerocopy,
    /// `sendfile` from a file in memory.
    Sendfile,
}

/// Who keeps the pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// The kernel, by `SO_MAX_PACING_RATE`.
    #[default]
    Kernel,
    /// The program, by sleeping between writes.
    Program,
}

/// The most writes or datagrams that leave in a row before a pacer waits: as for iperf3.
pub const MOST_BURST: u32 = 1_000;

/// Writes or datagrams in a row where nothing else is asked: each waits for its time.
pub const fn no_burst() -> u32 {
    1
}

/// Sleeps so that `done` bytes take as long as the rate says. Behind schedule by more than 100 ms
/// it starts anew rather than catch up in a burst.
pub(crate) struct Pacer {
    bits_per_second: u64,
    start: Instant<Monotonic>,
    from_bytes: u64,
    /// How many leave in a row, and how many of them are left.
    burst: u32,
    left: u32,
}

impl Pacer {
    const FORGIVEN: Nanos = Nanos::from_millis(100);

    pub fn new(bits_per_second: u64) -> Self {
        timing::without_timer_slack();
        Self { bits_per_second: bits_per_second.max(1), start: timing::now(), from_bytes: 0, burst: 1, left: 0 }
    }

    /// So many in a row wait for the time of the first of them; at least 1.
    pub fn in_bursts(self, burst: u32) -> Self {
        Self { burst: burst.max(1), ..self }
    }

    /// Waits for the time of byte `done`; gives the time then.
    pub fn wait(&mut self, done: u64, stop: &AtomicBool) -> Instant<Monotonic> {
        if self.left > 0 {
            self.left -= 1;
            return timing::now();
        }
        self.left = self.burst - 1;
        let ns = u128::from(done - self.from_bytes) * 8_000_000_000 / u128::from(self.bits_per_second);
        let due = self.start.after(Nanos(u64::try_from(ns).unwrap_or(u64::MAX)));
        let mut now = timing::now();
        if now > due.after(Self::FORGIVEN) {
            (self.start, self.from_bytes) = (now, done);
        }
        while now < due && !stop.load(Ordering::Relaxed) {
            timing::sleep_until(due.min(now.after(Nanos::from_millis(50))));
            now = timing::now();
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_burst_waits_for_its_first_and_the_rate_is_kept() {
        // A write each 5 ms.
        for (burst, at_once) in [(1, [0, 1, 2, 3, 4, 5, 6, 7]), (4, [0, 0, 0, 0, 4, 4, 4, 4])] {
            let (mut pacer, stop) = (Pacer::new(2_000_000).in_bursts(burst), AtomicBool::new(false));
            let start = timing::now();
            for (write, first) in (0..).zip(at_once) {
                let after = pacer.wait(write * 1_250, &stop).saturating_since(start);
                let due = Nanos::from_millis(5 * first);
                // A machine without a free CPU is later, and never earlier.
                assert!(after + Nanos::from_micros(10) >= due, "{burst}: {write} after {after}");
                assert!(after <= due + Nanos::from_millis(80), "{burst}: {write} after {after}");
            }
        }
    }
}
