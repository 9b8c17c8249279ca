//! Notices when `CLOCK_REALTIME`, which the kernel's stamps are on, is set.

use clock::{Conversion, Monotonic, Nanos, Realtime};
use timestamping::conversion;

/// The offset between the clocks as it was when the watch began.
pub(crate) struct ClockWatch(Conversion<Monotonic, Realtime>);

/// The kernel slews `CLOCK_REALTIME` by at most 500 parts in a million (`MAXFREQ`,
/// `kernel/time/ntp.c`), and `CLOCK_MONOTONIC` with it; a difference beyond the readings' errors is
/// a step. This much more leaves room for rounding.
const ROUNDING: Nanos = Nanos(100);

impl ClockWatch {
    /// Begins to watch.
    pub fn begin() -> Self {
        Self(conversion())
    }

    /// Whether the clock has been set since.
    pub fn was_set(&self) -> bool {
        let end = conversion::<Monotonic, Realtime>();
        let allowed = self.0.error + end.error + ROUNDING;
        self.0.offset.abs_diff(end.offset) > allowed.0
    }
}
