//! The offset between the clock that XDP programs read and the time of day.

use std::time::{Duration, Instant as WallInstant};

use clock::{Conversion, Instant, Monotonic, Nanos, Realtime, Source, Timestamp};

/// Measured again every second: the time of day can be set.
pub(crate) struct Offset {
    conversion: Conversion<Monotonic, Realtime>,
    measured: WallInstant,
}

impl Offset {
    /// Measures it.
    pub fn measure() -> Self {
        Self { conversion: timestamping::conversion(), measured: WallInstant::now() }
    }

    /// Measures it again where the last time is a second ago.
    pub fn refresh(&mut self) {
        if self.measured.elapsed() >= Duration::from_secs(1) {
            *self = Self::measure();
        }
    }

    /// A program's reading of `CLOCK_MONOTONIC` as the time of day, with the error of the offset.
    pub fn convert(&self, monotonic_ns: u64) -> Timestamp<Realtime> {
        let read: Timestamp<Monotonic> =
            Timestamp { at: Instant::from_nanos(monotonic_ns), source: Source::Kernel, error: Nanos::ZERO };
        self.conversion.convert(read)
    }
}
