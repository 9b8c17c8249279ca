//! The system's clocks, and the offsets between them with their error.

use std::mem::zeroed;

use clock::{Clock, Conversion, Instant, Monotonic, Nanos, Realtime, Source, Tai, Timestamp};
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

use crate::Error;

/// A clock of the system, which `clock_gettime` reads.
pub trait SystemClock: Clock {
    /// Reads it.
    fn now() -> Instant<Self>;
}

impl SystemClock for Realtime {
    fn now() -> Instant<Self> {
        since_epoch(clock_gettime(ClockId::Realtime))
    }
}

impl SystemClock for Monotonic {
    fn now() -> Instant<Self> {
        since_epoch(clock_gettime(ClockId::Monotonic))
    }
}

impl SystemClock for Tai {
    fn now() -> Instant<Self> {
        // Every kernel since 3.10 has it.
        clock_gettime_dynamic(DynamicClockId::Tai).map_or(Instant::from_nanos(0), since_epoch)
    }
}

/// A reading of a clock that is never before its epoch.
fn since_epoch<C: Clock>(time: Timespec) -> Instant<C> {
    instant(time).unwrap_or(Instant::from_nanos(0))
}

/// Reads clock `C`.
pub fn now<C: SystemClock>() -> Instant<C> {
    C::now()
}

/// Reads clock `C` as a timestamp taken by the program, exact to the clock's unit.
pub fn timestamp<C: SystemClock>() -> Timestamp<C> {
    Timestamp { at: now(), source: Source::User, error: Nanos(1) }
}

/// The kernel's form of an instant; `None` before the clock's epoch.
pub(crate) fn instant<C: Clock>(time: Timespec) -> Option<Instant<C>> {
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    Some(Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)))
}

/// Rounds of reading before the narrowest is taken: an interrupted one is wide.
const ROUNDS: usize = 8;

/// The offset from clock `A` to clock `B`, measured this moment: `B` read between two readings of
/// `A`, the narrowest of a few rounds. Its error is half of that width. What the clocks drift, or
/// are set, afterwards is not in it.
///
/// ```
/// use timestamping::{Monotonic, Realtime, conversion, timestamp};
/// let to_realtime = conversion::<Monotonic, Realtime>();
/// let stamp = to_realtime.convert(timestamp::<Monotonic>());
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

/// How far `CLOCK_TAI` is from `CLOCK_REALTIME` by the kernel's own record, in seconds; `None`
/// where no program has set it (then both clocks read the same, and what is called TAI is UTC).
///
/// # Errors
/// [`Error::System`] where `adjtimex` fails.
pub fn tai_offset() -> Result<Option<i32>, Error> {
    // SAFETY: all zeroes are a valid timex, and mode 0 only reads.
    let mut state: libc::timex = unsafe { zeroed() };
    // SAFETY: the kernel fills one timex. rustix has no adjtimex.
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
        // Beside the bound, time synchronisation may slew by 500 ppm meanwhile, and a busy machine
        // waits long.
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
