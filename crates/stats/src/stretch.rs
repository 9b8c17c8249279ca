//! Two long runs set side by side, where neighbouring values depend on each other.
//!
//! Values that follow one another on a network are alike: a queue stands for a while. A bootstrap
//! that draws values one by one would take them for independent and give intervals that are far too
//! narrow. So whole stretches of a run are drawn (Künsch 1989, without overlap): what lasts less
//! than a stretch is in the interval.

use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use statrs::distribution::ContinuousCDF as _;

use crate::bootstrap::{Estimate, Method, generator, normal};
use crate::sample::{deviation, quantile_of_sorted};
use crate::{Distribution, Quantile};

/// Fewer stretches than this on either side give no interval.
pub const FEWEST_STRETCHES: usize = 10;

/// Fewer values than this expected beyond a quantile give no interval: the bootstrap of a tail that
/// is hardly there does not cover.
pub const FEWEST_BEYOND: f64 = 10.0;

const RESAMPLES: usize = 400;

/// What a difference has to be in standard errors to be seen four times in five at 95 %: 1.96 +
/// 0.84.
const SEEN_FOUR_IN_FIVE: f64 = 2.8;

/// A quantile of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shifted {
    /// Of the first run.
    pub first: u64,
    /// Of the second.
    pub second: u64,
    /// Second less first; `None` where there are too few stretches, or values beyond the quantile.
    pub shift: Option<Estimate>,
    /// The smallest shift that these runs show four times in five; `None` where `shift` is.
    pub smallest_seen: Option<f64>,
}

impl Shifted {
    /// Whether there is a difference: the interval excludes zero, and it is no rounding.
    pub fn seen(&self) -> bool {
        self.shift.is_some_and(|e| !e.covers(0.0) && e.value.abs() > self.resolution())
    }

    /// What the distributions do not distinguish: a shift that is no larger is rounding.
    pub fn resolution(&self) -> f64 {
        resolution(self.first.max(self.second))
    }

    /// The same as one of so many comparisons that are judged together: its interval is as much
    /// wider as it takes for all of them to hold with the confidence of one (Bonferroni), by the
    /// normal distribution, since too few stretches are drawn for percentiles so far out.
    #[must_use]
    pub fn one_of(self, comparisons: usize) -> Self {
        let Some(shift) = self.shift else { return self };
        let tail = (1.0 - shift.confidence) / 2.0;
        let reach = |tail: f64| normal().inverse_cdf(1.0 - tail);
        let together = reach(tail / comparisons.max(1) as f64);
        let wider = |end: f64| shift.value + (end - shift.value) * together / reach(tail);
        let shift = Estimate { low: wider(shift.low), high: wider(shift.high), ..shift };
        let smallest_seen =
            self.smallest_seen.map(|least| least * (together + SEEN_FOUR_IN_FIVE - reach(0.025)) / SEEN_FOUR_IN_FIVE);
        Self { shift: Some(shift), smallest_seen, ..self }
    }
}

/// How finely a distribution distinguishes values (see [`crate::Precision::Fine`]).
fn resolution(value: u64) -> f64 {
    (value as f64 / 1e3).max(1.0)
}

/// One run's stretches, each as counts of the values that the run has.
struct Counts {
    values: Vec<u64>,
    stretches: Vec<Vec<(u32, u64)>>,
}

impl Counts {
    fn of(stretches: &[&Distribution]) -> Self {
        let mut values: Vec<u64> = stretches.iter().flat_map(|d| d.values().map(|v| v.0)).collect();
        values.sort_unstable();
        values.dedup();
        let index = |value: u64| values.binary_search(&value).map_or(0, |i| i as u32);
        let stretches = stretches.iter().map(|d| d.values().map(|(v, n)| (index(v), n)).collect()).collect();
        Self { values, stretches }
    }

    /// The quantiles of as many stretches as there are, drawn from all of them.
    fn draw(&self, rng: &mut rand_pcg::Pcg64Mcg, shares: &[Quantile], sums: &mut Vec<u64>, into: &mut [Vec<f64>]) {
        sums.clear();
        sums.resize(self.values.len(), 0);
        for _ in 0..self.stretches.len() {
            for &(i, n) in &self.stretches[rng.random_range(0..self.stretches.len())] {
                sums[i as usize] += n;
            }
        }
        let n: u64 = sums.iter().sum();
        for (share, replicates) in shares.iter().zip(into) {
            let rank = ((n as f64 * share.share()).ceil() as u64).max(1);
            let mut below = 0;
            let at = sums.iter().position(|count| {
                below += count;
                below >= rank
            });
            replicates.push(at.map_or(f64::NAN, |i| self.values[i] as f64));
        }
    }
}

/// By how much each quantile of the second run lies above that of the first. `first` and `second`
/// are the runs' stretches in their order, all of about the same number of values. A quantile that
/// too few values carry is `None`.
pub fn shifts(
    first: &[&Distribution],
    second: &[&Distribution],
    quantiles: &[Quantile],
    confidence: f64,
    seed: u64,
) -> Vec<Option<Shifted>> {
    let whole = |stretches: &[&Distribution]| {
        let mut all = Distribution::new(crate::Precision::Fine);
        stretches.iter().for_each(|d| all.merge(d));
        all
    };
    let (a, b) = (whole(first), whole(second));
    let mut replicates = [vec![Vec::new(); quantiles.len()], vec![Vec::new(); quantiles.len()]];
    let enough = first.len().min(second.len()) >= FEWEST_STRETCHES && a.n().min(b.n()) > 0;
    if enough {
        let (mut rng, mut sums) = (generator(seed), Vec::new());
        for (stretches, into) in [first, second].into_iter().zip(&mut replicates) {
            let counts = Counts::of(stretches);
            (0..RESAMPLES).for_each(|_| counts.draw(&mut rng, quantiles, &mut sums, into));
        }
    }
    let beyond = |n: u64, q: Quantile| n as f64 * (1.0 - q.share()).min(q.share());
    let mut found = Vec::with_capacity(quantiles.len());
    for (i, &q) in quantiles.iter().enumerate() {
        let Some((of_a, of_b)) = a.quantile(q).zip(b.quantile(q)) else {
            found.push(None);
            continue;
        };
        let differences: Vec<f64> = replicates[1][i].iter().zip(&replicates[0][i]).map(|(b, a)| b - a).collect();
        let carried = enough && beyond(a.n().min(b.n()), q) >= FEWEST_BEYOND;
        let shift = carried
            .then(|| interval(of_b as f64 - of_a as f64, differences.clone(), confidence, first.len() + second.len()));
        let smallest = deviation(&differences).map(|s| (SEEN_FOUR_IN_FIVE * s).max(resolution(of_a)));
        found.push(Some(Shifted {
            first: of_a,
            second: of_b,
            shift: shift.flatten(),
            smallest_seen: smallest.filter(|_| carried),
        }));
    }
    found
}

/// By how much the mean of the second run lies above that of the first: `first` and `second` hold
/// sum and number of values of each stretch. `None` below [`FEWEST_STRETCHES`].
pub fn mean_shift(first: &[(f64, u64)], second: &[(f64, u64)], confidence: f64, seed: u64) -> Option<Estimate> {
    let mean = |of: &mut dyn Iterator<Item = (f64, u64)>| {
        let (sum, n) = of.fold((0.0, 0u64), |(sum, n), (s, m)| (sum + s, n + m));
        if n > 0 { sum / n as f64 } else { f64::NAN }
    };
    if first.len().min(second.len()) < FEWEST_STRETCHES {
        return None;
    }
    let mut rng = generator(seed);
    let mut drawn = |of: &[(f64, u64)]| mean(&mut (0..of.len()).map(|_| of[rng.random_range(0..of.len())]));
    let differences = (0..RESAMPLES).map(|_| drawn(second) - drawn(first)).collect();
    let value = mean(&mut second.iter().copied()) - mean(&mut first.iter().copied());
    interval(value, differences, confidence, first.len() + second.len())
}

/// The interval of a figure of one run: `of` gives it for stretches that are drawn, by their
/// numbers from 0 to `stretches`; `value` is that of the run itself. `None` below
/// [`FEWEST_STRETCHES`].
pub fn stretched(
    value: f64,
    stretches: usize,
    confidence: f64,
    seed: u64,
    of: impl Fn(&[usize]) -> f64,
) -> Option<Estimate> {
    if stretches < FEWEST_STRETCHES {
        return None;
    }
    let mut rng = generator(seed);
    let figures = (0..RESAMPLES)
        .map(|_| of(&(0..stretches).map(|_| rng.random_range(0..stretches)).collect::<Vec<_>>()))
        .collect();
    interval(value, figures, confidence, stretches)
}

fn interval(value: f64, mut differences: Vec<f64>, confidence: f64, n: usize) -> Option<Estimate> {
    differences.retain(|d| d.is_finite());
    differences.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    let low = quantile_of_sorted(&differences, tail)?.min(value);
    let high = quantile_of_sorted(&differences, 1.0 - tail)?.max(value);
    Some(Estimate { value, low, high, confidence, n, method: Method::Percentile })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;

    /// Forty stretches of 50 values, each stretch at another level.
    fn run(rng: &mut rand_pcg::Pcg64Mcg, base: f64) -> Vec<Distribution> {
        (0..40)
            .map(|_| {
                let level = base + 2e5 * rng.random::<f64>();
                let mut d = Distribution::new(Precision::Fine);
                (0..50).for_each(|_| d.record((level + 1e5 * rng.random::<f64>()) as u64));
                d
            })
            .collect()
    }

    fn median(a: &[Distribution], b: &[Distribution], seed: u64) -> Shifted {
        let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
        shifts(&a, &b, &[Quantile::P50], 0.95, seed)[0].unwrap()
    }

    #[test]
    fn one_of_many_comparisons_reaches_further() {
        let shift =
            Estimate { value: 1e6, low: 0.8e6, high: 1.3e6, confidence: 0.95, n: 64, method: Method::Percentile };
        let alone = Shifted { first: 10, second: 20, shift: Some(shift), smallest_seen: Some(2.8e5) };
        let same = alone.one_of(1);
        assert!((same.shift.unwrap().low - 0.8e6).abs() < 1.0 && (same.smallest_seen.unwrap() - 2.8e5).abs() < 1.0);
        // 3.227 standard errors in place of 1.960.
        let of_forty = alone.one_of(40).shift.unwrap();
        assert!((of_forty.low - (1e6 - 0.2e6 * 1.6465)).abs() < 100.0, "{of_forty:?}");
        assert!((of_forty.high - (1e6 + 0.3e6 * 1.6465)).abs() < 100.0, "{of_forty:?}");
        let few = Shifted { shift: None, ..alone };
        assert_eq!(few.one_of(40), few);
    }

    #[test]
    fn a_shift_is_covered_and_none_is_seen_where_there_is_none() {
        let mut rng = generator(5);
        let (mut covered, mut false_ones, mut found, mut smallest) = (0, 0, 0, 0.0);
        for seed in 0..20 {
            let (a, b, c) = (run(&mut rng, 1e7), run(&mut rng, 1e7), run(&mut rng, 1.01e7));
            false_ones += u32::from(median(&a, &b, seed).seen());
            let moved = median(&a, &c, seed);
            covered += u32::from(moved.shift.unwrap().covers(1e5));
            smallest += moved.smallest_seen.unwrap() / 20.0;
            found += u32::from(moved.seen());
        }
        assert!(covered >= 16, "{covered} of 20 covered");
        assert!(false_ones <= 4, "{false_ones} of 20 saw what is not there");
        assert!(smallest < 1e5 && found >= 16, "{found} of 20 seen, smallest {smallest}");
    }

    #[test]
    fn a_run_against_itself_moves_by_nothing_and_says_what_it_could_have_seen() {
        let a = run(&mut generator(9), 1e7);
        let same = median(&a, &a, 1);
        assert!(!same.seen() && same.shift.unwrap().value == 0.0, "{same:?}");
        assert!((1e4..2e5).contains(&same.smallest_seen.unwrap()), "{same:?}");
        let sums: Vec<(f64, u64)> = a.iter().map(|d| (d.sum() as f64, d.n())).collect();
        let mean = mean_shift(&sums, &sums, 0.95, 1).unwrap();
        assert!(mean.value == 0.0 && mean.covers(0.0) && mean.half_width() > 1e4, "{mean:?}");
    }

    #[test]
    fn too_little_gives_no_interval() {
        let a = run(&mut generator(9), 1e7);
        let few: Vec<&Distribution> = a.iter().take(5).collect();
        let found = shifts(&few, &few, &Quantile::SHOWN, 0.95, 1);
        assert!(found[0].unwrap().shift.is_none() && found[3].is_none(), "{found:?}");
        let all: Vec<&Distribution> = a.iter().collect();
        assert!(shifts(&all, &all, &[Quantile::P999], 0.95, 1)[0].unwrap().shift.is_none());
        assert_eq!(mean_shift(&[(1.0, 1)], &[(1.0, 1)], 0.95, 1), None);
        assert_eq!(shifts(&[], &[], &[Quantile::P50], 0.95, 1), [None]);
    }
}
