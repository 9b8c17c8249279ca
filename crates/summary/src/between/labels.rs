//! Requests by method and path in both runs: which of them take another time.

use std::collections::BTreeMap;

use record::{Label, Request, Role};
use serde::Serialize;
use stats::{Distribution, Precision, Quantile};

use super::Moved;
use super::stretches::{Stretch, Stretches};
use crate::{Timed as _, TraceSummary, grouped};

/// Methods and paths that are compared, at most: those with the most requests.
const COMPARED: usize = 20;
/// The percentiles by which they are.
pub(super) const QUANTILES: [Quantile; 2] = [Quantile::P50, Quantile::P99];

/// How long requests took, in memory that grows with the range of the times and never with their
/// number: 0.1 % apart, as [`Precision::Fine`].
#[derive(Debug, Default)]
struct Times {
    n: u64,
    counts: BTreeMap<u64, u64>,
}

impl Times {
    fn record(&mut self, ns: u64) {
        let dropped = (u64::BITS - ns.leading_zeros()).saturating_sub(11);
        *self.counts.entry(ns >> dropped << dropped).or_default() += 1;
        self.n += 1;
    }

    fn distribution(&self) -> Distribution {
        let mut of = Distribution::new(Precision::Fine);
        self.counts.iter().for_each(|(&ns, &count)| of.record_many(ns, count));
        of
    }
}

impl Stretch for Times {
    fn records(&self) -> u64 {
        self.n
    }

    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        other.counts.iter().for_each(|(&ns, &count)| *self.counts.entry(ns).or_default() += count);
    }
}

/// The requests of one run as one end saw them, of those methods and paths that most of them have.
/// Only those with a known length are counted.
#[derive(Debug, Default)]
pub(super) struct ByLabel {
    each: BTreeMap<Label, Stretches<Times>>,
    /// Requests of other methods and paths.
    others: u64,
    /// Requests without any.
    unlabelled: u64,
}

impl ByLabel {
    /// How long the requests of one took.
    pub(super) fn times(&self, label: &Label) -> Distribution {
        let mut all = Distribution::new(Precision::Fine);
        self.each.get(label).iter().flat_map(|of| of.all()).for_each(|times| all.merge(&times.distribution()));
        all
    }

    fn of(&self, label: &Label) -> u64 {
        self.each.get(label).map_or(0, |stretches| stretches.all().iter().map(|times| times.n).sum())
    }

    /// Requests with a method and a path.
    pub(super) fn labelled(&self) -> u64 {
        self.others + self.each.keys().map(|label| self.of(label)).sum::<u64>()
    }
}

/// The requests of one run, at both ends. They are read once more, when it is known which methods
/// and paths most of them have: what is compared is whole then, however many there are.
#[derive(Debug)]
pub struct ByLabels([ByLabel; 2]);

impl ByLabels {
    /// Of a run with these figures.
    pub fn new(figures: &TraceSummary) -> Self {
        Self(Role::ALL.map(|role| {
            let most = figures.requests().of(role).labels.sorted();
            let each = most.into_iter().map(|(label, _)| (label.clone(), Stretches::default())).collect();
            ByLabel { each, ..ByLabel::default() }
        }))
    }

    /// Whether there is no method and path to keep requests by, so that they need not be read.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|role| role.each.is_empty())
    }

    /// Adds a request.
    pub fn add(&mut self, request: &Request) {
        let into = &mut self.0[request.role as usize];
        let Ok(Some(total)) = request.time(request.kind().total()) else { return };
        match request.http.label() {
            None => into.unlabelled += 1,
            Some(label) => match into.each.get_mut(&grouped(label)) {
                None => into.others += 1,
                Some(stretches) => stretches.next(Times::default).record(total.0),
            },
        }
    }

    pub(super) fn finish(mut self) -> [ByLabel; 2] {
        self.0.iter_mut().flat_map(|role| role.each.values_mut()).for_each(Stretches::finish);
        self.0
    }
}

/// The requests of one method and path in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct LabelShift {
    /// Method and path.
    #[serde(flatten, serialize_with = "super::label")]
    pub label: Label,
    /// Requests of each run.
    pub n: [u64; 2],
    /// How far they moved. The intervals of all methods and paths hold together in 95 % of
    /// comparisons.
    pub moved: Vec<Moved>,
}

/// Requests of both runs by method and path. The numbers add up to those of all requests.
#[derive(Clone, Debug, Serialize)]
pub struct Labels {
    /// Those that both runs have, of the ones with the most requests; what changed comes first.
    pub each: Vec<LabelShift>,
    /// Requests of all other methods and paths, of each run.
    pub others: [u64; 2],
    /// Requests of which no method and path is known.
    pub unlabelled: [u64; 2],
}

/// The methods and paths that all of these have, with the most requests first.
pub(super) fn of_all<'a>(runs: &[&'a ByLabel]) -> Vec<&'a Label> {
    let n = |label: &Label| runs.iter().map(|run| run.of(label)).sum::<u64>();
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let mut all: Vec<&Label> =
        first.each.keys().filter(|label| first.of(label) > 0 && others.iter().all(|run| run.of(label) > 0)).collect();
    all.sort_by_key(|label| (std::cmp::Reverse(n(label)), *label));
    all.truncate(COMPARED);
    all
}

/// `None` where there is no method and path to compare by.
pub(super) fn compare([first, second]: [&ByLabel; 2]) -> Option<Labels> {
    if first.labelled() == 0 || second.labelled() == 0 {
        return None;
    }
    let labels = of_all(&[first, second]);
    let pairs: Vec<[Vec<Distribution>; 2]> = labels
        .iter()
        .map(|label| [first, second].map(|run| run.each[*label].all().iter().map(Times::distribution).collect()))
        .collect();
    let moved = compare::quantiles_together(&pairs, &QUANTILES);
    let shift = |(label, moved): (&Label, Vec<_>)| LabelShift {
        label: label.clone(),
        n: [first, second].map(|run| run.of(label)),
        moved: moved.into_iter().map(|(quantile, change)| Moved { quantile, change }).collect(),
    };
    let mut each: Vec<LabelShift> = labels.into_iter().zip(moved).map(shift).collect();
    each.sort_by(|x, y| y.size().total_cmp(&x.size()));
    let compared = |run: usize| each.iter().map(|label| label.n[run]).sum::<u64>();
    let others = [first.labelled() - compared(0), second.labelled() - compared(1)];
    Some(Labels { each, others, unlabelled: [first.unlabelled, second.unlabelled] })
}

impl LabelShift {
    /// The percentile that moved and by how much it did, in all its requests: the median where that
    /// did.
    pub fn most(&self) -> Option<&Moved> {
        self.moved.iter().find(|moved| moved.is_seen())
    }

    /// How much of the requests' time moved; nothing where no shift is seen.
    fn size(&self) -> f64 {
        let shift = self.most().and_then(|moved| moved.change.by).map_or(0.0, |shift| shift.value.abs());
        shift * self.n[1] as f64
    }

    /// Whether it has requests enough for an interval.
    pub fn tells(&self) -> bool {
        self.moved.iter().any(|moved| moved.change.by.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_a_thousandth_and_their_number_is() {
        let mut times = Times::default();
        for ns in [0, 1, 1_023, 2_047, 2_049, 123_456_789, u64::MAX] {
            times.record(ns);
        }
        let kept: Vec<u64> = times.counts.keys().copied().collect();
        assert_eq!(kept[..5], [0, 1, 1_023, 2_047, 2_048]);
        assert!(kept[5] <= 123_456_789 && kept[5] > 123_456_789 - 123_457);
        assert_eq!((times.n, times.distribution().n()), (7, 7));
    }
}
