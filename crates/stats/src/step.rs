//! Steps of a curve along a swept factor: at which size or delay does it break, by how much, and
//! how surely there.
//!
//! The curve is taken as straight pieces in the logarithms of x and y, and the pieces that cost
//! least are found exactly, by dynamic programming over all places to break (Bellman 1961), each
//! break charged as the Bayesian information criterion charges three parameters. A kink is no step:
//! the two pieces must also stand apart where they meet. The place's interval holds every place
//! that the likelihood ratio cannot distinguish from the best one: its distribution for the place
//! of a break is known, with the quantile −2 ln(1 − √confidence) (Hansen, *Econometrica* 68, 2000,
//! theorem 2).

use serde::{Deserialize, Serialize};

use crate::sample::median;

/// A place where the curve breaks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The last x before it.
    pub after: f64,
    /// The first x beyond it.
    pub at: f64,
    /// The break lies above this with the confidence asked for …
    pub low: f64,
    /// … and at or below this.
    pub high: f64,
    /// By how much y jumps there: 2 is doubled.
    pub ratio: f64,
}

/// What counts as a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The smallest jump, as a ratio above 1: 1.1 is 10 % to either side.
    pub smallest_ratio: f64,
    /// Of the interval.
    pub confidence: f64,
}

impl Default for Search {
    fn default() -> Self {
        Self { smallest_ratio: 1.1, confidence: 0.95 }
    }
}

/// No curve that was measured is known better than this, in logarithms: 1 %.
const LEAST_NOISE: f64 = 0.01;

/// The most different x that are taken; the search takes time with the square of them.
const MOST: usize = 2_000;

/// Running sums over the points, so that the fit of any piece takes no time.
#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    u: f64,
    v: f64,
    uu: f64,
    uv: f64,
    vv: f64,
}

/// A straight piece: v = level + slope·u.
#[derive(Clone, Copy)]
struct Line {
    level: f64,
    slope: f64,
    residual: f64,
}

impl Sums {
    fn add(self, u: f64, v: f64) -> Self {
        Self {
            n: self.n + 1.0,
            u: self.u + u,
            v: self.v + v,
            uu: self.uu + u * u,
            uv: self.uv + u * v,
            vv: self.vv + v * v,
        }
    }

    fn line_since(self, before: Self) -> Line {
        let n = self.n - before.n;
        let (u, v) = ((self.u - before.u) / n, (self.v - before.v) / n);
        let spread = (self.uu - before.uu) - n * u * u;
        let together = (self.uv - before.uv) - n * u * v;
        let slope = if spread > 1e-12 { together / spread } else { 0.0 };
        let residual = ((self.vv - before.vv) - n * v * v - slope * together).max(0.0);
        Line { level: v - slope * u, slope, residual }
    }
}

/// The points, x by x.
struct Curve {
    /// Logarithm of each x, rising.
    u: Vec<f64>,
    /// For each, the logarithms of its y.
    v: Vec<Vec<f64>>,
}

impl Curve {
    fn of(points: &[(f64, f64)]) -> Option<Self> {
        let mut kept: Vec<(f64, f64)> =
            points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite() && *x > 0.0 && *y > 0.0).collect();
        kept.sort_by(|a, b| a.0.total_cmp(&b.0));
        let groups = kept.chunk_by(|a, b| a.0 == b.0);
        let (u, v): (Vec<f64>, Vec<Vec<f64>>) =
            groups.map(|group| (group[0].0.ln(), group.iter().map(|p| p.1.ln()).collect::<Vec<_>>())).unzip();
        (u.len() >= 4 && u.len() <= MOST).then_some(Self { u, v })
    }

    /// The deviation of one measurement about the curve: from repetitions where there are enough of
    /// them, else from neighbours, robustly, so that the steps themselves do not count.
    fn noise(&self) -> f64 {
        let (mut squares, mut degrees) = (0.0, 0.0);
        for v in &self.v {
            let mean = v.iter().sum::<f64>() / v.len() as f64;
            squares += v.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            degrees += v.len() as f64 - 1.0;
        }
        let noise = if degrees >= 3.0 {
            (squares / degrees).sqrt()
        } else {
            let apart: Vec<f64> = self.v.windows(2).map(|w| (w[1][0] - w[0][0]).abs()).collect();
            median(&apart).unwrap_or(0.0) / 0.6745 / std::f64::consts::SQRT_2
        };
        noise.max(LEAST_NOISE)
    }

    fn sums(&self) -> Vec<Sums> {
        let mut sums = vec![Sums::default()];
        for (u, v) in self.u.iter().zip(&self.v) {
            sums.push(v.iter().fold(sums[sums.len() - 1], |s, v| s.add(*u, *v)));
        }
        sums
    }

    /// The pieces, each with the index of its first x.
    fn pieces(&self, sums: &[Sums], noise: f64) -> Vec<(usize, Line)> {
        let k = self.u.len();
        let charge = 3.0 * sums[k].n.ln() * noise * noise;
        // best[j]: cost of the first j positions, and where its last piece begins.
        let mut best = vec![(f64::INFINITY, 0usize); k + 1];
        best[0] = (-charge, 0);
        for end in 2..=k {
            for start in (0..=end - 2).filter(|&s| s != 1) {
                let cost = best[start].0 + charge + sums[end].line_since(sums[start]).residual;
                if cost < best[end].0 {
                    best[end] = (cost, start);
                }
            }
        }
        let mut pieces = Vec::new();
        let mut end = k;
        while end > 0 {
            let start = best[end].1;
            pieces.push((start, sums[end].line_since(sums[start])));
            end = start;
        }
        pieces.reverse();
        pieces
    }

    /// Where pieces stand apart: the index of the first x beyond, and the jump in logarithms.
    fn steps(&self, pieces: &[(usize, Line)], smallest: f64) -> Vec<(usize, f64)> {
        let mean = |i: usize| self.v[i].iter().sum::<f64>() / self.v[i].len() as f64;
        let jumps = pieces.windows(2).map(|w| {
            let ((_, left), (at, right)) = (w[0], w[1]);
            // Where the two x lie far apart neither line is to be trusted beyond its own.
            let u = (self.u[at - 1] + self.u[at]) / 2.0;
            let fitted = (right.level + right.slope * u) - (left.level + left.slope * u);
            (at, fitted, mean(at) - mean(at - 1))
        });
        jumps
            .filter(|(_, fitted, seen)| fitted.abs() >= smallest && seen * fitted.signum() >= smallest / 2.0)
            .map(|(at, fitted, _)| (at, fitted))
            .collect()
    }
}

/// The steps of the curve through `points` (x, y), in rising x. Points with an x or y not above
/// zero are excluded; with fewer than four different x, or more than 2,000, there are none.
pub fn steps(points: &[(f64, f64)], search: Search) -> Vec<Step> {
    let Some(curve) = Curve::of(points) else { return Vec::new() };
    let (noise, smallest) = (curve.noise(), search.smallest_ratio.max(1.0).ln());
    let sums = curve.sums();
    let pieces = curve.pieces(&sums, noise);
    let x = |i: usize| curve.u.get(i).map_or(f64::NAN, |u| tidy(u.exp()));
    let allowed = -2.0 * (1.0 - search.confidence.clamp(0.0, 0.999_999).sqrt()).ln() * noise * noise;
    let found = curve.steps(&pieces, smallest);
    let borders = |at: usize| {
        let piece = pieces.iter().position(|p| p.0 == at).unwrap_or(0);
        (pieces[piece.saturating_sub(1)].0, pieces.get(piece + 1).map_or(curve.u.len(), |p| p.0))
    };
    found
        .into_iter()
        .map(|(at, jump)| {
            let (start, end) = borders(at);
            let cost = |j: usize| sums[j].line_since(sums[start]).residual + sums[end].line_since(sums[j]).residual;
            let like = |j: &usize| cost(*j) - cost(at) <= allowed;
            let places = start + 2..=end.saturating_sub(2);
            let low = places.clone().find(like).unwrap_or(at).min(at);
            let high = places.rev().find(like).unwrap_or(at).max(at);
            Step { after: x(at - 1), at: x(at), low: x(low - 1), high: x(high), ratio: jump.exp() }
        })
        .collect()
}

/// Whole numbers come back from their logarithms as whole numbers.
fn tidy(x: f64) -> f64 {
    if (x - x.round()).abs() < 1e-9 * x { x.round() } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::generator;
    use rand::RngExt as _;

    const SIZES: [u32; 22] = [
        1, 10, 50, 100, 200, 400, 600, 700, 715, 720, 722, 723, 724, 725, 730, 740, 800, 900, 1_000, 1_024, 1_200,
        1_448,
    ];

    /// The table of 1999 by its rule: below half the MSS the reply waits for a delayed ACK. Between
    /// the four published figures the rate follows the straight line through each pair.
    fn of_1999(size: u32) -> f64 {
        let x = f64::from(size);
        if size < 724 {
            46.51 + (47.68 - 46.51) * (x - 10.0) / 713.0
        } else {
            279.62 + (300.92 - 279.62) * (x - 724.0) / 300.0
        }
    }

    #[test]
    fn finds_724_in_the_table_of_1999() {
        let mut rng = generator(1);
        let points: Vec<(f64, f64)> = SIZES
            .iter()
            .flat_map(|&s| [0; 5].map(|_| s))
            .map(|s| (f64::from(s), of_1999(s) * (1.0 + 0.03 * (rng.random::<f64>() - 0.5))))
            .collect();
        let found = steps(&points, Search::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].after, found[0].at, found[0].low, found[0].high), (723.0, 724.0, 723.0, 724.0));
        assert!((found[0].ratio / (279.62 / 47.68) - 1.0).abs() < 0.03, "{found:?}");
        // The four published figures alone, too.
        let four = [(10.0, 46.51), (723.0, 47.68), (724.0, 279.62), (1_024.0, 300.92)];
        let found = steps(&four, Search::default());
        assert_eq!(found.iter().map(|s| (s.after, s.at)).collect::<Vec<_>>(), [(723.0, 724.0)]);
    }

    #[test]
    fn a_smooth_curve_has_no_step() {
        let mut rng = generator(2);
        for _ in 0..40 {
            let points: Vec<(f64, f64)> = (0..40)
                .flat_map(|i| [0; 3].map(|_| 2f64.powf(f64::from(i) / 2.5)))
                .map(|x| (x, 20_000.0 / (1.0 + x / 3_000.0) * (1.0 + 0.04 * (rng.random::<f64>() - 0.5))))
                .collect();
            let found = steps(&points, Search::default());
            assert!(found.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn two_steps_and_an_unsure_place() {
        let mut rng = generator(5);
        let mut noisy = |y: f64, noise: f64| y * (1.0 + noise * (rng.random::<f64>() - 0.5));
        let points: Vec<(f64, f64)> = (1..60)
            .flat_map(|i| [0; 4].map(|_| f64::from(i)))
            .map(|x| {
                (
                    x,
                    noisy(
                        if x < 20.0 {
                            10.0
                        } else if x < 40.0 {
                            25.0
                        } else {
                            5.0
                        },
                        0.1,
                    ),
                )
            })
            .collect();
        let found = steps(&points, Search::default());
        assert_eq!(found.iter().map(|s| s.at).collect::<Vec<_>>(), [20.0, 40.0], "{found:?}");
        let (mut found, mut covered) = (0, 0);
        for _ in 0..100 {
            let blurred: Vec<(f64, f64)> =
                (1..60).map(f64::from).map(|x| (x, noisy(if x < 30.0 { 10.0 } else { 14.0 }, 0.4))).collect();
            for step in steps(&blurred, Search::default()).iter().filter(|s| s.ratio > 1.0) {
                found += 1;
                covered += u32::from(step.low < 30.0 && step.high >= 30.0);
            }
        }
        assert!(found >= 90 && covered * 100 >= found * 90, "{covered} of {found}");
    }

    #[test]
    fn odd_input_gives_nothing() {
        assert!(steps(&[], Search::default()).is_empty());
        assert!(steps(&[(1.0, f64::NAN), (0.0, 1.0), (-1.0, 2.0)], Search::default()).is_empty());
        assert!(steps(&[(1.0, 1.0); 50], Search::default()).is_empty());
    }
}
