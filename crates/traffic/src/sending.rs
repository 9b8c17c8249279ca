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

/// Sleeps so that `done` bytes take as long as the rate says. Behind schedule by more than 100 ms
/// it starts anew rather than catch up in a burst.
pub(crate) struct Pacer {
    bits_per_second: u64,
    start: Instant<Monotonic>,
    from_bytes: u64,
}

impl Pacer {
    const FORGIVEN: Nanos = Nanos::from_millis(100);

    pub fn new(bits_per_second: u64) -> Self {
        timing::without_timer_slack();
        Self { bits_per_second: bits_per_second.max(1), start: timing::now(), from_bytes: 0 }
    }

    /// Waits for the time of byte `done`; gives the time then.
    pub fn wait(&mut self, done: u64, stop: &AtomicBool) -> Instant<Monotonic> {
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
