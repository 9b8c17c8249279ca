//! Series over time of a study's combinations.

use record::trial::Response;
use std::collections::BTreeMap;

use record::Nanos;
use serde::{Deserialize, Serialize};

/// Lines over time that belong together, on one scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Which plan of the study, from 0.
    #[serde(default)]
    pub plan: usize,
    /// What it shows.
    pub title: String,
    /// The response; the values have its unit.
    pub response: Response,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line: the mean over trials at each moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Which combination, or which way.
    pub name: String,
    /// Moments since the trial's beginning.
    pub at_ns: Vec<Nanos>,
    /// A value for each.
    pub values: Vec<f64>,
    /// Trials that it is the mean of.
    pub n: usize,
}

impl Line {
    /// The mean of the trials' points, in slots of this width.
    pub fn mean(name: &str, slot: Nanos, trials: impl Iterator<Item = Vec<(Nanos, f64)>>) -> Self {
        let mut slots: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        let mut n = 0;
        for points in trials.filter(|p| !p.is_empty()) {
            n += 1;
            for (at, value) in points {
                let (sum, count) = slots.entry(at.0 / slot.0.max(1)).or_default();
                *sum += value;
                *count += 1.0;
            }
        }
        let (at_ns, values) =
            slots.into_iter().map(|(number, (sum, count))| (Nanos(number * slot.0), sum / count)).unzip();
        Self { name: name.into(), at_ns, values, n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_mean_over_the_trials_that_have_points() {
        let trials = [vec![(Nanos(0), 10e6), (Nanos(100), 20e6)], vec![(Nanos(0), 30e6)], Vec::new()];
        let line = Line::mean("on", Nanos(100), trials.into_iter());
        assert_eq!(
            (line.at_ns.as_slice(), line.values.as_slice(), line.n),
            (&[Nanos(0), Nanos(100)][..], &[20e6, 20e6][..], 2)
        );
    }
}
