//! How far one host's clock is ahead of another's, from the traffic between them.
//!
//! A byte is never on its way for less than no time. So each one that goes from the first host to
//! the second bounds from above how far the second clock is ahead, and each one that comes back
//! bounds it from below. While both clocks run steadily the difference is a straight line in time,
//! and every line between all those bounds lies between the lower convex hull of the upper ones and
//! the upper convex hull of the lower ones. The estimate is the middle of the two, and half their
//! distance the bound on its error: about half the minimum RTT of the path. Which way took longer
//! cannot be known from the traffic.

use record::{Instant, Monotonic, Nanos};

/// A quartz is off by up to 100 ppm, and a time daemon changes its rate by up to 500 ppm
/// (`adjtimex`).
const FASTEST: f64 = 600e-6;
/// Crossings that a stretch of time has at least: with fewer it is not divided any more.
const FEWEST: usize = 8;

/// A byte's way from one host to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// When it left, by its sender's clock.
    pub left: Instant<Monotonic>,
    /// When it had arrived, by its receiver's clock.
    pub arrived: Instant<Monotonic>,
    /// Whether it went from the first host to the second.
    pub there: bool,
}

/// How far the second clock is ahead of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The estimate, nanoseconds; negative where it is behind.
    pub by: i128,
    /// The bound on its error, to either side.
    pub error: Nanos,
}

/// By how much the second clock runs faster than the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The estimate, millionths; negative where it runs slower.
    pub ppm: f64,
    /// The bound on its error, to either side.
    pub error_ppm: f64,
}

/// The second host's clock by the first's, over the time of the traffic.
#[derive(Clone, Debug)]
pub struct Clocks {
    origin: u64,
    base: i128,
    stretches: Vec<Stretch>,
}

/// Times are nanoseconds after the origin, differences are nanoseconds beyond the base.
type Point = (f64, f64);

/// A time in which the difference is a straight line.
#[derive(Clone, Debug)]
struct Stretch {
    until: f64,
    above: Vec<Point>,
    below: Vec<Point>,
}

impl Clocks {
    /// From all crossings of both directions; `None` where a direction has none, or where no steady
    /// clocks explain them.
    pub fn of(crossings: &[Crossing]) -> Option<Self> {
        let first = crossings.first()?;
        let (origin, base) = (crossings.iter().map(|c| c.at()).min()?, first.ahead());
        let mut bounds: Vec<(f64, f64, bool)> =
            crossings.iter().map(|c| ((c.at() - origin) as f64, (c.ahead() - base) as f64, c.there)).collect();
        bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut stretches = Vec::new();
        divide(&bounds, &mut stretches)?;
        Some(Self { origin, base, stretches })
    }

    /// How far the second clock is ahead at this time of the first.
    pub fn ahead(&self, at: Instant<Monotonic>) -> Ahead {
        let x = at.as_nanos() as f64 - self.origin as f64;
        let (low, high) = self.between(x);
        let by = self.base + ((low + high) / 2.0).round() as i128;
        // Half a nanosecond for rounding.
        Ahead { by, error: Nanos(((high - low) / 2.0).max(0.0).ceil() as u64 + 1) }
    }

    /// By how much the second clock runs faster over the whole time; `None` for less than a second.
    pub fn drift(&self) -> Option<Drift> {
        let until = self.stretches.last()?.until;
        if until < 1e9 {
            return None;
        }
        let [(low, high), (late_low, late_high)] = [0.0, until].map(|x| self.between(x));
        let ppm = ((late_low + late_high) - (low + high)) / 2.0 / until * 1e6;
        Some(Drift { ppm, error_ppm: ((late_high - late_low) + (high - low)) / 2.0 / until * 1e6 })
    }

    /// Into how many stretches the time was divided, in each of which the clocks run steadily.
    pub fn stretches(&self) -> usize {
        self.stretches.len()
    }

    fn between(&self, x: f64) -> (f64, f64) {
        let stretch = self.stretches.iter().find(|s| x <= s.until).or(self.stretches.last());
        stretch.map_or((0.0, 0.0), |s| (along(&s.below, x, -FASTEST), along(&s.above, x, FASTEST)))
    }
}

impl Crossing {
    /// When, by the first clock.
    fn at(&self) -> u64 {
        if self.there { self.left } else { self.arrived }.as_nanos()
    }

    /// The bound on how far the second clock is ahead.
    fn ahead(&self) -> i128 {
        let (left, arrived) = (i128::from(self.left.as_nanos()), i128::from(self.arrived.as_nanos()));
        if self.there { arrived - left } else { left - arrived }
    }
}

/// One stretch, or each half of the time by itself where no straight line lies between the bounds.
fn divide(bounds: &[(f64, f64, bool)], into: &mut Vec<Stretch>) -> Option<()> {
    let of = |there| bounds.iter().filter(move |b| b.2 == there).map(|&(x, y, _)| (x, y));
    let above = hull(of(true), 1.0);
    let below = hull(of(false), -1.0);
    if above.is_empty() || below.is_empty() {
        return None;
    }
    let apart = |x: f64| along(&above, x, FASTEST) - along(&below, x, -FASTEST);
    if above.iter().chain(&below).all(|&(x, _)| apart(x) >= 0.0) {
        into.push(Stretch { until: bounds.last()?.0, above, below });
        return Some(());
    }
    if bounds.len() < 2 * FEWEST {
        return None;
    }
    let (first, second) = bounds.split_at(bounds.len() / 2);
    divide(first, into)?;
    divide(second, into)
}

/// The lower convex hull of points in the order of time, or, where `side` is −1, the upper one.
fn hull(points: impl Iterator<Item = Point>, side: f64) -> Vec<Point> {
    let mut hull: Vec<Point> = Vec::new();
    for (x, y) in points {
        if let Some(last) = hull.last_mut()
            && last.0 == x
        {
            if (y - last.1) * side >= 0.0 {
                continue;
            }
            hull.pop();
        }
        while let [.., (ax, ay), (bx, by)] = hull[..]
            && ((by - ay) * (x - ax) - (y - ay) * (bx - ax)) * side >= 0.0
        {
            hull.pop();
        }
        hull.push((x, y));
    }
    hull
}

/// The hull's value at a time. Beyond its ends the bound loosens by what clocks can drift apart.
fn along(hull: &[Point], x: f64, loosens: f64) -> f64 {
    let after = hull.partition_point(|p| p.0 < x);
    match (after.checked_sub(1).and_then(|before| hull.get(before)), hull.get(after)) {
        (Some(&(ax, ay)), Some(&(bx, by))) => ay + (by - ay) * (x - ax) / (bx - ax),
        (Some(&(ax, ay)), None) => ay + (x - ax) * loosens,
        (None, Some(&(bx, by))) => by + (bx - x) * loosens,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the second clock shows when the first shows this.
    fn second(at: u64, ahead: i64, ppm: f64) -> u64 {
        (i128::from(at) + i128::from(ahead) + (at as f64 * ppm / 1e6) as i128) as u64
    }

    fn crossings(ways: &[(u64, bool, u32)], least: u64, ahead: i64, ppm: f64) -> Vec<Crossing> {
        let one = |&(at, there, more): &(u64, bool, u32)| {
            let (from, to) = (at, at + least + u64::from(more));
            let (left, arrived) = if there { (from, second(to, ahead, ppm)) } else { (second(from, ahead, ppm), to) };
            Crossing { left: Instant::from_nanos(left), arrived: Instant::from_nanos(arrived), there }
        };
        ways.iter().map(one).collect()
    }

    proptest! {
        #[test]
        fn the_true_difference_is_within_the_stated_error(
            mut ways in proptest::collection::vec((1_u64 << 40..1 << 44, any::<bool>(), 0_u32..20_000_000), 2..200),
            least in 0_u64..50_000_000,
            ahead in -500_000_000_000_i64..500_000_000_000_000,
            ppm in -200.0..200.0_f64,
        ) {
            (ways[0].1, ways[1].1) = (true, false);
            let clocks = Clocks::of(&crossings(&ways, least, ahead, ppm)).unwrap();
            prop_assert_eq!(clocks.stretches(), 1);
            for (at, ..) in ways {
                let known = clocks.ahead(Instant::from_nanos(at));
                let truth = i128::from(second(at, ahead, ppm)) - i128::from(at);
                let slack = i128::from(known.error.0) + 2;
                prop_assert!((known.by - truth).abs() <= slack, "{:?}, and it is {}", known, truth);
            }
        }
    }

    #[test]
    fn the_error_is_half_the_minimum_rtt() {
        let ways: Vec<_> =
            (0..200_u64).map(|i| (i * 10_000_000, i % 2 == 0, (i * 7919 % 97 * 30_000) as u32)).collect();
        let clocks = Clocks::of(&crossings(&ways, 5_000_000, 1_234_567, 40.0)).unwrap();
        let middle = clocks.ahead(Instant::from_nanos(1_000_000_000));
        assert!((5_000_000..5_300_000).contains(&middle.error.0), "{middle:?}");
        assert!((middle.by - 1_274_567).abs() < 300_000, "{middle:?}");
        let ways: Vec<_> = (0..200_u64).map(|i| (i * 10_000_000_000, i % 2 == 0, 0)).collect();
        let drift = Clocks::of(&crossings(&ways, 5_000_000, 1_234_567, 40.0)).unwrap().drift().unwrap();
        assert!((drift.ppm - 40.0).abs() <= drift.error_ppm && drift.error_ppm < 10.0, "{drift:?}");
    }

    #[test]
    fn a_clock_that_is_set_meanwhile_divides_the_time() {
        let ways: Vec<_> = (0..64_u64).map(|i| (1_000_000_000 + i * 10_000_000, i % 2 == 0, 0)).collect();
        let mut all = crossings(&ways[..32], 100_000, 0, 0.0);
        all.extend(crossings(&ways[32..], 100_000, 50_000_000, 0.0));
        let clocks = Clocks::of(&all).unwrap();
        assert!(clocks.stretches() >= 2);
        let late = clocks.ahead(Instant::from_nanos(1_600_000_000));
        assert!((late.by - 50_000_000).abs() <= i128::from(late.error.0), "{late:?}");
    }

    #[test]
    fn one_direction_alone_says_nothing() {
        assert!(Clocks::of(&crossings(&[(5, true, 0), (9, true, 0)], 1, 0, 0.0)).is_none());
        assert!(Clocks::of(&[]).is_none());
    }
}
