//! One figure of both sides, and what is known of its change.

use stats::{Estimate, Shifted};

/// A ratio, less 1, above this is no figure: it comes from a handful of values that differ by many
/// times.
const MOST: f64 = 99.0;

/// An interval with ends that are so many times apart says nothing, such as from a fifth to five
/// times.
pub const WIDEST: f64 = 25.0;

/// How a change is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Second less first, in the unit of the figure.
    Difference,
    /// Second over first, less 1.
    Ratio,
}

/// What can be said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second side's figure is surely higher.
    Higher,
    /// It is surely lower.
    Lower,
    /// No difference is seen; [`Change::smallest`] would have been.
    NotSeen,
    /// There are too few values for an interval.
    TooFew,
}

impl Verdict {
    /// Of one value of each side, where such values differ by up to `allowed` anyway.
    pub fn beyond([first, second]: [u64; 2], allowed: u64) -> Self {
        match second {
            second if second > first.saturating_add(allowed) => Self::Higher,
            second if first > second.saturating_add(allowed) => Self::Lower,
            _ => Self::NotSeen,
        }
    }
}

/// One figure of both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Its value in the first side and in the second.
    pub values: [f64; 2],
    /// What `by`, `smallest` and `resolution` are: differences or ratios.
    pub scale: Scale,
    /// The change with its interval and its n; `None` where there are too few values.
    pub by: Option<Estimate>,
    /// The smallest true change that is seen four times in five; `None` where `by` is, and where
    /// the spread is not known.
    pub smallest: Option<f64>,
    /// What is no more than this is rounding.
    pub resolution: f64,
}

impl Change {
    /// Two values without an interval.
    pub fn without_interval(values: [f64; 2], scale: Scale) -> Self {
        Self { values, scale, by: None, smallest: None, resolution: 0.0 }
    }

    /// What can be said of it.
    pub fn verdict(&self) -> Verdict {
        match self.by {
            None => Verdict::TooFew,
            Some(by) if by.covers(0.0) || by.value.abs() <= self.resolution => Verdict::NotSeen,
            Some(by) if by.value > 0.0 => Verdict::Higher,
            Some(_) => Verdict::Lower,
        }
    }

    /// Whether a difference is seen.
    pub fn is_seen(&self) -> bool {
        matches!(self.verdict(), Verdict::Higher | Verdict::Lower)
    }

    /// The second value over the first; `None` where the first is 0.
    pub fn ratio(&self) -> Option<f64> {
        let [first, second] = self.values;
        (first > 0.0).then(|| second / first)
    }

    /// How large it is whichever way it goes: the logarithm of how many times one value is the
    /// other.
    pub fn size(&self) -> f64 {
        let [first, second] = self.values.map(|value| value.max(f64::MIN_POSITIVE).ln());
        (second - first).abs()
    }

    /// The same where rounding may have moved both ends of the interval: they are further out by as
    /// much.
    #[must_use]
    pub fn allowing_for_rounding(self) -> Self {
        Self { by: self.by.map(|by| by.widened(self.resolution)), resolution: 0.0, ..self }
    }
}

impl From<Shifted> for Change {
    fn from(shifted: Shifted) -> Self {
        let values = [shifted.first as f64, shifted.second as f64];
        Self {
            values,
            scale: Scale::Difference,
            by: shifted.shift,
            smallest: shifted.smallest_seen,
            resolution: shifted.resolution(),
        }
    }
}

/// Whether a ratio, less 1, is known at all: its interval is finite, says something, and is no
/// nonsense.
pub fn is_known(ratio: &Estimate) -> bool {
    ratio.value.is_finite() && ratio.high <= MOST && 1.0 + ratio.high <= WIDEST * (1.0 + ratio.low)
}

/// Of the changes that are seen: the one that speaks for all, which is that of the median where it
/// is seen, else the largest.
pub fn largest<T>(all: &[T], change: impl Fn(&T) -> &Change, is_median: impl Fn(&T) -> bool) -> Option<&T> {
    let seen = || all.iter().filter(|one| change(one).is_seen());
    let median = seen().find(|one| is_median(one));
    median.or_else(|| seen().max_by(|a, b| change(a).size().total_cmp(&change(b).size())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Judgement;

    fn change(values: [f64; 2], error: f64) -> Change {
        let by = Judgement::ALONE.around(values[1] - values[0], error, 10);
        Change { by: Some(by), ..Change::without_interval(values, Scale::Difference) }
    }

    #[test]
    fn a_verdict_follows_the_interval_and_never_claims_what_is_rounding() {
        assert_eq!(change([10.0, 30.0], 1.0).verdict(), Verdict::Higher);
        assert_eq!(change([30.0, 10.0], 1.0).verdict(), Verdict::Lower);
        assert_eq!(change([10.0, 11.0], 1.0).verdict(), Verdict::NotSeen);
        assert_eq!(Change { resolution: 25.0, ..change([10.0, 30.0], 1.0) }.verdict(), Verdict::NotSeen);
        assert_eq!(Change { by: None, ..change([10.0, 30.0], 1.0) }.verdict(), Verdict::TooFew);
        let beyond = [[10, 16], [16, 10], [10, 15], [u64::MAX, 0]].map(|values| Verdict::beyond(values, 5));
        assert_eq!(beyond, [Verdict::Higher, Verdict::Lower, Verdict::NotSeen, Verdict::Lower]);
        let rounded = Change { resolution: 25.0, ..change([10.0, 30.0], 1.0) }.allowing_for_rounding();
        assert!(rounded.by.is_some_and(|by| by.covers(0.0)) && !rounded.is_seen());
    }

    #[test]
    fn the_median_speaks_where_it_moved_and_else_what_moved_most() {
        let all = [
            ("p50", change([10.0, 10.5], 1.0)),
            ("p90", change([10.0, 20.0], 1.0)),
            ("p99", change([10.0, 90.0], 1.0)),
        ];
        let main = |all: &[(&'static str, Change)]| largest(all, |c| &c.1, |c| c.0 == "p50").map(|c| c.0);
        assert_eq!(main(&all), Some("p99"));
        let moved = [("p50", change([10.0, 15.0], 1.0)), all[1], all[2]];
        assert_eq!(main(&moved), Some("p50"));
        assert_eq!(main(&all[..1]), None);
    }
}
