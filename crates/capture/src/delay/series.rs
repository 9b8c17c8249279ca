//! The delay over time: stretches of equally many frames, and where its level changes.

use stats::{Estimate, series_mean};

/// The confidence of every interval.
pub(super) const CONFIDENCE: f64 = 0.95;

/// A change of level is at least this many times the deviation of the stretches' medians about it.
/// Smaller ones are what a machine does by itself.
pub(super) const STANDS_OUT: f64 = 3.0;

/// Equally many matched frames in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// When the first of them was seen before the device.
    pub at_ns: u64,
    /// How many.
    pub n: usize,
    /// The least delay.
    pub min_ns: i64,
    /// The median delay.
    pub median_ns: f64,
    /// The mean delay.
    pub mean_ns: f64,
    /// The largest delay.
    pub max_ns: i64,
}

/// A change of the delay's level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The matched frame, counted from 0, that begins the new level.
    pub frame: usize,
    /// When it was seen before the device.
    pub at_ns: u64,
    /// The new level minus the old one.
    pub size: Estimate,
}

impl Change {
    /// None: of size 0 at the first frame.
    pub const NONE: Self = Self {
        frame: 0,
        at_ns: 0,
        size: Estimate {
            value: 0.0,
            low: 0.0,
            high: 0.0,
            confidence: CONFIDENCE,
            n: 0,
            method: stats::Method::StudentT,
        },
    };
}

/// The mean `whole` of all delays with its interval, from the means of the stretches within each
/// level: neighbouring delays are not independent, and a change of level is no uncertainty of the
/// mean.
pub(super) fn mean_about(series: &[Stretch], changes: &[Change], whole: f64) -> Option<Estimate> {
    let means: Vec<f64> = series.iter().map(|s| s.mean_ns).collect();
    let of = |levels: &[&[f64]]| series_mean(levels, CONFIDENCE);
    // A level of a single stretch shows no scatter: all are then taken as one.
    let interval = of(&levels(&means, series, changes)).or_else(|| of(&[&means]))?;
    Some(interval.map(|ns| ns + whole - interval.value))
}

/// The values of the stretches, cut where the level changes.
pub(super) fn levels<'a>(values: &'a [f64], series: &[Stretch], changes: &[Change]) -> Vec<&'a [f64]> {
    let place = |change: &Change| series.partition_point(|s| s.at_ns < change.at_ns);
    let ends: Vec<usize> = [0].into_iter().chain(changes.iter().map(place)).chain([values.len()]).collect();
    ends.windows(2).filter_map(|pair| values.get(pair[0]..pair[1])).collect()
}
