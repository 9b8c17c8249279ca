//! Axes: their units, their reach, and their ticks.

use quantity::AxisUnit;
use serde::Serialize;

use crate::text::Text;

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Plain numbers.
    Plain,
    /// Nanoseconds; shown as ns, µs, ms or s.
    Time,
    /// Bits a second.
    Rate,
    /// Bytes.
    Bytes,
    /// Shares of 1; shown in percent.
    Share,
}

impl Unit {
    /// As `quantity` writes it.
    const fn of_quantity(self) -> AxisUnit {
        match self {
            Self::Plain => AxisUnit::Plain,
            Self::Time => AxisUnit::Time,
            Self::Rate => AxisUnit::Rate,
            Self::Bytes => AxisUnit::Bytes,
            Self::Share => AxisUnit::Share,
        }
    }
}

/// How an axis is divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Evenly in the logarithm. What is not above zero lies at the lower end.
    Log,
    /// One place for each name, the first on top or to the left.
    Names {
        /// The names.
        names: Vec<Text>,
    },
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows; renderers add no unit to it.
    pub label: String,
    /// The unit of its numbers.
    pub unit: Unit,
    /// How it is divided.
    pub scale: Scale,
    /// From where to where.
    pub reach: [f64; 2],
    #[serde(skip)]
    with: [Option<f64>; 2],
    /// Whether what is drawn decides between linear and logarithmic.
    #[serde(skip)]
    by_span: bool,
}

/// Values that differ by so many times are on a logarithmic axis: on a linear one the small ones
/// would all lie at zero.
const DECADES: f64 = 100.0;

/// Smallest and largest of what is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    low: f64,
    least_positive: f64,
    high: f64,
}

impl Default for Reach {
    fn default() -> Self {
        Self { low: f64::INFINITY, least_positive: f64::INFINITY, high: f64::NEG_INFINITY }
    }
}

impl Reach {
    pub fn see(&mut self, value: f64) {
        if value.is_finite() {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
            if value > 0.0 {
                self.least_positive = self.least_positive.min(value);
            }
        }
    }
}

impl Axis {
    fn of(label: impl Into<String>, unit: Unit, scale: Scale) -> Self {
        Self { label: label.into(), unit, scale, reach: [0.0, 1.0], with: [None; 2], by_span: false }
    }

    /// A linear axis.
    pub fn linear(label: impl Into<String>, unit: Unit) -> Self {
        Self::of(label, unit, Scale::Linear)
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, unit: Unit) -> Self {
        Self::of(label, unit, Scale::Log)
    }

    /// An axis of sizes: from zero, or logarithmic where they span two decades and none is zero.
    pub fn sizes(label: impl Into<String>, unit: Unit) -> Self {
        Self { by_span: true, ..Self::linear(label, unit) }
    }

    /// An axis of names.
    pub fn names(label: impl Into<String>, names: impl IntoIterator<Item = impl Into<Text>>) -> Self {
        Self::of(label, Unit::Plain, Scale::Names { names: names.into_iter().map(Into::into).collect() })
    }

    /// One that reaches to this value whatever is drawn, and ends there where nothing lies beyond:
    /// zero, for bars. Both ends may be given.
    #[must_use]
    pub fn reaching(mut self, value: f64) -> Self {
        self.with = [Some(value), self.with[0]];
        self
    }

    /// Laid over what is drawn.
    pub(super) fn over(mut self, mut seen: Reach) -> Self {
        if self.by_span {
            if seen.low > 0.0 && seen.high >= DECADES * seen.low {
                self.scale = Scale::Log;
                self.label.push_str(" (logarithmic)");
            } else {
                self = self.reaching(0.0);
            }
        }
        self.with.into_iter().flatten().for_each(|v| seen.see(v));
        self.reach = match &self.scale {
            Scale::Names { names } => [-0.5, names.len() as f64 - 0.5],
            Scale::Log => {
                let low = if seen.least_positive.is_finite() { seen.least_positive } else { 1.0 };
                let high = seen.high.max(low);
                // A little air, and never a single point.
                if high / low < 1.5 { [low / 2.0, high * 2.0] } else { [low / 1.08, high * 1.08] }
            }
            Scale::Linear if !seen.low.is_finite() => [0.0, 1.0],
            Scale::Linear => {
                let span = seen.high - seen.low;
                let air = if span > 0.0 { span * 0.04 } else { seen.high.abs().max(1.0) * 0.05 };
                let edge = |value: f64, air: f64| if self.with.contains(&Some(value)) { value } else { value + air };
                [edge(seen.low, -air), edge(seen.high, air)]
            }
        };
        self
    }

    /// Where a value lies, 0 at the beginning of the axis and 1 at its end; beyond where it is
    /// beyond.
    pub fn place(&self, value: f64) -> f64 {
        let [low, high] = self.reach;
        match self.scale {
            Scale::Log => {
                let (low, high) = (low.ln(), high.ln());
                if value > 0.0 { (value.ln() - low) / (high - low) } else { 0.0 }
            }
            _ => (value - low) / (high - low),
        }
    }

    /// Places of ticks with their words, some `about` of them.
    pub fn ticks(&self, about: usize) -> Vec<(f64, String)> {
        match &self.scale {
            Scale::Names { names } => (0u32..).zip(names).map(|(i, n)| (f64::from(i), n.to_string())).collect(),
            Scale::Log => self.log_ticks(about),
            Scale::Linear => self.linear_ticks(about),
        }
    }

    fn linear_ticks(&self, about: usize) -> Vec<(f64, String)> {
        let [low, high] = self.reach;
        let wanted = (high - low) / about.max(1) as f64;
        let Some(step) = self.unit.of_quantity().step(wanted) else { return Vec::new() };
        let first = (low / step).ceil();
        (0..=about * 4)
            .map(|i| (first + i as f64) * step)
            .take_while(|v| *v <= high + step * 1e-9)
            // Zero is zero and not what rounding left of it.
            .map(|v| if v.abs() < step * 1e-9 { 0.0 } else { v })
            .map(|v| (v, self.words(v, step)))
            .collect()
    }

    fn log_ticks(&self, about: usize) -> Vec<(f64, String)> {
        let [low, high] = self.reach;
        let decades = (high / low).log10();
        let steps: &[f64] = if decades <= 1.2 {
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]
        } else if decades <= 2.5 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let every = (decades / about.max(1) as f64).ceil().max(1.0) as i32;
        let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        (from..=to)
            .filter(|p| steps.len() > 1 || p.rem_euclid(every) == 0)
            .flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)))
            .filter(|v| (low..=high).contains(v))
            .map(|v| (v, self.words(v, v)))
            .collect()
    }

    /// A value in the axis' unit, as fine as `step` asks for.
    pub fn words(&self, value: f64, step: f64) -> String {
        self.unit.of_quantity().text(value, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(axis: &Axis, about: usize) -> Vec<String> {
        axis.ticks(about).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn sizes_that_span_decades_are_on_a_logarithmic_axis() {
        let of = |values: &[f64]| {
            let mut reach = Reach::default();
            values.iter().for_each(|value| reach.see(*value));
            let axis = Axis::sizes("latency", Unit::Time).over(reach);
            (axis.scale == Scale::Log, axis.label, axis.reach[0] <= 0.0)
        };
        assert_eq!(of(&[3.9e4, 4.4e7]), (true, "latency (logarithmic)".into(), false));
        assert_eq!(of(&[3.9e4, 3.8e6]), (false, "latency".into(), true));
        // A logarithmic axis has no place for nothing.
        assert_eq!(of(&[0.0, 3.9e4, 4.4e7]), (false, "latency".into(), true));
        assert_eq!(of(&[5.0]), (false, "latency".into(), true));
    }

    #[test]
    fn ticks_are_round_and_have_their_unit() {
        let over = |axis: Axis, low: f64, high: f64| Axis { reach: [low, high], ..axis };
        let time = over(Axis::log("t", Unit::Time), 900.0, 2.5e8);
        assert_eq!(words(&time, 6), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]);
        let near = over(Axis::log("t", Unit::Time), 9e6, 2.2e7);
        assert_eq!(words(&near, 6), ["10 ms", "15 ms", "20 ms"]);
        let rate = over(Axis::linear("r", Unit::Rate), 0.0, 9.5e8);
        assert_eq!(words(&rate, 5), ["0 Mbit/s", "200 Mbit/s", "400 Mbit/s", "600 Mbit/s", "800 Mbit/s"]);
        let share = over(Axis::linear("s", Unit::Share), -0.012, 0.009);
        assert_eq!(words(&share, 4), ["−1.0 %", "−0.5 %", "0.0 %", "0.5 %"]);
        let bytes = over(Axis::linear("b", Unit::Bytes), 0.0, 2.1e6);
        assert_eq!(words(&bytes, 4), ["0 KiB", "512 KiB", "1.0 MiB", "1.5 MiB", "2.0 MiB"]);
        let near = over(Axis::linear("t", Unit::Time), 190_000.0, 200_000.0);
        assert_eq!(words(&near, 5), ["190 µs", "192 µs", "194 µs", "196 µs", "198 µs", "200 µs"]);
        let sizes = over(Axis::linear("b", Unit::Bytes), 1_448.0, 1_449.0);
        assert_eq!(words(&sizes, 4), ["1,448.00 B", "1,448.25 B", "1,448.50 B", "1,448.75 B", "1,449.00 B"]);
        let names = Axis::names("n", ["a", "b"]).over(Reach::default());
        assert_eq!((names.reach, names.place(0.0), words(&names, 1).len()), ([-0.5, 1.5], 0.25, 2));
    }

    proptest! {
        #[test]
        fn no_value_breaks_an_axis(values in prop::collection::vec(prop::num::f64::ANY, 0..6), log: bool) {
            let axis = if log { Axis::log("a", Unit::Time) } else { Axis::linear("a", Unit::Rate) };
            let mut seen = Reach::default();
            values.iter().for_each(|v| seen.see(*v));
            let axis = axis.over(seen);
            prop_assert!(axis.reach[0] < axis.reach[1] || axis.reach[1].is_infinite() || axis.reach[0].abs() > 1e15, "{:?}", axis.reach);
            prop_assert!(axis.ticks(6).len() < 100);
        }

        /// What differs on an axis does not read the same: delays of 0.19 and 0.2 ms, sizes of
        /// 1,448 and 1,449 bytes, rates that are close.
        #[test]
        fn no_two_ticks_read_the_same(
            low in 0.0_f64..1e10, span in -9.0_f64..10.0, about in 1_usize..12, unit in 0_usize..5, log: bool,
        ) {
            let unit = [Unit::Plain, Unit::Time, Unit::Rate, Unit::Bytes, Unit::Share][unit];
            // A double has 16 digits: it cannot distinguish what is closer.
            let high = low + 10f64.powf(span).max(low * 1e-10);
            let axis = if log { Axis::log("a", unit) } else { Axis::linear("a", unit) };
            let mut seen = Reach::default();
            [low, high].into_iter().for_each(|v| seen.see(v));
            let ticks = axis.over(seen).ticks(about);
            let words: std::collections::BTreeSet<&String> = ticks.iter().map(|t| &t.1).collect();
            prop_assert_eq!(words.len(), ticks.len(), "{:?}", ticks);
        }
    }
}
