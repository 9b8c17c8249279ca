//! Two times in an impossible order.

use std::fmt;

use crate::Nanos;

/// A later stage has an earlier time: impossible, so it is counted and no duration is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disorder {
    /// By how much the later stage precedes the earlier one.
    pub by: Nanos,
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the later stage has a time {} before the earlier one", self.by)
    }
}

impl std::error::Error for Disorder {}
