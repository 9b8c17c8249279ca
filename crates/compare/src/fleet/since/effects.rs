//! What hosts, peers and services have in common, of the hours of their combinations.

use std::collections::BTreeMap;
use std::ops::Range;

use record::fleet::{FOR_P99, FleetCellHour, Group, GroupKind};

use super::windows::Window;

/// Kinds of groups.
const KINDS: usize = GroupKind::ALL.len();
/// Passes over the kinds, each of which takes off what the others explain.
const PASSES: usize = 30;
/// A pass that moves nothing by more than this is the last one.
const STILL: f64 = 1e-5;
/// Cells from which on it can be seen whether a slow-down is of few of them.
const ENOUGH: usize = 6;
/// A group is slower as a whole where half of its sends are, by this share of what it is slower by.
const WHOLE: f64 = 1.0 / 3.0;

/// Of each hour of both weeks, the one before first; NaN where there is nothing.
pub type Hours = Vec<[f64; 2]>;

/// The sends of one host to one peer for one service.
#[derive(Clone, Debug)]
struct Cell {
    /// The number of its group of each kind; `None` where it has no name.
    of: [Option<usize>; KINDS],
    sends: f64,
    /// The logarithm of its mean in each hour, less that of all its hours.
    values: Hours,
    /// How many sends of it there are in each hour.
    seen: Vec<[f64; 2]>,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Cells {
    hours: Range<u64>,
    names: [Vec<String>; KINDS],
    cells: Vec<Cell>,
}

/// What is in common.
#[derive(Debug)]
pub struct Effects {
    /// To the groups of each kind, all of the fleet included.
    pub of_kind: [Vec<Hours>; KINDS],
    /// To all of the fleet.
    pub all: Hours,
}

impl Cells {
    /// From their rows.
    pub fn of(rows: &[FleetCellHour]) -> Self {
        let start = rows.iter().map(|row| row.hour).min().unwrap_or(0);
        let end = rows.iter().map(|row| row.hour + 1).max().unwrap_or(0);
        let mut names: [BTreeMap<&str, usize>; KINDS] = Default::default();
        let mut cells: BTreeMap<[&str; KINDS], Cell> = BTreeMap::new();
        let length = (end - start) as usize;
        for row in rows.iter().filter(|row| row.sends > 0 && row.mean_ns > 0.0) {
            let key = [row.host.as_str(), &row.peer, &row.service];
            let cell = cells.entry(key).or_insert_with(|| {
                let mut kinds = names.iter_mut();
                let of = key.map(|name| {
                    let names = kinds.next()?;
                    let next = names.len();
                    (!name.is_empty()).then(|| *names.entry(name).or_insert(next))
                });
                Cell { of, sends: 0.0, values: vec![[f64::NAN; 2]; length], seen: vec![[0.0; 2]; length] }
            });
            let (at, week) = ((row.hour - start) as usize, usize::from(row.later));
            cell.sends += row.sends as f64;
            cell.values[at][week] = row.mean_ns.ln();
            cell.seen[at][week] = row.sends as f64;
        }
        let names = names.map(|of| {
            let mut by_number: Vec<(&str, usize)> = of.into_iter().collect();
            by_number.sort_by_key(|(_, number)| *number);
            by_number.into_iter().map(|(name, _)| name.to_owned()).collect()
        });
        let mut cells: Vec<Cell> = cells.into_values().collect();
        cells.iter_mut().for_each(Cell::center);
        Self { hours: start..end, names, cells }
    }

    /// Hours since 1970 that there are.
    pub fn hours(&self) -> Range<u64> {
        self.hours.clone()
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.names.iter().map(Vec::len).sum()
    }

    /// A group by its kind and number.
    pub fn group(&self, (kind, number): (usize, usize)) -> Group {
        Group { kind: GroupKind::ALL[kind], name: self.names[kind][number].clone() }
    }

    /// Without all sends of a group.
    pub fn leave_out(&mut self, (kind, number): (usize, usize)) {
        self.cells.retain(|cell| cell.of[kind] != Some(number));
    }

    /// Without what all of the fleet was slower by in a window.
    pub fn take_off(&mut self, window: &Window, by: f64) {
        let hours = self.cells.iter_mut().flat_map(|cell| &mut cell.values[window.hours.clone()]);
        hours.for_each(|[_, later]| *later -= by);
    }

    /// Whether a group was slower as a whole, and not few of its sends.
    pub fn is_whole(&self, of: Option<(usize, usize)>, window: &Window, by: f64) -> bool {
        let is_of = |cell: &&Cell| of.is_none_or(|(kind, number)| cell.of[kind] == Some(number));
        let each: Vec<(f64, f64)> =
            self.cells.iter().filter(is_of).filter_map(|cell| Some((cell.slower(window)?, cell.sends))).collect();
        let all: f64 = each.iter().map(|(_, sends)| sends).sum();
        let slow: f64 = each.iter().filter(|(slower, _)| *slower >= by * WHOLE).map(|(_, sends)| sends).sum();
        each.len() < ENOUGH || slow >= all / 2.0
    }

    /// What is in common.
    pub fn effects(&self) -> Effects {
        let length = self.hours.end.saturating_sub(self.hours.start) as usize;
        let mut of_kind = self.names.each_ref().map(|names| vec![vec![[f64::NAN; 2]; length]; names.len()]);
        let mut all = vec![[f64::NAN; 2]; length];
        for at in 0..length {
            for week in [0, 1] {
                let present: Vec<(&Cell, f64)> = self
                    .cells
                    .iter()
                    .map(|cell| (cell, cell.values[at][week]))
                    .filter(|(_, value)| value.is_finite())
                    .collect();
                let Some((common, each)) = self.in_common(&present, at, week) else { continue };
                all[at][week] = common;
                for (into, found) in of_kind.iter_mut().zip(each) {
                    for (into, effect) in into.iter_mut().zip(found) {
                        into[at][week] = effect.map_or(f64::NAN, |effect| common + effect);
                    }
                }
            }
        }
        Effects { of_kind, all }
    }

    /// Of one hour: what all have in common, and what each group has beside that, where it has
    /// enough sends to say so. Least squares, by taking turns (backfitting).
    fn in_common(&self, present: &[(&Cell, f64)], at: usize, week: usize) -> Option<(f64, [Vec<Option<f64>>; KINDS])> {
        let sends: f64 = present.iter().map(|(cell, _)| cell.sends).sum();
        let common = present.iter().map(|(cell, value)| value * cell.sends).sum::<f64>() / sends;
        if !common.is_finite() {
            return None;
        }
        let blank = || self.names.each_ref().map(|names| vec![0.0; names.len()]);
        let mut effects: [Vec<f64>; KINDS] = blank();
        let (mut weights, mut seen) = (blank(), blank());
        for (cell, _) in present {
            for (kind, number) in cell.of.iter().enumerate() {
                if let Some(number) = *number {
                    weights[kind][number] += cell.sends;
                    seen[kind][number] += cell.seen[at][week];
                }
            }
        }
        for _ in 0..PASSES {
            let mut moved = 0.0_f64;
            for kind in 0..KINDS {
                let mut sums = vec![0.0; effects[kind].len()];
                for (cell, value) in present {
                    let Some(number) = cell.of[kind] else { continue };
                    let others = (0..KINDS).filter(|other| *other != kind);
                    let explained: f64 = others.filter_map(|other| Some(effects[other][cell.of[other]?])).sum();
                    sums[number] += cell.sends * (value - common - explained);
                }
                for ((effect, sum), weight) in effects[kind].iter_mut().zip(sums).zip(&weights[kind]) {
                    let found = if *weight > 0.0 { sum / weight } else { 0.0 };
                    moved = moved.max((found - *effect).abs());
                    *effect = found;
                }
            }
            if moved < STILL {
                break;
            }
        }
        let mut kinds = seen.into_iter();
        let enough = |effects: Vec<f64>| {
            let seen = kinds.next().unwrap_or_default();
            effects.into_iter().zip(seen).map(|(effect, seen)| (seen >= FOR_P99 as f64).then_some(effect)).collect()
        };
        Some((common, effects.map(enough)))
    }
}

impl Cell {
    /// Takes off the mean of all its hours.
    fn center(&mut self) {
        let there = || self.values.iter().flatten().filter(|value| value.is_finite());
        let mean = there().sum::<f64>() / there().count().max(1) as f64;
        self.values.iter_mut().flatten().for_each(|value| *value -= mean);
    }

    /// By how much it was slower in a window than in its other hours.
    fn slower(&self, window: &Window) -> Option<f64> {
        let (mut within, mut without) = ((0.0, 0), (0.0, 0));
        for (at, weeks) in self.values.iter().enumerate() {
            for (week, value) in weeks.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                let into = if week == 1 && window.hours.contains(&at) { &mut within } else { &mut without };
                *into = (into.0 + value, into.1 + 1);
            }
        }
        let mean = |(sum, n): (f64, u32)| (n > 0).then(|| sum / f64::from(n));
        Some(mean(within)? - mean(without)?)
    }
}
