//! One metric with its points, before it is encoded.

use record::histogram::{Exemplars, Histogram};

/// What kind of figure a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until what it counts begins anew.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution of durations; only grows.
    Histogram,
}

/// The value of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A whole number.
    Whole(u64),
    /// A real number.
    Real(f64),
    /// A distribution, and what it names as examples of its values; its sum and bounds are in
    /// seconds.
    Histogram(&'a Histogram, Option<&'a Exemplars>),
}

/// One figure of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    /// Names, in OpenTelemetry's spelling, and values.
    pub labels: &'a [(&'static str, String)],
    /// Further labels: they differ between the points of one series.
    pub more: [Option<(&'static str, &'a str)>; 2],
    /// Since when it counts, nanoseconds of Unix time.
    pub since_ns: u64,
    /// The figure.
    pub value: Value<'a>,
}

impl Point<'_> {
    /// All labels.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.labels.iter().map(|(name, value)| (*name, value.as_str())).chain(self.more.into_iter().flatten())
    }
}

/// One metric: its description and its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Family<'a> {
    /// The name in OpenTelemetry's spelling, such as `wirelapse.send.duration`.
    pub name: &'static str,
    /// The unit as UCUM writes it: `s`, `By`, `{send}`.
    pub unit: &'static str,
    /// What it is, in one sentence.
    pub help: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Its points.
    pub points: Vec<Point<'a>>,
}
