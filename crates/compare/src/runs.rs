//! Several runs of each side, each of which is one value: what runs of one setting differ by is the
//! noise.

use stats::{mean_difference, mean_difference_seen};

use crate::{Change, Scale};

/// A figure in each run of the two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// The values.
    pub values: [Vec<f64>; 2],
}

impl Runs {
    /// The geometric mean of a side.
    pub fn middle(&self, side: usize) -> f64 {
        let values = &self.values[side];
        let logarithms = values.iter().map(|value| value.max(1.0).ln()).sum::<f64>();
        (logarithms / values.len().max(1) as f64).exp()
    }

    /// By how much runs of one side differ: the deviation of their logarithms, as a share. `None`
    /// where a value is 0.
    pub fn spread(&self) -> [Option<f64>; 2] {
        self.values.each_ref().map(|side| stats::deviation(&logarithms(side)?).map(f64::exp_m1))
    }

    /// The ratio of the geometric means (Welch's test of the logarithms). Without an interval where
    /// a value is 0, or a side has one run.
    pub fn change(&self, confidence: f64) -> Change {
        let unjudged = Change::without_interval([self.middle(0), self.middle(1)], Scale::Ratio);
        let [Some(first), Some(second)] = self.values.each_ref().map(|side| logarithms(side)) else { return unjudged };
        Change {
            by: mean_difference(&first, &second, confidence).map(|by| by.map(f64::exp_m1)),
            smallest: mean_difference_seen(&first, &second, confidence).map(f64::exp_m1),
            ..unjudged
        }
    }
}

fn logarithms(side: &[f64]) -> Option<Vec<f64>> {
    side.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_ratio_of_the_middles_and_the_smallest_is_beyond_half_the_interval() {
        let runs = Runs { values: [vec![9e6, 10e6, 11e6], vec![18e6, 20e6, 22e6]] };
        let change = runs.change(0.95);
        let by = change.by.unwrap();
        assert!((by.value - 1.0).abs() < 1e-9 && change.is_seen(), "{change:?}");
        assert!((change.ratio().unwrap() - 2.0).abs() < 1e-9);
        let reach = by.high.ln_1p() - by.value.ln_1p();
        assert!(change.smallest.unwrap().ln_1p() > reach, "{change:?}");
        assert!(runs.spread().iter().all(|spread| (0.05..0.2).contains(&spread.unwrap())));
        let none = Runs { values: [vec![0.0, 1.0], vec![1.0, 2.0]] };
        assert_eq!((none.change(0.95).by, none.spread()[0]), (None, None));
    }
}
