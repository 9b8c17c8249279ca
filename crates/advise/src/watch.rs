//! Whether a setting keeps its promise, look by look.

use serde::Serialize;
use stats::median;

use crate::Applied;

/// So many looks in a row without what was promised are no chance.
pub const BROKEN: u32 = 2;

/// One look at the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Look {
    /// How long a byte took, ns, the median of the connections; `None` without any.
    pub byte_ns: Option<f64>,
    /// Connections that were opened meanwhile.
    pub n: usize,
    /// The change against the time before it was set.
    pub change: Option<f64>,
    /// Whether that is what was promised.
    pub held: Option<bool>,
}

/// What was promised, and how often in a row that was not so.
#[derive(Clone, Debug)]
pub struct Watch {
    applied: Applied,
    broken: u32,
}

impl Watch {
    /// Of a setting that was found to hold.
    pub fn new(applied: Applied) -> Self {
        Self { applied, broken: 0 }
    }

    /// What was set.
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// Takes one more look: how long a byte took, ns, on each connection.
    pub fn look(&mut self, byte_ns: &[f64]) -> Look {
        let took = median(byte_ns);
        let change = took.map(|ns| ns / self.applied.byte_ns[0] - 1.0);
        let held = change.map(|change| self.applied.is_as_promised(change));
        match held {
            Some(true) => self.broken = 0,
            Some(false) => self.broken += 1,
            // Nothing was opened, which says nothing.
            None => {}
        }
        Look { byte_ns: took, n: byte_ns.len(), change, held }
    }

    /// Whether the promise is broken.
    pub fn is_broken(&self) -> bool {
        self.broken >= BROKEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Left;

    #[test]
    fn a_promise_is_broken_by_two_looks_in_a_row() {
        let mut watch = Watch::new(Applied {
            remedy: "a larger receive buffer".into(),
            set: Vec::new(),
            byte_ns: [100.0, 40.0],
            n: [5, 5],
            promised: (-0.6, -0.65, -0.55),
            left: Left::Watched,
        });
        let good = watch.look(&[41.0, 40.0, 90.0]);
        assert_eq!((good.byte_ns, good.n, good.held), (Some(41.0), 3, Some(true)));
        assert!(good.change.is_some_and(|change| (change + 0.59).abs() < 1e-9), "{good:?}");
        assert_eq!(watch.look(&[90.0]).held, Some(false));
        assert!(!watch.is_broken());
        // A good one between, and looks at nothing, which count for neither.
        assert_eq!(watch.look(&[45.0]).held, Some(true));
        watch.look(&[80.0]);
        assert_eq!(watch.look(&[]), Look { byte_ns: None, n: 0, change: None, held: None });
        assert!(!watch.is_broken());
        watch.look(&[80.0]);
        assert!(watch.is_broken());
    }
}
