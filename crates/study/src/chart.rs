//! Series over time of a study's combinations: as data for reports, and drawn for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::response::quantity;

/// Lines over time that belong together, on one scale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// The response; the values have its unit.
    pub response: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line: the mean over trials at each moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Which combination, or which way.
    pub name: String,
    /// Moments since the trial's beginning, nanoseconds.
    pub at_ns: Vec<u64>,
    /// A value for each.
    pub values: Vec<f64>,
    /// Trials that it is the mean of.
    pub n: usize,
}

/// Columns of a drawn line.
const COLUMNS: usize = 60;

/// From nothing to the top of the scale.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Line {
    /// The mean of the trials' points, in slots of `slot_ns`.
    pub fn mean(name: &str, slot_ns: u64, trials: impl Iterator<Item = Vec<(u64, f64)>>) -> Self {
        let mut slots: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        let mut n = 0;
        for points in trials.filter(|p| !p.is_empty()) {
            n += 1;
            for (at, value) in points {
                let (sum, count) = slots.entry(at / slot_ns.max(1)).or_default();
                *sum += value;
                *count += 1.0;
            }
        }
        let (at_ns, values) = slots.into_iter().map(|(slot, (sum, count))| (slot * slot_ns, sum / count)).unzip();
        Self { name: name.into(), at_ns, values, n }
    }

    /// The mean of what falls into each of so many equal parts of the time from 0 to `end_ns`.
    fn columns(&self, columns: usize, end_ns: u64) -> Vec<Option<f64>> {
        let mut cells = vec![(0.0, 0u32); columns];
        for (at, value) in self.at_ns.iter().zip(&self.values) {
            let i = (u128::from(*at) * columns as u128 / u128::from(end_ns.max(1))) as usize;
            let cell = &mut cells[i.min(columns - 1)];
            *cell = (cell.0 + value, cell.1 + 1);
        }
        cells.into_iter().map(|(sum, n)| (n > 0).then(|| sum / f64::from(n))).collect()
    }
}

impl Chart {
    /// For a terminal: a row of bars for each line, all on the scale from 0 to the highest.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let end_ns = self.lines.iter().filter_map(|l| l.at_ns.last()).max().map_or(0, |ns| ns + 1);
        let drawn: Vec<Vec<Option<f64>>> =
            self.lines.iter().map(|l| l.columns(COLUMNS.min(l.at_ns.len().max(1)), end_ns)).collect();
        let top = drawn.iter().flatten().flatten().fold(0.0, |a: f64, b| a.max(*b));
        let width = self.lines.iter().map(|l| l.name.chars().count()).max().unwrap_or(0);
        _ = writeln!(
            out,
            "{} (0 to {}, 0 to {})",
            self.title,
            quantity("latency_p50", end_ns as f64),
            quantity(&self.response, top)
        );
        for (line, cells) in self.lines.iter().zip(&drawn) {
            let bar = |v: &Option<f64>| match v {
                None => '·',
                Some(_) if top <= 0.0 => BARS[0],
                Some(v) => BARS[((v / top * 8.0).round().clamp(0.0, 8.0)) as usize],
            };
            let bars: String = cells.iter().map(bar).collect();
            let range = line.values.iter().fold(None, |range: Option<(f64, f64)>, v| {
                Some(range.map_or((*v, *v), |(low, high)| (low.min(*v), high.max(*v))))
            });
            let range = range.map_or_else(
                || "nothing".to_owned(),
                |(low, high)| format!("{} … {}", quantity(&self.response, low), quantity(&self.response, high)),
            );
            _ = writeln!(out, "  {:<width$}  {bars:<COLUMNS$}  {range} (n = {})", line.name, line.n);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_means_and_are_drawn_on_one_scale() {
        let trials = [vec![(0, 10e6), (100, 20e6)], vec![(0, 30e6)], Vec::new()];
        let line = Line::mean("on", 100, trials.into_iter());
        assert_eq!((line.at_ns.as_slice(), line.values.as_slice(), line.n), (&[0, 100][..], &[20e6, 20e6][..], 2));
        let half = Line { name: "off".into(), at_ns: vec![0, 100], values: vec![10e6, 0.0], n: 1 };
        let text = Chart { title: "t".into(), response: "goodput".into(), lines: vec![line, half] }.text();
        assert!(text.contains("██") && text.contains("▄ ") && text.contains("20.00 Mbit/s (n = 2)"), "{text}");
        assert!(!Chart::default().text().is_empty());
        let empty = Chart { lines: vec![Line::default()], ..Chart::default() };
        assert!(empty.text().contains("nothing"));
    }
}
