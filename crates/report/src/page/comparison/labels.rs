//! Requests by method and path in both runs: which of them take another time.

use std::collections::BTreeMap;

use record::{Label, Nanos, Role};
use serde::Serialize;
use stats::{Distribution, Precision, Quantile};
use store::{Error, Run};
use summary::{Timed as _, TimedKind};

use super::gather::{Side, Stretch, Stretches};
use super::verdict::{relative, signed};
use super::{CONFIDENCE, Comparison, Moved, SEED};
use crate::page::trace::{self, Trace};
use paper::document::Table;

/// Methods and paths that are compared, at most: those with the most requests.
const COMPARED: usize = 20;
/// The percentiles by which they are.
pub(super) const QUANTILES: [Quantile; 2] = [Quantile::P50, Quantile::P99];

/// How long requests took, in memory that grows with the range of the times and never with their number: 0.1 % apart, as [`Precision::Fine`].
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

/// The requests of one run as one end saw them, of those methods and paths that most of them have. Only those with a known length are counted.
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

/// Reads the requests of a run once more, now that it is known which methods and paths most of them have: what is compared is whole then, however many
/// there are.
pub(super) fn gather(run: &Run, trace: &Trace) -> Result<[ByLabel; 2], Error> {
    let mut roles = Role::ALL.map(|role| {
        let most = trace.figures.requests().of(role).labels.sorted();
        let each = most.into_iter().map(|(label, _)| (label.clone(), Stretches::default())).collect();
        ByLabel { each, ..ByLabel::default() }
    });
    if roles.iter().all(|role| role.each.is_empty()) {
        return Ok(roles);
    }
    let read = run.requests(|request| {
        let into = &mut roles[request.role as usize];
        let Ok(Some(total)) = request.time(request.kind().total()) else { return };
        match request.http.label() {
            None => into.unlabelled += 1,
            Some(label) => match into.each.get_mut(&label) {
                None => into.others += 1,
                Some(stretches) => stretches.next(Times::default).record(total.0),
            },
        }
    });
    // What of the table cannot be read was said when it was read for the first time.
    trace::incomplete(run, read, &mut Vec::new())?;
    roles.iter_mut().flat_map(|role| role.each.values_mut()).for_each(Stretches::finish);
    Ok(roles)
}

/// The requests of one method and path in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct LabelShift {
    /// Method and path.
    #[serde(flatten, serialize_with = "super::label")]
    pub label: Label,
    /// Requests of each run.
    pub n: [u64; 2],
    /// How far they moved. The intervals of all methods and paths hold together in 95 % of comparisons.
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
pub(super) fn compare(a: &Side, b: &Side, kind: TimedKind) -> Option<Labels> {
    let [x, y] = [a, b].map(|side| side.labels(kind));
    let (x, y) = (x?, y?);
    if x.labelled() == 0 || y.labelled() == 0 {
        return None;
    }
    let mut each: Vec<LabelShift> = of_all(&[x, y])
        .into_iter()
        .map(|label| {
            let of = |run: &ByLabel| run.each[label].all().iter().map(Times::distribution).collect::<Vec<_>>();
            let (first, second) = (of(x), of(y));
            let [first, second] = [&first, &second].map(|stretches| stretches.iter().collect::<Vec<_>>());
            let found = stats::shifts(&first, &second, &QUANTILES, CONFIDENCE, SEED);
            let moved = QUANTILES
                .iter()
                .zip(found)
                .filter_map(|(q, figures)| Some(Moved { quantile: q.to_string(), figures: figures?, seen: false }));
            LabelShift { label: label.clone(), n: [x.of(label), y.of(label)], moved: moved.collect() }
        })
        .collect();
    let intervals = each.iter().flat_map(|label| &label.moved).filter(|moved| moved.figures.shift.is_some()).count();
    for moved in each.iter_mut().flat_map(|label| &mut label.moved) {
        moved.figures = moved.figures.one_of(intervals);
        moved.seen = moved.figures.seen();
    }
    each.sort_by(|x, y| y.size().total_cmp(&x.size()));
    let compared = |run: usize| each.iter().map(|label| label.n[run]).sum::<u64>();
    let others = [x.labelled() - compared(0), y.labelled() - compared(1)];
    Some(Labels { each, others, unlabelled: [x.unlabelled, y.unlabelled] })
}

impl LabelShift {
    /// The percentile that moved and by how much it did, in all its requests: the median where that did.
    fn most(&self) -> Option<&Moved> {
        self.moved.iter().find(|moved| moved.seen)
    }

    /// How much of the requests' time moved; nothing where no shift is seen.
    fn size(&self) -> f64 {
        let shift = self.most().and_then(|moved| moved.figures.shift).map_or(0.0, |shift| shift.value.abs());
        shift * self.n[1] as f64
    }

    /// Whether it has requests enough for an interval.
    fn tells(&self) -> bool {
        self.moved.iter().any(|moved| moved.figures.shift.is_some())
    }
}

impl Labels {
    /// What changed, in a sentence or two.
    pub(super) fn sentence(&self, [first, second]: [&String; 2]) -> Vec<String> {
        let few = self.each.iter().filter(|label| !label.tells()).count();
        let told = self.each.len() - few;
        if self.each.is_empty() {
            return vec![format!("No method and path is known of requests of both {first} and {second}.")];
        }
        if told == 0 {
            return vec![format!(
                "Of each of {} that both runs have there are too few requests to distinguish a change from chance.",
                methods(few)
            )];
        }
        let changed: Vec<&LabelShift> = self.each.iter().filter(|label| label.most().is_some()).collect();
        let but = if few > 0 { format!("; of {} there are too few requests", methods(few)) } else { String::new() };
        let Some(most) = changed.first() else {
            return vec![format!("No change is seen in any of {} that both runs have{but}.", methods(told))];
        };
        let (Some(moved), n) = (most.most(), most.n.map(quantity::count)) else { return Vec::new() };
        let shift = moved.figures.shift.map_or(0.0, |shift| shift.value);
        vec![format!(
            "Of {} that both runs have, {} changed{but}. The largest change, over all its requests, is that of {}: {} went from {} in {first} to {} in {second}, {} or {}; n = {} and \
             {} requests.",
            methods(told),
            quantity::count(changed.len() as u64),
            most.label,
            moved.quantile,
            Nanos(moved.figures.first),
            Nanos(moved.figures.second),
            signed(shift),
            relative(moved.figures.first as f64, shift),
            n[0],
            n[1]
        )]
    }

    /// One row for each percentile of each, and what is not compared.
    pub(super) fn table(&self, c: &Comparison) -> Table {
        let [first, second] = &c.names;
        let head = ["request", "n", "percentile", first, second, "shift", "in %", "interval", "seen"];
        let mut table = Table::new("By method and path", head);
        let n = |n: [u64; 2]| format!("{} / {}", quantity::count(n[0]), quantity::count(n[1]));
        for label in &self.each {
            for moved in &label.moved {
                let f = moved.figures;
                let shift = f.second as f64 - f.first as f64;
                table.push(vec![
                    label.label.to_string(),
                    n(label.n),
                    moved.quantile.clone(),
                    Nanos(f.first).to_string(),
                    Nanos(f.second).to_string(),
                    signed(shift),
                    relative(f.first as f64, shift),
                    f.shift.map_or_else(|| "too few".into(), |e| format!("{} to {}", signed(e.low), signed(e.high))),
                    if moved.seen { "yes" } else { "no" }.into(),
                ]);
            }
        }
        let not_compared = [(self.others, "all others"), (self.unlabelled, "not known")];
        for (counts, name) in not_compared.into_iter().filter(|(counts, _)| *counts != [0; 2]) {
            let mut row = vec![name.to_owned(), n(counts)];
            row.resize(head.len(), "—".to_owned());
            table.push(row);
        }
        table
    }
}

/// So many methods and paths, in words.
pub(super) fn methods(n: usize) -> String {
    if n == 1 { "1 method and path".into() } else { format!("{} methods and paths", quantity::count(n as u64)) }
}

/// How the table is to be read.
pub(super) const NOTE: &str = "Compared are the methods and paths with the most requests, at most 20, that both runs have; what changed most, over all \
     its requests, comes first. An interval is wider than one of 95 % by as much as it takes for all intervals of this table to hold together in 95 % of \
     comparisons: among many of them, one would else be off by chance.";

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
