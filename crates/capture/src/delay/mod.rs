//! The delay of a device, from frames that a tap before it and a tap behind it have seen.

mod figures;
mod identity;
mod matching;

pub use figures::{Change, Figures, Recording, Stretch};
pub use identity::{Identity, Key};
pub use matching::{Account, Match, Matcher, Tap};
