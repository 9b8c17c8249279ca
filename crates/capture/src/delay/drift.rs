//! Two clocks that run apart, as the delays show it.
//!
//! A delay that is measured by two clocks is the true one, plus what waited, plus an offset that
//! grows by the difference of the clocks' rates. Waiting only adds, so the least delays of short
//! stretches follow the clocks (Moon, Skelly and Towsley, *Estimation and Removal of Clock Skew
//! from Network Delay Measurements*, 1999). A step of the device's delay moves them too, so the
//! slope is taken between steps: a line below all delays would run from the low side of a step to
//! the other end.

use std::ops::Range;

use super::series::Stretch;

/// How the least delays rise or fall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// How fast they rise: the mean difference of the clocks' rates, parts in 10⁹.
    pub ppb: f64,
    /// The bound on that, to either side: how far the slopes of pieces of the time are from it.
    pub error_ppb: f64,
    /// How far the least delays are from a straight line between steps: what the clocks wander by,
    /// or the device, nanoseconds.
    pub wander_ns: f64,
    /// Whether the delays follow the line between steps: what is left beside it is small against
    /// what it explains. A device's delay that changes for other reasons does not rise by the same
    /// amount every second.
    pub is_straight: bool,
    from_ns: u64,
}

/// Fewer stretches than this show no slope.
const FEWEST: usize = 20;

/// The line explains the delays where their deviation from it is below this share of their
/// deviation from a level.
const LEFT: f64 = 0.3;

/// Pieces of the time: their slopes are compared.
const PIECES: usize = 8;

/// The most steps that are looked for.
const MOST_STEPS: usize = 10;

impl Drift {
    /// How far the delays have risen by a moment of the first tap's clock, nanoseconds.
    pub fn at(&self, at_ns: u64) -> f64 {
        self.ppb * 1e-9 * (at_ns as f64 - self.from_ns as f64)
    }
}

/// The lower edge of a series.
pub(super) fn lower_edge(series: &[Stretch]) -> Option<Drift> {
    if series.len() < FEWEST {
        return None;
    }
    let from_ns = series.first()?.at_ns;
    let points: Vec<[f64; 2]> =
        series.iter().map(|s| [s.at_ns.saturating_sub(from_ns) as f64, s.min_ns as f64]).collect();
    let width = (points.len() / 50).max(3);
    let parts = parts(&points, width)?;
    let slope = whole_slope(&points, &parts, width)?;
    // The slopes of shorter pieces differ where the clocks' rates wander, and where noise is more
    // than they rise by.
    let piece = (points.len() / PIECES).max(2 * width);
    let pieces = parts.iter().flat_map(|part| {
        let n = (part.len() / piece).max(2);
        (0..n).map(move |i| part.start + part.len() * i / n..part.start + part.len() * (i + 1) / n)
    });
    let slopes = pieces.filter_map(|piece| slope_of(&points[piece.clone()], (piece.len() / 5).max(1)));
    // A clock that counts in slots shows no less than one of them over the whole time.
    let lasts = points.last()?[0] - points.first()?[0];
    let error = slopes.map(|of| (of - slope).abs()).fold(2.0 * slot(&points) / lasts.max(1.0), f64::max);
    // What is left beside the line, in each part by itself: a step is the device's.
    let left: Vec<f64> = points.iter().map(|p| p[1] - slope * p[0]).collect();
    let wander: f64 = parts.iter().filter_map(|part| range(&middles(&left[part.clone()], width))).sum();
    let deviation = |slope: f64| {
        let beside = parts.iter().flat_map(|part| {
            let left: Vec<f64> = part.clone().map(|i| series[i].median_ns - slope * points[i][0]).collect();
            let level = stats::mean(&left).unwrap_or(0.0);
            left.into_iter().map(move |l| l - level)
        });
        stats::deviation(&beside.collect::<Vec<_>>())
    };
    let is_straight = deviation(slope)? < LEFT * deviation(0.0)?;
    Some(Drift { ppb: slope * 1e9, error_ppb: error * 1e9, wander_ns: wander, is_straight, from_ns })
}

/// The parts of a series between steps: none is where it changes abruptly. A step stands out from
/// the changes that the series has over the same time everywhere; what a clock wanders by does not.
fn parts(points: &[[f64; 2]], width: usize) -> Option<Vec<Range<usize>>> {
    let lag = (points.len() / 10).max(1);
    let slopes: Vec<f64> =
        points.windows(lag + 1).map(|w| (w[lag][1] - w[0][1]) / (w[lag][0] - w[0][0]).max(1.0)).collect();
    let slope = stats::median(&slopes)?;
    let left: Vec<f64> = points.iter().map(|p| p[1] - slope * p[0]).collect();
    let jump = |i: usize| Some((i, (stats::median(&left[i..i + width])? - stats::median(&left[i - width..i])?).abs()));
    let mut jumps: Vec<(usize, f64)> = (width..=left.len() - width).filter_map(jump).collect();
    let usual = stats::median(&jumps.iter().map(|j| j.1).collect::<Vec<_>>())?;
    let mut next: Vec<f64> = left.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    next.sort_unstable_by(f64::total_cmp);
    let noise = stats::quantile(&next, 0.98)?;
    let least = (8.0 * usual).max(4.0 * noise).max(1.0);
    let mut steps = Vec::new();
    while let Some(&(at, _)) = jumps.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|j| j.1 > least)
        && steps.len() < MOST_STEPS
    {
        steps.push(at);
        jumps.retain(|j| j.0.abs_diff(at) > 2 * width);
    }
    steps.sort_unstable();
    let starts = std::iter::once(0).chain(steps.iter().map(|at| at + width));
    let ends = steps.iter().map(|at| at - width).chain([points.len()]);
    let parts: Vec<_> = starts.zip(ends).map(|(from, to)| from..to).filter(|part| part.len() >= 2 * width).collect();
    (!parts.is_empty()).then_some(parts)
}

/// The mean slope over the parts, each counted by the time that it lasts.
fn whole_slope(points: &[[f64; 2]], parts: &[Range<usize>], width: usize) -> Option<f64> {
    let (mut rise, mut time) = (0.0, 0.0);
    for part in parts {
        let of = &points[part.clone()];
        let lasts = of.last()?[0] - of.first()?[0];
        rise += slope_of(of, width)? * lasts;
        time += lasts;
    }
    (time > 0.0).then(|| rise / time)
}

/// From the middle of the first `width` points to that of the last.
fn slope_of(points: &[[f64; 2]], width: usize) -> Option<f64> {
    let middle = |points: &[[f64; 2]]| {
        let of = |axis: usize| stats::median(&points.iter().map(|p| p[axis]).collect::<Vec<_>>());
        Some([of(0)?, of(1)?])
    };
    let width = width.min(points.len() / 2);
    let (first, last) = (middle(points.get(..width)?)?, middle(&points[points.len() - width..])?);
    (last[0] > first[0]).then(|| (last[1] - first[1]) / (last[0] - first[0]))
}

/// The least difference between two delays: what the clocks count in.
fn slot(points: &[[f64; 2]]) -> f64 {
    let mut delays: Vec<f64> = points.iter().map(|p| p[1]).collect();
    delays.sort_unstable_by(f64::total_cmp);
    delays.windows(2).map(|w| w[1] - w[0]).filter(|of| *of > 0.0).reduce(f64::min).unwrap_or(1.0)
}

/// Moving medians.
fn middles(values: &[f64], width: usize) -> Vec<f64> {
    values.windows(width).filter_map(stats::median).collect()
}

fn range(values: &[f64]) -> Option<f64> {
    Some(values.iter().copied().reduce(f64::max)? - values.iter().copied().reduce(f64::min)?)
}
