//! One in N.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::error::{Kind, Problem, Wrong};

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

impl FromStr for Ratio {
    type Err = Wrong;
    fn from_str(text: &str) -> Result<Self, Wrong> {
        parse(text)
    }
}

/// Reads `1/100`, N a whole number from 1 to 4 294 967 295.
///
/// # Errors
/// Everything else.
pub fn parse(text: &str) -> Result<Ratio, Wrong> {
    let text = text.trim();
    let wrong = |problem| Kind::Ratio.wrong(problem);
    if text.is_empty() {
        return Err(wrong(Problem::Empty));
    }
    let found = text.strip_prefix("1/").and_then(|n| n.parse().ok()).map(Ratio);
    found.ok_or_else(|| wrong(Problem::NotARatio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ratios_read_back_as_written_and_refuse_the_rest() {
        assert_eq!("1/100".parse::<Ratio>().unwrap().to_string(), "1/100");
        for bad in ["", "1", "1/0", "2/3", "1/-1", "1/4294967296", "0.01"] {
            assert!(bad.parse::<Ratio>().unwrap_err().to_string().contains("1/N"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}|1/[0-9]{0,12}") {
            let _ = parse(&text);
        }
    }
}
