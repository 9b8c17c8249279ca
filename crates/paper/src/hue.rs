//! Colours by their role.

use serde::Serialize;

/// A colour by its role in the plot: an index into a palette that people with any kind of colour vision can distinguish
/// (Okabe and Ito 2008). Every renderer has it for light paper, browsers also for dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Hue(pub u8);

impl Hue {
    /// Lines that are there to compare with: predictions, references, grids of blocks.
    pub const NEUTRAL: Self = Self(6);

    /// The hue of the nth of several series.
    pub const fn nth(n: usize) -> Self {
        Self((n % 6) as u8)
    }
}
