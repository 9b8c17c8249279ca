//! Ethernet as a link charges for it: bits a second, and what each packet costs beside its own
//! bytes.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// Bytes that Ethernet puts round an IP packet on the wire: header 14, check sequence 4, preamble
/// and start 8, gap 12.
pub const ETHERNET_OVERHEAD: u32 = 38;

/// The fewest bytes a frame takes on the wire: 64, and preamble, start and gap.
pub const SMALLEST_ON_WIRE: u32 = 84;

/// Bits a second. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitRate(pub NonZeroU64);

impl BitRate {
    /// From bits a second, or `None` for zero.
    pub fn new(bits_per_second: u64) -> Option<Self> {
        NonZeroU64::new(bits_per_second).map(Self)
    }

    /// From whole Mbit/s, at least one.
    pub const fn mbit(n: u32) -> Self {
        let n = if n == 0 { 1 } else { n as u64 * 1_000_000 };
        match NonZeroU64::new(n) {
            Some(rate) => Self(rate),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// Bits a second.
    pub const fn bits(self) -> u64 {
        self.0.get()
    }
}
