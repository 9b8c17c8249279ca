//! The clock of the stamps, and its tick.

use record::{Monotonic, Nanos};

/// Nanoseconds of the clock that stamps are taken with.
pub(crate) fn monotonic() -> u64 {
    timestamping::now::<Monotonic>().as_nanos()
}

/// The length of a jiffy: the coarse clock advances by one.
pub(crate) fn tick() -> Nanos {
    let mut length = libc::timespec { tv_sec: 0, tv_nsec: 4_000_000 };
    // SAFETY: clock_getres writes one timespec.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut length) };
    Nanos(length.tv_nsec as u64)
}
