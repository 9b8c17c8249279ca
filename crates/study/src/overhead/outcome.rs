//! What a measurement of cost shows: a table a load, each figure with its interval, and whether the
//! bars hold.

use record::Nanos;
use record::words;
use serde::{Serialize, Serializer};
use stats::Estimate;

use super::load::{Load, Slice};
use super::plan::Plan;
use super::ways::{Key, Way};

/// One slice of a way, and the one of nothing beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub way: Slice,
    pub nothing: Slice,
}

const CONFIDENCE: f64 = 0.95;

/// Nothing against nothing may reach no further than this to either side, per cent: beyond, no
/// verdict is given.
pub const TRUSTED: f64 = 1.0;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// How long a slice was.
    #[serde(rename = "slice_ns")]
    pub slice: Nanos,
    /// Where the random draws began.
    pub seed: u64,
    /// One a load.
    pub tables: Vec<LoadCosts>,
}

/// The ways under one load.
#[derive(Clone, Debug, Serialize)]
pub struct LoadCosts {
    /// The load's stable name.
    pub load: String,
    /// The load, for people.
    #[serde(skip)]
    pub name: String,
    /// How many blocks there were.
    pub blocks: usize,
    /// Sends or exchanges a second without anything, the middle of all slices.
    pub rate: f64,
    /// CPU time of the sender for each, ns, the same.
    pub cpu_ns: f64,
    /// CPU time of all processes of the machine for each, the receiver's, the observer's and kernel
    /// threads too, ns, the same.
    pub machine_ns: f64,
    /// 99th percentile of the round trip, ns, the same; of exchanges only.
    pub p99_ns: Option<f64>,
    /// One a way.
    pub rows: Vec<Row>,
    /// Every send less the floor, in points of the rate without anything.
    pub above_floor: Option<Estimate>,
    /// Histograms of every send less its records, in points of the rate without anything: above
    /// zero where histograms cost less.
    pub saved: Option<Estimate>,
    /// The same of the CPU time of all processes for each, ns: below zero where histograms cost
    /// less.
    pub saved_ns: Option<Estimate>,
    /// What histograms of one stretch in 100 add to the sender's CPU time for each, per cent, by
    /// their two parts: what there is between the stretches, and a hundredth of how much more those
    /// of every send take. Each part is there in every slice, so a median shows it.
    pub histograms_sampled: Option<Estimate>,
    /// Ways that this machine cannot run.
    pub missing: Vec<Missing>,
    /// What the measurement says on each bar.
    pub verdicts: Vec<Verdict>,
}

/// A way's cost.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which way.
    pub key: Key,
    /// The way, for people.
    pub name: &'static str,
    /// Change of the rate, per cent.
    pub rate: Option<Estimate>,
    /// Change of the sender's CPU time for each send or exchange, per cent.
    pub cpu: Option<Estimate>,
    /// The same, ns.
    pub cpu_ns: Option<Estimate>,
    /// Change of the CPU time of all processes of the machine for each, ns.
    pub machine_ns: Option<Estimate>,
    /// Change of the 99th percentile of the round trip, per cent; of exchanges only.
    pub p99: Option<Estimate>,
    /// Whether the figures are means rather than medians: the way's cost comes in few slices.
    pub mean: bool,
    /// What the reference reports.
    pub reference: Option<&'static str>,
}

/// A way that this machine cannot run, or that this load does not suit.
#[derive(Clone, Debug, Serialize)]
pub struct Missing {
    /// Which way.
    pub key: Key,
    /// The way, for people.
    pub name: &'static str,
    /// Why.
    pub reason: String,
}

/// What observing may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// Of connections that are not traced.
    OtherFlows,
    /// Of a sample.
    Sampled,
    /// Of every send, beyond what the kernel's callbacks take themselves.
    EverySend,
    /// Of histograms, beside records.
    Histograms,
    /// Of histograms of a sample.
    HistogramsSampled,
}

words! {
    Bar: OtherFlows = "other flows lose nothing: within ±0.5 %", Sampled = "sampled 1/100 loses at most 1.5 %",
        EverySend = "every send is within 2 points of the floor",
        Histograms = "histograms of every send cost less than its records",
        HistogramsSampled = "histograms of 1/100 cost the sender no CPU time: within ±0.5 %";
}

impl Serialize for Bar {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// Whether a bar holds.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Which one.
    pub bar: Bar,
    /// `None` where the run cannot decide.
    pub holds: Option<bool>,
    /// The same in words.
    pub text: String,
}

fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

/// Where the way's cost falls into few slices, the mean shows it.
fn estimate(values: &[f64], in_few_slices: bool, seed: u64) -> Option<Estimate> {
    if in_few_slices {
        return stats::mean_interval(values, CONFIDENCE, seed);
    }
    if values.len() < stats::FEWEST_RESAMPLED {
        return stats::median_interval(values, CONFIDENCE);
    }
    stats::bca(values, |v| stats::median(v).unwrap_or(f64::NAN), CONFIDENCE, seed)
}

fn of_pairs(blocks: &[Vec<Pair>], value: impl Fn(&Pair) -> f64) -> Vec<f64> {
    blocks.iter().flatten().map(value).filter(|v| v.is_finite()).collect()
}

impl Row {
    fn of(way: &Way, blocks: &[Vec<Pair>], seed: u64) -> Self {
        let estimate = |value: fn(&Pair) -> f64| estimate(&of_pairs(blocks, value), way.in_few_slices, seed);
        let p99 = |p: &Pair| match (p.way.p99_ns, p.nothing.p99_ns) {
            (Some(way), Some(nothing)) => percent(way / nothing),
            _ => f64::NAN,
        };
        Self {
            key: way.key,
            name: way.name,
            rate: estimate(|p| percent(p.way.rate / p.nothing.rate)),
            cpu: estimate(|p| percent(p.way.cpu_ns / p.nothing.cpu_ns)),
            cpu_ns: estimate(|p| p.way.cpu_ns - p.nothing.cpu_ns),
            machine_ns: estimate(|p| p.way.machine_ns - p.nothing.machine_ns),
            p99: estimate(p99),
            mean: way.in_few_slices,
            reference: way.reference,
        }
    }
}

impl LoadCosts {
    pub(super) fn of(load: Load, pairs: Vec<(&Way, Vec<Vec<Pair>>)>, missing: Vec<Missing>, seed: u64) -> Self {
        let nothing = |value: fn(&Pair) -> f64| {
            let all: Vec<f64> = pairs.iter().flat_map(|(_, blocks)| of_pairs(blocks, value)).collect();
            stats::median(&all)
        };
        let less = |key: Key, other: Key, value: fn(&Pair) -> f64| {
            let of = |key: Key| {
                let (_, blocks) = pairs.iter().find(|(way, _)| way.key == key)?;
                Some(blocks.iter().filter_map(|b| b.first()).map(value).collect::<Vec<_>>())
            };
            let (one, other) = of(key).zip(of(other))?;
            let differences: Vec<f64> = one.iter().zip(&other).map(|(one, other)| one - other).collect();
            estimate(&differences, false, seed)
        };
        let rate = |p: &Pair| percent(p.way.rate / p.nothing.rate);
        let histograms_sampled = || {
            let of = |key: Key| {
                let (_, blocks) = pairs.iter().find(|(way, _)| way.key == key)?;
                Some(of_pairs(blocks, |p| percent(p.way.cpu_ns / p.nothing.cpu_ns)))
            };
            let (between, every) = of(Key::HistogramsBetween).zip(of(Key::Histograms))?;
            let every = stats::median(&every)?;
            let parts = between.iter().map(|between| between + (every - between) / 100.0);
            estimate(&parts.collect::<Vec<_>>(), false, seed)
        };
        let mut table = Self {
            load: load.key(),
            name: load.name(),
            blocks: pairs.first().map_or(0, |(_, blocks)| blocks.len()),
            rate: nothing(|p| p.nothing.rate).unwrap_or(f64::NAN),
            cpu_ns: nothing(|p| p.nothing.cpu_ns).unwrap_or(f64::NAN),
            machine_ns: nothing(|p| p.nothing.machine_ns).unwrap_or(f64::NAN),
            p99_ns: nothing(|p| p.nothing.p99_ns.unwrap_or(f64::NAN)),
            rows: pairs.iter().map(|(way, blocks)| Row::of(way, blocks, seed)).collect(),
            above_floor: less(Key::Every, Key::Floor, rate),
            saved: less(Key::Histograms, Key::Every, rate),
            saved_ns: less(Key::Histograms, Key::Every, |p| p.way.machine_ns - p.nothing.machine_ns),
            histograms_sampled: histograms_sampled(),
            missing,
            verdicts: Vec::new(),
        };
        table.verdicts = table.judge();
        table
    }

    /// The change of the rate by that way.
    pub fn rate_of(&self, key: Key) -> Option<Estimate> {
        self.rows.iter().find(|row| row.key == key)?.rate
    }

    fn judge(&self) -> Vec<Verdict> {
        let bar = |bar: Bar,
                   of: Option<Estimate>,
                   noise: Option<Estimate>,
                   holds: fn(Estimate) -> bool,
                   fails: fn(Estimate) -> bool| {
            let of = of?;
            let reach = noise.map_or(f64::INFINITY, |n| n.low.abs().max(n.high.abs()));
            let figure = format!("{:+.2} ({:+.2} to {:+.2})", of.value, of.low, of.high);
            let (holds, text) = match () {
                () if noise.is_none() => (
                    None,
                    format!(
                        "no verdict: {} of nothing against nothing, which are too few; an idle machine or a longer --budget gives more",
                        quantity::counted(self.blocks as u64, "block")
                    ),
                ),
                () if reach > TRUSTED => (
                    None,
                    format!(
                        "too noisy here: nothing against nothing reaches ±{reach:.2} %; an idle machine or a longer --budget helps"
                    ),
                ),
                () if holds(of) => (Some(true), format!("holds: {figure}")),
                () if fails(of) => (Some(false), format!("does not hold: {figure}")),
                () => (None, format!("cannot be decided by this run: {figure}")),
            };
            Some(Verdict { bar, holds, text })
        };
        let within = |of: Estimate| of.low >= -0.5 && of.high <= 0.5;
        let again = self.rows.iter().find(|row| row.key == Key::Again);
        let (rate, cpu) = (again.and_then(|row| row.rate), again.and_then(|row| row.cpu));
        [
            bar(Bar::OtherFlows, self.rate_of(Key::Unmatched), rate, within, |of| of.high < -0.5),
            bar(Bar::Sampled, self.rate_of(Key::Sampled100), rate, |of| of.low >= -1.5, |of| of.high < -1.5),
            bar(Bar::EverySend, self.above_floor, rate, |of| of.low >= -2.0, |of| of.high < -2.0),
            bar(Bar::Histograms, self.saved, rate, |of| of.low > 0.0, |of| of.high < 0.0),
            bar(
                Bar::HistogramsSampled,
                self.histograms_sampled,
                cpu,
                within,
                // What a slice has more can be the kernel's work after attaching, which programs
                // that stay attached do not cause (`examples/histograms_cost.rs`).
                |_| false,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Outcome {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { slice: plan.slice.into(), seed: plan.seed, tables: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::Slice;
    use crate::overhead::ways::find;

    /// Pairs of a way with the rate of nothing times `factor`, with a spread of so many per cent.
    fn pairs(key: Key, factor: f64, spread: f64) -> (&'static Way, Vec<Vec<Pair>>) {
        let slice = |rate: f64| Slice { count: 1, rate, cpu_ns: 1e9 / rate, machine_ns: 2e9 / rate, p99_ns: None };
        let pair = |i: usize| {
            let off = spread / 100.0 * (i as f64 - 14.5) / 14.5;
            Pair { way: slice(1e6 * factor * (1.0 + off)), nothing: slice(1e6) }
        };
        (find(key).unwrap(), (0..30).map(|i| vec![pair(i)]).collect())
    }

    fn table(noise: f64, unmatched: f64, every: f64) -> LoadCosts {
        let pairs = vec![
            pairs(Key::Again, 1.0, noise),
            pairs(Key::Unmatched, unmatched, 0.5),
            pairs(Key::Sampled100, 0.995, 0.5),
            pairs(Key::Floor, 0.95, 0.5),
            pairs(Key::Every, every, 0.5),
        ];
        LoadCosts::of(Load::Stream(1024), pairs, Vec::new(), 1)
    }

    fn verdicts(table: &LoadCosts) -> Vec<Option<bool>> {
        table.verdicts.iter().map(|v| v.holds).collect()
    }

    #[test]
    fn bars_hold_and_are_missed_by_the_figures() {
        assert_eq!(verdicts(&table(0.5, 1.0, 0.94)), [Some(true); 3]);
        assert_eq!(verdicts(&table(0.5, 0.97, 0.90)), [Some(false), Some(true), Some(false)]);
        let above = table(0.5, 1.0, 0.90).above_floor.unwrap();
        assert!(above.covers(-5.0) && above.half_width() < 0.5, "{above:?}");
    }

    #[test]
    fn histograms_of_a_sample_are_judged_by_their_parts() {
        let sampled = |between: f64, every: f64| {
            let parts = [(Key::Again, 1.0), (Key::HistogramsBetween, between), (Key::Histograms, every)];
            LoadCosts::of(
                Load::Stream(1024),
                parts.map(|(key, more)| pairs(key, 1.0 / more, 0.5)).into(),
                Vec::new(),
                1,
            )
        };
        let table = sampled(1.001, 1.201);
        let sum = table.histograms_sampled.unwrap();
        assert!((sum.value - 0.3).abs() < 0.05 && sum.half_width() < 0.2, "{sum:?}");
        assert_eq!(verdicts(&table), [Some(true)]);
        // More than that is no proof of a cost.
        assert_eq!(verdicts(&sampled(1.01, 1.2)), [None]);
        assert_eq!(verdicts(&sampled(1.005, 1.005)), [None]);
    }

    #[test]
    fn a_noisy_machine_gives_no_verdict() {
        let table = table(20.0, 1.0, 0.94);
        assert_eq!(verdicts(&table), [None; 3]);
        assert!(table.verdicts[0].text.starts_with("too noisy here: nothing against nothing reaches ±"));
    }
}
