//! Counts of instructions, as figures for each send.

use serde::Serialize;

use crate::overhead::load::Load;
use crate::overhead::outcome::Missing;
use crate::overhead::ways::{Key, Way};

/// What was counted on one kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Counts {
    /// The kernel's release.
    pub kernel: String,
    /// Whether the observers' programs were a development build: what reads records then takes
    /// several times what it takes otherwise.
    pub development: bool,
    /// One a load.
    pub tables: Vec<LoadCounts>,
    /// Ways that this kernel cannot run.
    pub missing: Vec<Missing>,
}

/// The ways under one load.
#[derive(Clone, Debug, Serialize)]
pub struct LoadCounts {
    /// The load's stable name.
    pub load: String,
    /// The load, for people.
    #[serde(skip)]
    pub name: String,
    /// Instructions of a send or exchange without anything: its sender, its receiver and the
    /// kernel.
    pub nothing: f64,
    /// One a way.
    pub rows: Vec<Counted>,
}

/// A way's cost.
#[derive(Clone, Debug, Serialize)]
pub struct Counted {
    /// Which way.
    pub key: Key,
    /// The way, for people.
    pub name: &'static str,
    /// Instructions that it adds to each send or exchange, without those of `reading`.
    pub added: f64,
    /// Instructions for each of whoever reads what was recorded.
    pub reading: f64,
    /// How far the slices differ from each other, in instructions of each. `None` where the figure
    /// is made of others'.
    pub spread: Option<f64>,
}

/// One slice of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// Instructions of the whole machine.
    pub all: u64,
    /// Those of the observer's readers.
    pub read: u64,
}

/// What was counted under one load, way by way, nothing first.
#[derive(Default)]
pub(super) struct Slices(pub Vec<(&'static Way, Vec<Slice>)>);

/// Of samples, one in so many is shown.
const ONE_IN: f64 = 100.0;

impl LoadCounts {
    pub(super) fn of(load: Load, sends: u64, slices: &Slices) -> Self {
        let each = |instructions: u64| instructions as f64 / sends as f64;
        let nothing = slices.0.first().map_or(f64::NAN, |(_, slices)| {
            stats::median(&slices.iter().map(|s| each(s.all)).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        });
        let row = |(way, slices): &(&'static Way, Vec<Slice>)| {
            let own: Vec<f64> = slices.iter().map(|s| each(s.all - s.read)).collect();
            let reading: Vec<f64> = slices.iter().map(|s| each(s.read)).collect();
            let [low, high] = [f64::min, f64::max].map(|of| own.iter().copied().reduce(of).unwrap_or(f64::NAN));
            Counted {
                key: way.key,
                name: way.name,
                added: stats::median(&own).unwrap_or(f64::NAN) - nothing,
                reading: stats::median(&reading).unwrap_or(f64::NAN),
                spread: Some(high - low),
            }
        };
        let mut rows: Vec<Counted> = slices.0.iter().map(row).collect();
        sampled(&mut rows, Key::Sampled100, Key::SampledBetween, Key::Every, "sampled 1/100, from its parts");
        sampled(
            &mut rows,
            Key::Histograms100,
            Key::HistogramsBetween,
            Key::Histograms,
            "histograms of 1/100, likewise",
        );
        Self { load: load.key(), name: load.name(), nothing, rows }
    }

    /// The row of that way.
    pub fn row(&self, key: Key) -> Option<&Counted> {
        self.rows.iter().find(|row| row.key == key)
    }
}

/// Adds what a sample of one in a hundred takes: what is left of it between its stretches, and a
/// hundredth of what more every send takes. Its stretches are too rare for a slice to show them.
fn sampled(rows: &mut Vec<Counted>, key: Key, between: Key, every: Key, name: &'static str) {
    let find = |key| rows.iter().position(|row| row.key == key);
    let (Some(at), Some(every)) = (find(between), find(every)) else { return };
    let part = |of: fn(&Counted) -> f64| of(&rows[at]) + (of(&rows[every]) - of(&rows[at])) / ONE_IN;
    let row = Counted { key, name, added: part(|r| r.added), reading: part(|r| r.reading), spread: None };
    rows.insert(at + 1, row);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::ways::{SAMPLED_BETWEEN, find};

    #[test]
    fn what_a_way_adds_is_the_middle_of_its_slices_less_nothing_and_less_its_reader() {
        let slices = |all: [u64; 3], read| all.map(|all| Slice { all, read }).to_vec();
        let way = |key| find(key).unwrap();
        let counts = LoadCounts::of(
            Load::Stream(1024),
            10,
            &Slices(vec![
                (way(Key::Nothing), slices([1000, 1010, 1500], 0)),
                (&SAMPLED_BETWEEN, slices([1020, 1020, 1020], 0)),
                (way(Key::Every), slices([1610, 1620, 1690], 500)),
            ]),
        );
        assert_eq!(counts.nothing, 101.0);
        let every = counts.row(Key::Every).unwrap();
        assert_eq!((every.added, every.reading, every.spread), (11.0, 50.0, Some(8.0)));
        let sampled = counts.row(Key::Sampled100).unwrap();
        assert!((sampled.added - 1.1).abs() < 1e-9 && (sampled.reading - 0.5).abs() < 1e-9, "{sampled:?}");
        assert!(sampled.spread.is_none() && counts.row(Key::Histograms100).is_none());
    }
}
