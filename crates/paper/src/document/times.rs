//! Times of records: their distributions, and the slowest of them.

use record::Nanos;

use crate::plot::{Hue, Plot};
use crate::text::Text;

/// Histograms over one axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// What they show.
    pub title: String,
    /// One above the other.
    pub series: Vec<Series>,
}

/// The times of one leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its colour; the total has none.
    pub hue: Option<Hue>,
    /// Times in nanoseconds with how often each occurs, rising.
    pub values: Vec<(u64, u64)>,
}

/// The slowest records of one kind, the slowest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Waterfalls {
    /// One of them: `send`.
    pub thing: &'static str,
    /// Which of them, where the thing does not say it: `, received`.
    pub which: &'static str,
    /// How many a terminal shows.
    pub shown: usize,
    /// All that are kept.
    pub items: Vec<Waterfall>,
    /// The same as a plot.
    pub plot: Box<Plot>,
}

/// One slow record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waterfall {
    /// How long it took.
    pub total: Nanos,
    /// Its bytes, its program, and when it began.
    pub what: Vec<String>,
    /// The ends of its connection, or the number of that.
    pub connection: Text,
    /// Its legs, each after the one before it.
    pub bars: Vec<Bar>,
    /// Why legs are not there.
    pub missing: Option<&'static str>,
    /// Its other figures.
    pub figures: Vec<String>,
}

/// A leg of a slow record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The leg.
    pub name: &'static str,
    /// Its colour.
    pub hue: Hue,
    /// How long it took.
    pub time: Nanos,
    /// The same in words; what it is at most, where its error is larger.
    pub figure: String,
    /// Why, or how surely.
    pub note: String,
}
