//! The system's clocks, and the offsets between them with their error.

use std::mem::zeroed;

use clock::{Clock, Conversion, Instant, Monotonic, Nanos, Realtime, Source, Tai, Timestamp};

use crate::Error;

/// A clock that `clock_gettime` reads by a fixed number.
pub trait SystemClock: Clock {
    /// The number (`CLOCK_*`).
    const ID: i32;
}

impl SystemClock for Realtime {
    const ID: i32 = libc::CLOCK_REALTIME;
}
impl SystemClock for Monotonic {
    const ID: i32 = libc::CLOCK_MONOTONIC;
}
impl SystemClock for Tai {
    const ID: i32 = libc::CLOCK_TAI;
}

/// Reads clock `C`.
pub fn now<C: SystemClock>() -> Instant<C> {
    Instant::from_nanos(read(C::ID).unwrap_or(0))
}

/// Reads clock `C` as a timestamp of the program's own, exact to the clock's unit.
pub fn timestamp<C: SystemClock>() -> Timestamp<C> {
    Timestamp { at: now(), source: Source::User, error: Nanos(1) }
}

pub(crate) fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let rc = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    (rc == 0).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Rounds of reading before the narrowest is taken: an interrupted one is wide.
const ROUNDS: usize = 8;

/// The offset from clock `A` to clock `B`, measured this moment: `B` read between two readings of `A`, the narrowest of a
/// few rounds. Its error is half of that width. What the clocks drift, or are set, afterwards is not in it.
///
/// ```
/// use clock::{Monotonic, Realtime};
/// let to_realtime = timestamping::conversion::<Monotonic, Realtime>();
/// let stamp = to_realtime.convert(timestamping::timestamp::<Monotonic>());
/// println!("now is {:?} ± {}", stamp.at, stamp.error);
/// ```
pub fn conversion<A: SystemClock, B: SystemClock>() -> Conversion<A, B> {
    narrowest((0..ROUNDS).map(|_| (now::<A>(), now::<B>(), now::<A>())))
        // A clock that was set back within every round: nothing is known.
        .unwrap_or(Conversion::new(0, Nanos(u64::MAX)))
}

/// The conversion with the least error of those that readings `(A, B, A)` give.
pub(crate) fn narrowest<A: Clock, B: Clock>(
    readings: impl IntoIterator<Item = (Instant<A>, Instant<B>, Instant<A>)>,
) -> Option<Conversion<A, B>> {
    readings
        .into_iter()
        .filter_map(|(before, on_b, after)| Conversion::from_bracket(before, on_b, after).ok())
        .min_by_key(|c| c.error)
}

/// How far `CLOCK_TAI` is from `CLOCK_REALTIME` by the kernel's own record, in seconds; `None` where nobody has told the
/// kernel (then both clocks read the same, and what is called TAI is UTC).
///
/// # Errors
/// [`Error::System`] where `adjtimex` fails.
pub fn tai_offset() -> Result<Option<i32>, Error> {
    // SAFETY: all zeroes are a valid timex, and mode 0 only reads.
    let mut state: libc::timex = unsafe { zeroed() };
    // SAFETY: the kernel fills one timex.
    if unsafe { libc::adjtimex(&raw mut state) } < 0 {
        return Err(Error::last("adjtimex"));
    }
    Ok((state.tai != 0).then_some(state.tai))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_stays_within_the_stated_error() {
        let to = conversion::<Monotonic, Realtime>();
        let back = conversion::<Realtime, Monotonic>();
        let start = timestamp::<Monotonic>();
        let end = back.convert(to.convert(start));
        let off = start.at.as_nanos().abs_diff(end.at.as_nanos());
        // Beside the bound, time synchronisation may slew by 500 ppm meanwhile, and a busy machine waits long.
        assert!(off <= end.error.0 + 1_000_000, "off by {off} ns, error {}", end.error);
    }

    #[test]
    fn tai_is_the_kernels_offset_from_realtime() {
        let seconds = i64::from(tai_offset().unwrap().unwrap_or(0));
        let measured = conversion::<Realtime, Tai>();
        assert!((measured.offset - seconds * 1_000_000_000).unsigned_abs() <= measured.error.0);
    }

    #[test]
    fn the_narrowest_round_wins_and_disorder_is_none() {
        let i = Instant::<Monotonic>::from_nanos;
        let r = Instant::<Realtime>::from_nanos;
        let best = narrowest([(i(0), r(1_000), i(100)), (i(200), r(1_205), i(210)), (i(9), r(0), i(3))]).unwrap();
        assert_eq!((best.offset, best.error), (1_000, Nanos(5)));
        assert_eq!(narrowest([(i(9), r(0), i(3))]), None);
    }
}
