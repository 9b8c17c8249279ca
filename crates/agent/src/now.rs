//! A moment, and the time of day that it is by the clock's setting then.

use record::{ClockReading, Instant, Monotonic, Utc};

/// A change of the clock's setting by more than this is a step. Whatever disciplines the clock
/// otherwise makes it run faster or slower, and `CLOCK_MONOTONIC` with it.
const STEP_NS: u64 = 10_000_000;

/// A moment: ages are told by `at`, and `clock` says what time of day it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// On the clock of the tracer.
    pub at: Instant<Monotonic>,
    /// How to get the time of day from it.
    pub clock: ClockReading,
}

impl Now {
    /// Nanoseconds of Unix time.
    pub fn unix_ns(self) -> u64 {
        self.clock.realtime_ns(self.at.as_nanos())
    }
}

/// A moment as a time of day, by this setting of the clock.
pub(crate) fn utc(at: Instant<Monotonic>, clock: ClockReading) -> Utc {
    Utc::from_nanos(clock.realtime_ns(at.as_nanos()))
}

/// By how much the clock was set forward between the two; `None` where it was not set.
pub(crate) fn step(before: ClockReading, after: ClockReading) -> Option<i64> {
    let by = after.realtime_offset_ns.saturating_sub(before.realtime_offset_ns);
    let unsure = before.realtime_offset_error_ns.saturating_add(after.realtime_offset_error_ns);
    (by.unsigned_abs() > unsure.saturating_add(STEP_NS)).then_some(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_more_than_what_a_reading_is_unsure_of() {
        let clock = |offset, error| ClockReading { realtime_offset_ns: offset, realtime_offset_error_ns: error };
        assert_eq!(step(clock(0, 100), clock(9_000_000, 100)), None);
        assert_eq!(step(clock(0, 100), clock(-7_200_000_000_000, 100)), Some(-7_200_000_000_000));
        assert_eq!(step(clock(5, 100), clock(1_000_000_005, 100)), Some(1_000_000_000));
        assert_eq!(step(clock(0, 100), clock(1_000_000_000, 2_000_000_000)), None);
    }
}
