//! Durations, in whole nanoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// A length of time in nanoseconds; never negative. Reaches 584 years, and saturates there.
///
/// Kept apart from [`std::time::Duration`] because a record holds many of them (8 bytes against 16)
/// and because every `_ns` key of the output is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// From whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// In milliseconds, for plots and text only: a float is never kept as a time.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds, for plots and rates only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, or zero where `other` is larger.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(d: std::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(n: Nanos) -> Self {
        Self::from_nanos(n.0)
    }
}

/// Three significant digits and a unit: `850 ns`, `12.3 µs`, `50.1 ms`, `2.00 s`. Honours width and
/// alignment.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let text = if ns < 1_000 {
            format!("{ns} ns")
        } else {
            // The thresholds sit where rounding to three digits would reach the next unit.
            let (value, unit) = match ns {
                0..=999_499 => (ns as f64 / 1e3, "µs"),
                999_500..=999_499_999 => (ns as f64 / 1e6, "ms"),
                _ => (ns as f64 / 1e9, "s"),
            };
            let decimals = match value {
                v if v < 9.995 => 2,
                v if v < 99.95 => 1,
                _ => 0,
            };
            format!("{value:.decimals$} {unit}")
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_keeps_three_digits_and_changes_unit_after_rounding() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_996, "10.0 µs"),
            (99_960, "100 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (50_123_000, "50.1 ms"),
            (999_600_000, "1.00 s"),
            (61_000_000_000, "61.0 s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(Nanos(u64::MAX) + Nanos(1), Nanos(u64::MAX));
    }
}
