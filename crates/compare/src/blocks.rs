//! Trials of one setting in blocks, of two experiments: compared by themselves, and relative to
//! another setting of the same block.

use std::collections::BTreeMap;

use stats::Judgement;

use crate::{Change, Scale};

/// The values of a setting by block.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    logarithms: BTreeMap<u32, f64>,
    unit: f64,
    late: f64,
}

impl Blocks {
    /// `None` below two values, and where one has no logarithm. `unit` is how far the logarithm of
    /// their mean can be off in every trial alike because they are counted in whole units, and
    /// `late` what share of a trial is over before its first byte.
    pub fn new(values: &BTreeMap<u32, f64>, unit: f64, late: f64) -> Option<Self> {
        if values.len() < 2 || values.values().any(|v| *v <= 0.0 || !v.is_finite()) {
            return None;
        }
        Some(Self { logarithms: values.iter().map(|(block, v)| (*block, v.ln())).collect(), unit, late })
    }

    /// How many values there are.
    pub fn n(&self) -> usize {
        self.logarithms.len()
    }

    /// The geometric mean.
    pub fn middle(&self) -> f64 {
        self.mean().map_or(f64::NAN, |(mean, _)| mean.exp())
    }

    /// Its ratios to another setting, block by block: what changes all settings of a block by the
    /// same factor is in none of them. `None` where fewer than two blocks have both.
    pub fn against(&self, base: &Self) -> Option<Self> {
        let both = self.logarithms.iter().filter_map(|(block, v)| Some((*block, v - base.logarithms.get(block)?)));
        let logarithms: BTreeMap<u32, f64> = both.collect();
        (logarithms.len() > 1).then_some(Self { logarithms, unit: self.unit + base.unit, late: self.late - base.late })
    }

    /// Mean of the logarithms, and the square of its standard error.
    fn mean(&self) -> Option<(f64, f64)> {
        let values: Vec<f64> = self.logarithms.values().copied().collect();
        Some((stats::mean(&values)?, stats::deviation(&values)?.powi(2) / values.len() as f64))
    }

    /// What changed to the same setting of another experiment. Trials of two experiments are no
    /// pairs.
    pub fn change_to(&self, other: &Self) -> Option<Unjudged> {
        let ((low, va), (high, vb)) = (self.mean()?, other.mean()?);
        Some(Unjudged {
            values: [low.exp(), high.exp()],
            by: high - low,
            error: (va + vb).sqrt(),
            n: self.n().min(other.n()),
            resolution: self.unit + other.unit + (self.late - other.late).abs(),
        })
    }
}

/// A change that is not judged yet: how many there are decides how wide each interval is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unjudged {
    values: [f64; 2],
    by: f64,
    error: f64,
    /// Trials of the side with fewer. Its degrees of freedom are never more than Welch's.
    n: usize,
    resolution: f64,
}

impl Unjudged {
    /// The ratio with its interval, which what the values are no finer than is part of.
    pub fn judged(self, judgement: Judgement) -> Change {
        let by = judgement.around(self.by, self.error, self.n).widened(self.resolution).map(f64::exp_m1);
        let smallest = judgement.smallest_seen(self.n, self.error) + self.resolution;
        Change {
            by: Some(by),
            smallest: smallest.is_finite().then(|| smallest.exp_m1()),
            ..Change::without_interval(self.values, Scale::Ratio)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(values: [f64; 4]) -> Blocks {
        let by_block: BTreeMap<u32, f64> = (0..).zip(values).collect();
        Blocks::new(&by_block, 0.0, 0.0).unwrap()
    }

    #[test]
    fn what_changes_all_of_a_block_is_not_in_the_ratios_within_blocks() {
        let (base, slow) = (blocks([10.0, 11.0, 9.0, 10.5]), blocks([20.0, 22.0, 18.0, 21.0]));
        // The second experiment is twice as fast as a whole.
        let (other_base, other) = (blocks([20.0, 21.5, 18.5, 21.0]), blocks([40.0, 43.0, 37.0, 42.0]));
        let itself = slow.change_to(&other).unwrap().judged(Judgement::ALONE);
        assert!(itself.is_seen() && itself.by.unwrap().covers(1.0), "{itself:?}");
        let within = slow.against(&base).unwrap().change_to(&other.against(&other_base).unwrap()).unwrap();
        let within = within.judged(Judgement::ALONE);
        assert!(!within.is_seen() && within.by.unwrap().value.abs() < 1e-9, "{within:?}");
    }

    #[test]
    fn what_has_no_logarithm_or_no_spread_is_not_compared() {
        assert_eq!(Blocks::new(&[(0, 1.0)].into(), 0.0, 0.0), None);
        assert_eq!(Blocks::new(&[(0, 1.0), (1, 0.0)].into(), 0.0, 0.0), None);
        let apart = Blocks::new(&[(7, 1.0), (8, 2.0)].into(), 0.0, 0.0).unwrap();
        assert_eq!(apart.against(&blocks([1.0; 4])), None);
    }
}
