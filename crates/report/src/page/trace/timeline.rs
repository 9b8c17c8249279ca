//! How long records took over time.

use record::Nanos;
use stats::{Distribution, Precision, Quantile};

use super::n_of;
use crate::plot::{Axis, Cell, Hue, Layer, Plot, Unit, tidy};
use summary::{Timed, TimedKind};

/// Intervals of time that a series has, at most; half as many at least, once there is enough.
const INTERVALS: usize = 160;
/// Rows of the heat map.
const HEAT_ROWS: f64 = 30.0;

/// Records of a kind by intervals of time, which grow as the run does.
#[derive(Debug)]
pub(super) struct Timeline {
    kind: TimedKind,
    start: u64,
    width: u64,
    intervals: Vec<Distribution>,
    counts: Vec<u64>,
}

impl Timeline {
    pub(super) fn new(kind: TimedKind, start: u64) -> Self {
        Self { kind, start, width: 1_000_000, intervals: Vec::new(), counts: Vec::new() }
    }

    pub(super) fn add<T: Timed>(&mut self, record: &T) {
        let Some(began) = record.began() else { return };
        let since = began.as_nanos().saturating_sub(self.start);
        while since / self.width >= INTERVALS as u64 {
            self.width = self.width.saturating_mul(2);
            let merged = |pair: &[Distribution]| {
                let mut both = pair[0].clone();
                pair[1..].iter().for_each(|second| both.merge(second));
                both
            };
            self.intervals = self.intervals.chunks(2).map(merged).collect();
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let at = (since / self.width) as usize;
        while self.intervals.len() <= at {
            self.intervals.push(Distribution::new(Precision::Coarse));
            self.counts.push(0);
        }
        self.counts[at] += 1;
        if let Ok(Some(total)) = record.time(self.kind.total()) {
            self.intervals[at].record(total.0);
        }
    }

    fn n(&self) -> u64 {
        self.intervals.iter().map(Distribution::n).sum()
    }

    /// What an interval is.
    fn note(&self) -> String {
        format!("intervals of {}", Nanos(self.width))
    }

    /// The time that is shown, in words.
    fn meaning(&self) -> &'static str {
        self.kind.legs()[self.kind.total()].meaning
    }

    /// A time of the total.
    fn axes(&self) -> (Axis, Axis) {
        let name = self.kind.legs()[self.kind.total()].name;
        (
            Axis::linear("time since the trace began", Unit::Time).reaching(0.0),
            Axis::log(format!("{name} time (logarithmic)"), Unit::Time),
        )
    }

    fn at(&self, i: usize) -> f64 {
        (i as u64 * self.width) as f64
    }

    pub(super) fn quantiles(&self) -> Option<Plot> {
        let thing = self.kind.thing();
        let line = |name: &str, hue: u8, of: &dyn Fn(&Distribution) -> Option<u64>| {
            let mut points = Vec::new();
            for (i, d) in self.intervals.iter().enumerate() {
                let x = tidy(self.at(i) + self.width as f64 / 2.0);
                match of(d) {
                    Some(value) => points.push([x, value.max(1) as f64]),
                    // Nothing is known there, so no line goes over it.
                    None if points.last().is_some_and(|p: &[f64; 2]| p[1].is_finite()) => points.push([x, f64::NAN]),
                    None => {}
                }
            }
            Layer::line(name, Hue(hue), points)
        };
        let layers = vec![
            line("max", 1, &Distribution::max),
            line("p99", 3, &|d| d.quantile(Quantile::P99)),
            line("p50", 0, &|d| d.quantile(Quantile::P50)),
        ];
        Plot::new(
            &super::id(self.kind, "over-time"),
            format!("{} over time", super::capital(self.meaning())),
            format!(
                "By when the {thing} began, {}; {}. A percentile is left out where an interval has too few {thing}s for it.",
                self.note(),
                n_of(self.n(), self.kind)
            ),
            self.axes(),
            layers,
        )
    }

    pub(super) fn heat(&self) -> Option<Plot> {
        let least = self.intervals.iter().filter_map(Distribution::min).min()?.max(1) as f64;
        let most = self.intervals.iter().filter_map(Distribution::max).max()?.max(2) as f64;
        let step = ((most * 1.001 / least).ln() / HEAT_ROWS).max(0.01);
        let mut counts: Vec<((usize, i32), u64)> = Vec::new();
        for (i, d) in self.intervals.iter().enumerate() {
            let mut rows = std::collections::BTreeMap::<i32, u64>::new();
            for (value, n) in d.values() {
                *rows.entry(((value.max(1) as f64 / least).ln() / step).floor().max(0.0) as i32).or_default() += n;
            }
            counts.extend(rows.into_iter().map(|(row, n)| ((i, row), n)));
        }
        let fullest = counts.iter().map(|c| c.1).max()? as f64;
        let cells = counts
            .into_iter()
            .map(|((i, row), n)| {
                let y = [row, row + 1].map(|r| tidy(least * (f64::from(r) * step).exp()));
                let x = [tidy(self.at(i)), tidy(self.at(i + 1))];
                let [low, high] = y.map(|v| Nanos(v as u64));
                let shade = tidy((n as f64).ln_1p() / fullest.ln_1p());
                Cell { x, y, shade, label: format!("{low} to {high}: n = {}", quantity::count(n)) }
            })
            .collect();
        Plot::new(
            &super::id(self.kind, "heat"),
            format!("Where the {}s lie, over time", self.kind.thing()),
            format!(
                "Each cell is as dark as the logarithm of its number of {}s, {}; {}.",
                self.kind.thing(),
                self.note(),
                n_of(self.n(), self.kind)
            ),
            self.axes(),
            vec![Layer::Heat { name: format!("{}s", self.kind.thing()), cells }],
        )
    }

    pub(super) fn rate(&self) -> Option<Plot> {
        let thing = self.kind.thing();
        let per_second = 1e9 / self.width as f64;
        let points = self.counts.iter().enumerate().map(|(i, n)| [tidy(self.at(i)), tidy(*n as f64 * per_second)]);
        let line =
            Layer::Line { name: String::new(), hue: Hue(0), points: points.collect(), step: true, dashed: false };
        Plot::new(
            &super::id(self.kind, "rate"),
            format!("{} recorded over time", super::capital(&format!("{thing}s"))),
            format!(
                "As they were recorded, {}; {}. Where a trace samples, this is the sample's rate.",
                self.note(),
                n_of(self.counts.iter().sum(), self.kind)
            ),
            (
                Axis::linear("time since the trace began", Unit::Time).reaching(0.0),
                Axis::linear(format!("{thing}s a second"), Unit::Plain).reaching(0.0),
            ),
            vec![line],
        )
        .filter(|_| self.counts.len() > 1)
    }
}
