//! What share of the sends is looked at, as asked for and as it came out.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::Nanos;

/// `1/N`: one in `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(pub NonZeroU32);

impl Ratio {
    /// Everything.
    pub const ALL: Self = Self(NonZeroU32::MIN);

    /// The ratio as a number in (0, 1].
    pub fn share(self) -> f64 {
        1.0 / f64::from(self.0.get())
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1/{}", self.0)
    }
}

/// A ratio that is not of the form `1/N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSamplingError(String);

impl fmt::Display for ParseSamplingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a sampling ratio: write 1/N, N a whole number from 1 to {}", self.0, u32::MAX)
    }
}

impl std::error::Error for ParseSamplingError {}

impl FromStr for Ratio {
    type Err = ParseSamplingError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix("1/").and_then(|n| n.parse().ok()).map(Self).ok_or_else(|| ParseSamplingError(text.into()))
    }
}

/// How sends are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Every send of every target connection.
    Every,
    /// By arming: a share of the time on each connection, in short windows placed at random. The cost goes down with it.
    Windows(Ratio),
    /// By drawing for each send: exact in number, but an armed socket pays for its callbacks all the same.
    Draws(Ratio),
}

/// What share was really seen: by time, and by the bytes that TCP itself counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Time for which connections were followed, summed over them.
    pub followed: Nanos,
    /// Of this, the time for which they were armed.
    pub armed: Nanos,
    /// Bytes written on these connections, by TCP's own counters.
    pub bytes_written: u64,
    /// Of these, the bytes written while armed.
    pub bytes_armed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_read_back_as_written_and_refuse_the_rest() {
        assert_eq!("1/100".parse::<Ratio>().unwrap().to_string(), "1/100");
        for bad in ["", "1", "1/0", "2/3", "1/-1", "1/4294967296", "0.01"] {
            assert!(bad.parse::<Ratio>().unwrap_err().to_string().contains("1/N"), "{bad}");
        }
    }
}
