//! How hours differ where nothing changed.
//!
//! What an hour of a group has in common with the others of its kind at the same time, with the
//! same hour of the week before, and with the hour before it: three shares between 0 and 1, found
//! from all groups of that kind. With these an hour is turned into what is new in it, of which each
//! is by itself. A slow-down is seen by how it begins and ends as well as by its height.
//!
//! Where hours jump by themselves, further than a normal distribution has it, by as much less is a
//! slow-down sure: Student's t with the tails that are found.

use stats::Judgement;

use super::effects::Hours;
use super::windows::Window;
use super::{CLAIMED, Candidate};

/// Shares are no more than this.
const MOST: f64 = 0.95;
/// Values that the share of neighbouring hours of all kinds counts as, in that of one kind.
const ALL_KINDS: f64 = 100.0;
/// How much alike the spreads of groups can be seen to be, in values.
const ALIKE: (f64, f64) = (4.0, 1_000.0);
/// How many times as far from the middle 97 % of values are as half of them, by degrees of freedom
/// of Student's t.
const TAILS: [(f64, f64); 9] = [
    (3.0, 5.094),
    (4.0, 4.452),
    (5.0, 4.132),
    (6.0, 3.942),
    (8.0, 3.729),
    (10.0, 3.612),
    (15.0, 3.468),
    (20.0, 3.401),
    (30.0, 3.337),
];
/// The same of the normal distribution.
const NORMAL: f64 = 3.217;
/// The standard error of the logarithm of that figure, times the root of the number of values.
const TAILS_ERROR: f64 = 1.6;
/// Fewer hours show no spread.
const FEWEST: f64 = 6.0;

/// All kinds.
#[derive(Debug)]
pub struct Noise {
    /// Each of them.
    pub kinds: Vec<Kind>,
    /// As how many values of each group's own spread that of its kind counts (Smyth 2004).
    alike: f64,
    /// The degrees of freedom of Student's t that has their tails; infinite where they are normal.
    tails: f64,
}

/// One kind.
#[derive(Debug)]
pub struct Kind {
    /// Its groups.
    pub series: Vec<Series>,
}

/// One group.
#[derive(Debug)]
pub struct Series {
    /// What is new in each hour; NaN where there is nothing.
    new: Hours,
    /// The same of a value that is one in every hour.
    level: Hours,
    /// What the later week's hour is multiplied with before what is new in it.
    scale: Vec<f64>,
    neighbours: f64,
    /// Sums of squares and products of these, and how many hours there are.
    levels: f64,
    product: f64,
    squares: f64,
    n: f64,
    /// The variance of the kind.
    usual: f64,
}

/// Sums over pairs of values, and how much one follows from the other.
#[derive(Clone, Copy, Default)]
struct Pairs {
    product: f64,
    first: f64,
    second: f64,
    n: f64,
}

impl Pairs {
    fn add(&mut self, a: f64, b: f64) {
        if a.is_finite() && b.is_finite() {
            self.product += a * b;
            self.first += a * a;
            self.second += b * b;
            self.n += 1.0;
        }
    }

    /// The share of the second in the first.
    fn slope(&self) -> f64 {
        if self.second > 0.0 { (self.product / self.second).clamp(0.0, MOST) } else { 0.0 }
    }

    fn correlation(&self) -> f64 {
        let both = (self.first * self.second).sqrt();
        if both > 0.0 { (self.product / both).clamp(0.0, MOST) } else { 0.0 }
    }
}

impl Noise {
    /// Of the groups of each kind.
    pub fn of(kinds: &[&[Hours]]) -> Self {
        let mut all: Vec<Vec<[Hours; 3]>> = kinds.iter().map(|of| against_others_and_week(of)).collect();
        let each: Vec<(f64, f64)> = all.iter().map(|kind| neighbours(kind)).collect();
        let known: f64 = each.iter().map(|(_, n)| n).sum();
        let together = each.iter().map(|(r, n)| r * n).sum::<f64>() / known.max(1.0);
        let mut kinds: Vec<Kind> = all
            .drain(..)
            .zip(each)
            .map(|(kind, (r, n))| {
                let neighbours = ((r * n + together * ALL_KINDS) / (n + ALL_KINDS)).clamp(0.0, MOST);
                Kind { series: kind.into_iter().map(|parts| Series::of(parts, neighbours)).collect() }
            })
            .collect();
        let alike = spreads(&mut kinds);
        let tails = tails(&kinds);
        Self { kinds, alike, tails }
    }
}

/// Each group's hours less what they have in common with the others of its kind and with the week
/// before; beside them the same of a value that is one everywhere, and of one that is one in the
/// later week.
fn against_others_and_week(kind: &[Hours]) -> Vec<[Hours; 3]> {
    let centered: Vec<Hours> = kind.iter().map(less_mean).collect();
    let others = |number: usize, at: usize, week: usize| {
        let all = centered.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, of)| of[at][week]);
        let (sum, n) = all.filter(|v| v.is_finite()).fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
        if n > 0.0 { sum / n } else { 0.0 }
    };
    let length = kind.first().map_or(0, Vec::len);
    let others: Vec<Hours> = (0..kind.len())
        .map(|number| (0..length).map(|at| [0, 1].map(|week| others(number, at, week))).collect())
        .collect();
    let mut with_others = Pairs::default();
    for (own, others) in centered.iter().zip(&others) {
        let pairs = own.iter().flatten().zip(others.iter().flatten());
        pairs.for_each(|(own, others)| with_others.add(*own, *others));
    }
    let share = with_others.slope();
    let left: Vec<Hours> = centered
        .iter()
        .zip(&others)
        .map(|(own, others)| own.iter().zip(others).map(|(a, b)| [a[0] - share * b[0], a[1] - share * b[1]]).collect())
        .collect();
    let mut with_week = Pairs::default();
    for series in &left {
        let means = [0, 1].map(|week| mean(series.iter().map(|weeks| weeks[week])));
        series.iter().for_each(|[before, later]| with_week.add(before - means[0], later - means[1]));
    }
    let week = with_week.correlation();
    let scale = 1.0 / (1.0 - week * week).sqrt();
    let of_hour = |[before, later]: &[f64; 2], less: [f64; 2], with: f64| match before.is_finite() {
        true => [less[0], (less[1] - week * less[0]) * scale],
        false => [f64::NAN, if later.is_finite() { less[1] * with } else { f64::NAN }],
    };
    left.iter()
        .map(|series| {
            let each = |of: fn([f64; 2]) -> [f64; 2]| -> Hours {
                series.iter().map(|weeks| of_hour(weeks, of(*weeks), 1.0)).collect()
            };
            [each(|weeks| weeks), each(|_| [1.0, 1.0]), each(|_| [0.0, 1.0])]
        })
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.filter(|v| v.is_finite()).fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
    if n > 0.0 { sum / n } else { 0.0 }
}

fn less_mean(series: &Hours) -> Hours {
    let mean = mean(series.iter().flatten().copied());
    series.iter().map(|weeks| weeks.map(|value| value - mean)).collect()
}

/// How much neighbouring hours go together in one kind, and of how many hours that is known. What
/// is found in short series is too low by about (1 + 3 r) / n.
fn neighbours(kind: &[[Hours; 3]]) -> (f64, f64) {
    let (mut pairs, mut values, mut squares) = (Pairs::default(), 0.0, 0.0);
    for [series, ..] in kind {
        let series = less_mean(series);
        for week in [0, 1] {
            series.windows(2).for_each(|two| pairs.add(two[0][week], two[1][week]));
            let there = series.iter().map(|weeks| weeks[week]).filter(|v| v.is_finite());
            there.for_each(|v| (values, squares) = (values + 1.0, squares + v * v));
        }
    }
    let length = values / kind.len().max(1) as f64;
    if pairs.n == 0.0 || squares == 0.0 || length <= 6.0 {
        return (0.0, 0.0);
    }
    let found = (pairs.product / pairs.n) / (squares / values);
    (((found * length + 1.0) / (length - 3.0)).clamp(0.0, MOST), values)
}

/// What is new in hour `at` of a week: after the last hour before it that is there, of which as
/// much is left as has not faded.
fn new_in(hours: &Hours, before: Option<usize>, at: usize, week: usize, neighbours: f64) -> f64 {
    let Some(before) = before else { return hours[at][week] };
    let left = neighbours.powi(i32::try_from(at - before).unwrap_or(i32::MAX));
    (hours[at][week] - left * hours[before][week]) / (1.0 - left * left).sqrt()
}

fn all_new(hours: &Hours, neighbours: f64) -> Hours {
    let mut new = vec![[f64::NAN; 2]; hours.len()];
    for week in [0, 1] {
        let mut before = None;
        for at in (0..hours.len()).filter(|at| hours[*at][week].is_finite()) {
            new[at][week] = new_in(hours, before, at, week, neighbours);
            before = Some(at);
        }
    }
    new
}

fn product(a: &Hours, b: &Hours) -> f64 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(a, b)| a * b).filter(|of| of.is_finite()).sum()
}

impl Series {
    fn of([hours, level, later]: [Hours; 3], neighbours: f64) -> Self {
        // Where there is no hour, there is no level either.
        let masked = |of: Hours| -> Hours {
            of.iter().zip(&hours).map(|(a, b)| [a[0] + 0.0 * b[0], a[1] + 0.0 * b[1]]).collect()
        };
        let scale = later.iter().map(|weeks| weeks[1]).collect();
        let (new, level) = (all_new(&hours, neighbours), all_new(&masked(level), neighbours));
        let levels = product(&level, &level);
        let product_of = product(&new, &level);
        let squares = product(&new, &new) - if levels > 0.0 { product_of * product_of / levels } else { 0.0 };
        let n = new.iter().flatten().filter(|v| v.is_finite()).count() as f64;
        Self { new, level, scale, neighbours, levels, product: product_of, squares, n, usual: f64::NAN }
    }

    /// A window of it; `None` where nothing can be said of it. `groups` are judged together.
    pub fn judged(&self, window: &Window, noise: &Noise, groups: usize) -> Option<Candidate> {
        let (mut own, mut with_level, mut with_new) = (0.0, 0.0, 0.0);
        let there = |at: &usize| self.new[*at][1].is_finite();
        let mut before = (0..window.hours.start).rev().find(there).map(|at| (at, 0.0));
        let after = (window.hours.end..self.new.len()).find(there);
        let mut hours_there = false;
        for at in window.hours.clone().filter(there).chain(after) {
            let height = if window.hours.contains(&at) { self.scale[at] } else { 0.0 };
            hours_there |= height > 0.0;
            let design = match before {
                None => height,
                Some((last, of_last)) => {
                    let left = self.neighbours.powi(i32::try_from(at - last).unwrap_or(i32::MAX));
                    (height - left * of_last) / (1.0 - left * left).sqrt()
                }
            };
            before = Some((at, height));
            own += design * design;
            with_level += design * self.level[at][1];
            with_new += design * self.new[at][1];
        }
        let (n, levels) = (self.n - 2.0, self.levels);
        if !hours_there || n < FEWEST || levels <= 0.0 {
            return None;
        }
        let own = own - with_level * with_level / levels;
        // A window of all that there is is no window.
        if own <= 1e-9 {
            return None;
        }
        let by = (with_new - with_level * self.product / levels) / own;
        let left = (self.squares - by * by * own).max(0.0);
        let variance = (noise.alike * self.usual + left) / (noise.alike + n);
        let error = (variance / own).sqrt();
        // One side of an interval counts, so twice as many comparisons at twice the level.
        let comparisons = (window.among * groups as f64 * stats::LEVEL / (2.0 * CLAIMED)).ceil() as usize;
        let judgement = Judgement { comparisons, sequential: false };
        let freedom = (noise.alike + n).min(noise.tails);
        // Student's t with few degrees of freedom spreads further than its scale says.
        let scale = if noise.tails.is_finite() { (1.0 - 2.0 / noise.tails).sqrt() } else { 1.0 };
        let ratio = judgement.around(by, error * scale, freedom as usize + 1);
        (error > 0.0).then(|| Candidate { of: None, window: window.clone(), ratio, surplus: ratio.low / error })
    }
}

/// Sets the usual variance of each kind, and says as how many values it counts in that of a group.
fn spreads(kinds: &mut [Kind]) -> f64 {
    let (mut excess, mut n) = (0.0, 0.0);
    for kind in kinds {
        let there = || kind.series.iter().filter(|series| series.n > FEWEST);
        let values: f64 = there().map(|series| series.n - 1.0).sum();
        let usual = there().map(|series| series.squares).sum::<f64>() / values.max(1.0);
        if usual > 0.0 {
            for series in there() {
                let off = series.squares / (series.n - 1.0) / usual - 1.0;
                excess += off * off - 2.0 / (series.n - 1.0);
                n += 1.0;
            }
        }
        kind.series.iter_mut().for_each(|series| series.usual = usual);
    }
    if excess > 0.0 { (2.0 * n / excess).clamp(ALIKE.0, ALIKE.1) } else { ALIKE.1 }
}

/// How heavy the tails of all groups together are. They count as normal as far as so many values
/// cannot show the contrary.
fn tails(kinds: &[Kind]) -> f64 {
    let mut sizes: Vec<f64> = Vec::new();
    for series in kinds.iter().flat_map(|kind| &kind.series).filter(|series| series.n > FEWEST && series.squares > 0.0)
    {
        let (spread, level) = ((series.squares / (series.n - 1.0)).sqrt(), series.product / series.levels);
        let values = series.new.iter().flatten().zip(series.level.iter().flatten());
        let sized = values.map(|(new, of_level)| ((new - level * of_level) / spread).abs());
        sizes.extend(sized.filter(|size| size.is_finite()));
    }
    sizes.sort_by(f64::total_cmp);
    let at = |share: f64| sizes.get((share * sizes.len() as f64) as usize).copied().unwrap_or(0.0);
    let error = TAILS_ERROR / (sizes.len().max(1) as f64).sqrt();
    let found = at(0.97) / at(0.5).max(f64::MIN_POSITIVE) * (-2.0 * error).exp();
    let heavier =
        || TAILS.iter().find(|(_, ratio)| found > *ratio).map_or(TAILS[TAILS.len() - 1].0, |(freedom, _)| *freedom);
    if sizes.is_empty() || found <= NORMAL { f64::INFINITY } else { heavier() }
}
