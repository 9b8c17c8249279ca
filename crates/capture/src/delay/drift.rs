//! Two clocks that run apart, as the delays show it.
//!
//! A delay that is measured by two clocks is the true one, plus what waited, plus an offset that grows by the difference of the clocks'
//! rates. Waiting only adds, so the lower edge of the delays follows the clocks: it is the line below all delays with the least room
//! between (Moon, Skelly and Towsley, *Estimation and Removal of Clock Skew from Network Delay Measurements*, 1999). That line
//! is the edge of the lower convex hull at the middle of the time.

use super::series::Stretch;

/// A straight lower edge of the delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// How fast the delays rise: the difference of the clocks' rates, parts in 10⁹.
    pub ppb: f64,
    /// The bound on that, to either side: how far the slopes of the two halves of the time differ.
    pub error_ppb: f64,
    /// Whether the delays follow the line: what is left beside it is small against what it explains. A device's delay that changes
    /// for other reasons does not rise by the same amount every second.
    pub is_straight: bool,
    from_ns: u64,
    level_ns: f64,
}

/// Fewer stretches than this show no slope.
const FEWEST: usize = 20;

/// The line explains the delays where their deviation from it is below this share of their deviation from a level. A step in the
/// middle leaves half.
const LEFT: f64 = 0.3;

impl Drift {
    /// The edge at a moment of the first tap's clock, nanoseconds of delay.
    pub fn at(&self, at_ns: u64) -> f64 {
        self.level_ns + self.ppb * 1e-9 * (at_ns as f64 - self.from_ns as f64)
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
    let (slope, level) = hull_edge(&points)?;
    let (first, second) = points.split_at(points.len() / 2);
    let error = (hull_edge(first)?.0 - hull_edge(second)?.0).abs();
    let deviation = |slope: f64| {
        let left: Vec<f64> = series.iter().zip(&points).map(|(s, p)| s.median_ns - slope * p[0]).collect();
        stats::deviation(&left)
    };
    let is_straight = deviation(slope)? < LEFT * deviation(0.0)?;
    Some(Drift { ppb: slope * 1e9, error_ppb: error * 1e9, is_straight, from_ns, level_ns: level })
}

/// Slope and level at 0 of the lower hull's edge below the middle of points with rising first coordinates.
fn hull_edge(points: &[[f64; 2]]) -> Option<(f64, f64)> {
    let mut hull: Vec<[f64; 2]> = Vec::new();
    for &c in points {
        if hull.last().is_some_and(|last| last[0] >= c[0]) {
            continue;
        }
        while let [.., a, b] = hull[..]
            && (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
        {
            hull.pop();
        }
        hull.push(c);
    }
    let middle = points.iter().map(|p| p[0]).sum::<f64>() / points.len().max(1) as f64;
    let edge = hull.windows(2).find(|edge| edge[1][0] >= middle)?;
    let slope = (edge[1][1] - edge[0][1]) / (edge[1][0] - edge[0][0]);
    Some((slope, edge[0][1] - slope * edge[0][0]))
}
