//! The figures that verdicts and findings promise, each within bounds that follow from the packets.
//!
//! A claim that breaks its bounds is a mistake of a rule: it is not printed, and counted, and tests
//! hold the count at 0.

use std::cell::Cell;
use std::fmt;

use record::Nanos;

use crate::rtt::least_queue;

/// Claims that broke their bounds.
#[derive(Debug, Default)]
pub(crate) struct Claims(Cell<u32>);

/// Less than this of a rate or a time is rounding.
const ROUNDING: f64 = 1e-3;

impl Claims {
    /// A claim where it `holds`.
    pub(crate) fn checked<T>(&self, claim: T, holds: bool) -> Option<T> {
        if !holds {
            self.0.set(self.0.get().saturating_add(1));
        }
        holds.then_some(claim)
    }

    /// How many broke their bounds.
    pub(crate) fn broken(&self) -> u32 {
        self.0.get()
    }
}

/// What bounds the duration that a transfer is promised to take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Transfer {
    /// How long it took.
    pub(crate) took: Nanos,
    pub(crate) bytes: u64,
    /// The connection was opened: an attempt that failed has no duration that a remedy shortens.
    pub(crate) opened: bool,
    /// The highest rate that was held for a second, bit/s; `None` where too little was sent to
    /// tell.
    pub(crate) held: Option<f64>,
    /// The highest rate of a burst, likewise.
    pub(crate) burst: Option<f64>,
    /// What the handshake and the round trips that no remedy takes away need.
    pub(crate) trips: Nanos,
}

/// Transfers of less than this are over before a rate says anything, bits.
const RATED: f64 = 800_000.0;
/// What goes on for longer has a second in which it was as fast as it can be, if it ever was.
const LONG: Nanos = Nanos(2_000_000_000);

impl Transfer {
    /// The least that it can be promised to take: what its bytes need at the highest rate that was
    /// held, where it lasted long enough to hold one, and at that of a burst where it did not.
    pub(crate) fn least(&self) -> Nanos {
        let bits = self.bytes as f64 * 8.0;
        let rate = if bits >= RATED && self.took >= LONG { self.held } else { self.burst };
        let sending = rate.map_or(0.0, |rate| bits / rate.max(1.0) * 1e9);
        Nanos(sending as u64).max(self.trips)
    }

    /// The most that a remedy which takes away `cost` saves; none where nothing shows what would be
    /// left.
    pub(crate) fn at_most(&self, cost: Nanos) -> Nanos {
        let saved = cost.min(self.took.saturating_sub(self.least()));
        if self.opened && saved < self.took { saved } else { Nanos::ZERO }
    }
}

/// That a connection would be over sooner: `2.10 s instead of 4.20 s, 32.0 Mbit/s instead of 16.0
/// Mbit/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Promise {
    then: Nanos,
    now: Nanos,
    /// Bit/s, then and now.
    rates: Option<(f64, f64)>,
}

impl Promise {
    /// That a transfer takes so much less. `None` where it breaks its bounds.
    pub(crate) fn of(claims: &Claims, t: &Transfer, saved: Nanos) -> Option<Self> {
        let then = t.took.saturating_sub(saved);
        let bits = t.bytes as f64 * 8.0;
        let rate = |time: Nanos| bits / time.as_secs_f64().max(1e-9);
        // No rate is promised that was not held for a second.
        let was_held = t.held.is_some_and(|held| rate(then) <= held * (1.0 + ROUNDING));
        let rates = (bits >= RATED && was_held).then(|| (rate(then), rate(t.took)));
        let long_enough = then.0 as f64 * (1.0 + ROUNDING) + 1.0 >= t.least().0 as f64;
        claims.checked(Self { then, now: t.took, rates }, t.opened && then.0 > 0 && saved <= t.took && long_enough)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection would take {} instead of {}", self.then, self.now)?;
        match self.rates {
            Some((then, now)) => {
                write!(f, ", {} instead of {}", quantity::bit_rate(then), quantity::bit_rate(now))
            }
            None => Ok(()),
        }
    }
}

/// Times of one kind: how many, all of them and the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) total: Nanos,
    pub(crate) longest: Nanos,
}

impl Times {
    /// The longest is no longer than all together, and no shorter than their mean.
    pub(crate) fn checked(self, claims: &Claims) -> Option<Self> {
        let holds = self.longest <= self.total && self.longest.0.saturating_mul(self.count) >= self.total.0;
        claims.checked(self, holds)
    }
}

/// A round trip as data usually have it, and at rest: where it is much longer, a queue is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    usual: Nanos,
    rest: Nanos,
}

impl RoundTrip {
    /// `None` where not even the shortest is known to be as short as the usual one.
    pub(crate) fn of(claims: &Claims, usual: Nanos, rest: Option<Nanos>) -> Option<Self> {
        let rest = rest.unwrap_or(usual);
        claims.checked(Self { usual, rest: rest.min(usual) }, usual.0 > 0 || rest.0 == 0)
    }

    /// As data usually have it.
    pub(crate) fn usual(&self) -> Nanos {
        self.usual
    }
}

impl fmt::Display for RoundTrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.usual)?;
        if self.usual.0 - self.rest.0 > least_queue(self.rest.0) {
            write!(f, " ({} at rest, and {} in a queue)", self.rest, self.usual.saturating_sub(self.rest))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn transfer() -> Transfer {
        Transfer {
            took: Nanos(4_000 * MS),
            bytes: 1_000_000,
            opened: true,
            held: Some(4e6),
            burst: Some(1e9),
            trips: Nanos(20 * MS),
        }
    }

    #[test]
    fn no_more_is_promised_than_the_highest_rate_that_was_held() {
        let t = transfer();
        assert_eq!(t.at_most(Nanos(3_900 * MS)), Nanos(2_000 * MS));
        let claims = Claims::default();
        let promise = Promise::of(&claims, &t, t.at_most(Nanos(3_900 * MS))).unwrap();
        assert_eq!(
            promise.to_string(),
            "the connection would take 2.00 s instead of 4.00 s, 4.00 Mbit/s instead of 2.00 Mbit/s"
        );
        assert_eq!(claims.broken(), 0);
        assert_eq!(Promise::of(&claims, &t, Nanos(3_000 * MS)), None);
        assert_eq!(claims.broken(), 1);
    }

    #[test]
    fn what_is_short_is_bounded_by_a_burst_and_promises_no_rate() {
        let t = Transfer { took: Nanos(1_000 * MS), burst: Some(40e6), ..transfer() };
        assert_eq!(t.at_most(t.took), Nanos(800 * MS));
        let promise = Promise::of(&Claims::default(), &t, Nanos(800 * MS)).unwrap();
        assert_eq!(promise.to_string(), "the connection would take 200 ms instead of 1.00 s");
        let few = Transfer { bytes: 100, held: None, burst: None, ..t };
        assert_eq!(few.at_most(few.took), Nanos(980 * MS), "the round trips remain");
    }

    #[test]
    fn an_attempt_that_failed_promises_no_duration() {
        let t = Transfer { opened: false, ..transfer() };
        assert_eq!(t.at_most(t.took), Nanos::ZERO);
        let claims = Claims::default();
        assert_eq!((Promise::of(&claims, &t, Nanos(5)), claims.broken()), (None, 1));
    }

    #[test]
    fn the_longest_is_no_shorter_than_the_mean() {
        let claims = Claims::default();
        let times = Times { count: 10, total: Nanos(20_500), longest: Nanos(281) };
        assert_eq!((times.checked(&claims), claims.broken()), (None, 1));
        assert!(Times { count: 100, ..times }.checked(&claims).is_some());
        assert!(Times { count: 1, total: Nanos(5), longest: Nanos(6) }.checked(&claims).is_none());
    }

    #[test]
    fn a_round_trip_above_that_at_rest_names_a_queue() {
        let claims = Claims::default();
        let text = |usual, rest| RoundTrip::of(&claims, Nanos(usual), rest).map(|r| r.to_string());
        assert_eq!(text(24 * MS, Some(Nanos(20 * MS))).as_deref(), Some("24.0 ms"));
        assert_eq!(
            text(80 * MS, Some(Nanos(20 * MS))).as_deref(),
            Some("80.0 ms (20.0 ms at rest, and 60.0 ms in a queue)")
        );
        assert_eq!(claims.broken(), 0);
    }
}
