//! The clocks of the machine: the one of the stamps, its tick, and how it stands to the wall clock.

use model::{Conversion, Instant, Monotonic, Nanos, Realtime};

/// Nanoseconds of the clock that stamps are taken with.
pub(crate) fn monotonic() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec; the clock is one that every kernel has.
    unsafe { libc::clock_gettime(clock, &raw mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// The length of a jiffy: the coarse clock advances by one.
pub(crate) fn tick() -> Nanos {
    let mut length = libc::timespec { tv_sec: 0, tv_nsec: 4_000_000 };
    // SAFETY: clock_getres writes one timespec.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut length) };
    Nanos(length.tv_nsec as u64)
}

/// How to read a moment of the stamps' clock on the wall clock: the best of a few readings.
pub(crate) fn to_wall() -> Conversion<Monotonic, Realtime> {
    (0..9)
        .filter_map(|_| {
            let before = Instant::<Monotonic>::from_nanos(monotonic());
            let real = Instant::<Realtime>::from_nanos(clock_ns(libc::CLOCK_REALTIME));
            Conversion::from_bracket(before, real, Instant::from_nanos(monotonic())).ok()
        })
        .min_by_key(|conversion| conversion.error)
        .unwrap_or_else(|| Conversion::new(0, Nanos(u64::MAX)))
}
