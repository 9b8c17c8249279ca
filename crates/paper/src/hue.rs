//! Colours by their role.

use serde::Serialize;

/// A colour by its role in the plot: an index into a palette that people with any kind of colour
/// vision can distinguish (Okabe and Ito 2008). Every renderer has it for light paper, browsers
/// also for dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Hue(pub u8);

impl Hue {
    /// How many hues there are.
    pub const COUNT: u8 = 12;

    /// Lines that are there to compare with: predictions, references, grids of blocks.
    pub const NEUTRAL: Self = Self(6);

    /// The hue of the nth of several series.
    pub const fn nth(n: usize) -> Self {
        Self((n % 6) as u8)
    }

    /// Its colour in the sixteen of a terminal's own palette, by their usual numbers; none: the
    /// colour of plain text.
    pub const fn on_terminal(self) -> Option<u8> {
        match self.0 % Self::COUNT {
            0 => Some(4),
            1 => Some(6),
            2 => Some(2),
            3 => Some(5),
            4 => Some(3),
            5 => Some(1),
            7 => Some(13),
            8 => Some(12),
            9 => Some(14),
            10 => Some(10),
            11 => Some(9),
            _ => None,
        }
    }
}
