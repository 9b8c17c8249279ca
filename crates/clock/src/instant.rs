//! Clocks, and times that know which clock they were read from.

use std::fmt;
use std::marker::PhantomData;

use crate::{Disorder, Nanos};

mod sealed {
    pub trait Sealed {}
}

/// A clock, as a type: two [`Instant`]s of different clocks do not subtract.
///
/// ```compile_fail
/// use clock::{Instant, Monotonic, Realtime};
/// let sent = Instant::<Monotonic>::from_nanos(1);
/// let captured = Instant::<Realtime>::from_nanos(2);
/// let _ = captured.since(sent); // a `Conversion` has to come first
/// ```
pub trait Clock: sealed::Sealed + Copy + Eq + Ord + std::hash::Hash + fmt::Debug + 'static {
    /// What the clock is called in output: `monotonic`, `realtime`, `tai`, `phc`.
    const NAME: &'static str;
}

macro_rules! clocks {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {}
        impl sealed::Sealed for $name {}
        impl Clock for $name {
            const NAME: &'static str = $text;
        }
    )*};
}

clocks! {
    /// `CLOCK_MONOTONIC`: what `bpf_ktime_get_ns()` reads. Every stage of a trace is on it.
    Monotonic = "monotonic";
    /// `CLOCK_REALTIME`, nanoseconds since 1970: socket software stamps and capture files.
    Realtime = "realtime";
    /// `CLOCK_TAI`.
    Tai = "tai";
    /// The hardware clock of one network interface: a PTP hardware clock (`/dev/ptpN`).
    Phc = "phc";
}

/// A moment on clock `C`, in nanoseconds since that clock's epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant<C> {
    nanos: u64,
    clock: PhantomData<C>,
}

impl<C: Clock> Instant<C> {
    /// A moment `nanos` after the clock's epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos, clock: PhantomData }
    }

    /// Nanoseconds since the clock's epoch.
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// The time from `earlier` to this moment.
    ///
    /// # Errors
    /// [`Disorder`] where `earlier` is the later one: the caller counts it, nothing wraps.
    pub fn since(self, earlier: Self) -> Result<Nanos, Disorder> {
        self.nanos
            .checked_sub(earlier.nanos)
            .map(Nanos)
            .ok_or_else(|| Disorder { by: Nanos(earlier.nanos - self.nanos) })
    }

    /// The time from `earlier` to this moment, zero where `earlier` is the later one: for deadlines
    /// and waits. A duration that is reported is taken with [`Instant::since`], so that a disorder
    /// is counted.
    pub fn saturating_since(self, earlier: Self) -> Nanos {
        Nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// The moment `by` later; stays at the end of the clock's range.
    #[must_use]
    pub fn after(self, by: Nanos) -> Self {
        Self::from_nanos(self.nanos.saturating_add(by.0))
    }
}

/// In records: nanoseconds since the clock's epoch. The key names the clock.
impl<'de, C: Clock> serde::Deserialize<'de> for Instant<C> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_nanos)
    }
}

impl<C: Clock> serde::Serialize for Instant<C> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.nanos)
    }
}

impl<C: Clock> fmt::Debug for Instant<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns {}", self.nanos, C::NAME)
    }
}

/// Who wrote a timestamp down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The kernel, in software.
    Kernel,
    /// The NIC.
    Nic,
    /// A capture file, written by somebody else's clock.
    CaptureFile,
    /// A program, around its own system call.
    User,
}

/// A moment with who took it and how far off it can be: the true time lies within `at ± error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp<C: Clock> {
    /// The reading.
    pub at: Instant<C>,
    /// Who took it.
    pub source: Source,
    /// The bound on its error, to either side.
    pub error: Nanos,
}

/// How to read a moment of clock `A` on clock `B`: an offset that was measured, with its error.
///
/// The drift since the measurement is not in it; measure again for long runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion<A, B> {
    /// `B − A` in nanoseconds.
    pub offset: i64,
    /// The bound on the error of `offset`, to either side: half of what it took to read the other
    /// clock.
    pub error: Nanos,
    clocks: PhantomData<(A, B)>,
}

impl<A: Clock, B: Clock> Conversion<A, B> {
    /// From an offset `B − A` known to within `error`.
    pub const fn new(offset: i64, error: Nanos) -> Self {
        Self { offset, error, clocks: PhantomData }
    }

    /// From one reading of `B` between two of `A`: the offset to the middle, with half the span as
    /// its error.
    ///
    /// # Errors
    /// [`Disorder`] where `after` is before `before`.
    pub fn from_bracket(before: Instant<A>, on_b: Instant<B>, after: Instant<A>) -> Result<Self, Disorder> {
        let span = after.since(before)?;
        let middle = before.nanos + span.0 / 2;
        let offset = (i128::from(on_b.nanos) - i128::from(middle)).clamp(i64::MIN.into(), i64::MAX.into());
        Ok(Self::new(offset as i64, Nanos(span.0.div_ceil(2))))
    }

    /// The same offset the other way round.
    #[must_use]
    pub const fn inverse(self) -> Conversion<B, A> {
        Conversion::new(self.offset.saturating_neg(), self.error)
    }

    /// This conversion and then `next`, as one; the errors add up.
    #[must_use]
    pub fn then<C: Clock>(self, next: Conversion<B, C>) -> Conversion<A, C> {
        Conversion::new(self.offset.saturating_add(next.offset), self.error + next.error)
    }

    /// The moment on clock `B`; its error is the reading's and the offset's together.
    pub fn convert(&self, from: Timestamp<A>) -> Timestamp<B> {
        Timestamp {
            at: Instant::from_nanos(from.at.nanos.saturating_add_signed(self.offset)),
            source: from.source,
            error: from.error + self.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bracket_gives_the_middle_and_half_the_span() {
        let c: Conversion<Monotonic, Realtime> =
            Conversion::from_bracket(Instant::from_nanos(100), Instant::from_nanos(1_005), Instant::from_nanos(110))
                .unwrap();
        assert_eq!((c.offset, c.error), (900, Nanos(5)));
        let sent = Timestamp { at: Instant::from_nanos(50), source: Source::Kernel, error: Nanos(1) };
        let on_real = c.convert(sent);
        assert_eq!((on_real.at.as_nanos(), on_real.error), (950, Nanos(6)));
    }

    #[test]
    fn conversions_chain_and_turn_round() {
        let a: Conversion<Phc, Realtime> = Conversion::new(-37, Nanos(2));
        let b: Conversion<Realtime, Monotonic> = Conversion::new(-1_000, Nanos(3));
        let both = a.then(b);
        assert_eq!((both.offset, both.error), (-1_037, Nanos(5)));
        assert_eq!((both.inverse().offset, both.inverse().error), (1_037, Nanos(5)));
    }

    proptest! {
        #[test]
        fn since_is_exact_or_a_disorder(a: u64, b: u64) {
            let (x, y) = (Instant::<Monotonic>::from_nanos(a), Instant::<Monotonic>::from_nanos(b));
            match y.since(x) {
                Ok(d) => prop_assert_eq!(x.after(d), y),
                Err(e) => prop_assert_eq!(y.after(e.by), x),
            }
        }

        #[test]
        fn brackets_never_panic(a: u64, b: u64, c: u64) {
            let _ = Conversion::<Monotonic, Realtime>::from_bracket(
                Instant::from_nanos(a), Instant::from_nanos(b), Instant::from_nanos(c));
        }
    }
}
