//! The tick of the kernel's coarse clock.

use record::Nanos;
use rustix::time::{ClockId, clock_getres};

/// The length of a jiffy: the coarse clock advances by one.
pub(crate) fn tick() -> Nanos {
    Nanos(clock_getres(ClockId::MonotonicCoarse).tv_nsec.unsigned_abs())
}
