//! Several traces of one setting against several of another. What runs of one setting differ by is
//! the noise that one pair of runs cannot show: here each run is one value.

use std::fmt;

use compare::{Change, Verdict, confidence};
use record::{Label, LegName};
use serde::Serialize;
use serde::ser::SerializeStruct as _;
use stats::{Distribution, FEWEST_BEYOND, Quantile};

use super::side::Side;
use super::unlike::{self, Unlike};
use super::{PathSplit, labels};
use crate::TimedKind;

/// Which figure of a leg.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// The mean.
    Mean,
    /// A quantile.
    Quantile(Quantile),
}

impl fmt::Display for Measure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => to.write_str("mean"),
            Self::Quantile(quantile) => quantile.fmt(to),
        }
    }
}

/// One figure of one leg in each run.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The leg.
    pub leg: LegName,
    /// Which figure of it.
    pub measure: Measure,
    /// Its value in each run of the two sides, nanoseconds.
    pub runs: compare::Runs,
    /// The geometric means, and their ratio with its interval.
    pub change: Change,
}

impl Figure {
    fn is_median(&self) -> bool {
        self.measure == Measure::Quantile(Quantile::P50)
    }
}

impl Serialize for Figure {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Figure", 6)?;
        fields.serialize_field("leg", &self.leg)?;
        fields.serialize_field("figure", &self.measure.to_string())?;
        fields.serialize_field("values_ns", &self.runs.values)?;
        fields.serialize_field("change", &self.change.by)?;
        fields.serialize_field("spread", &self.runs.spread())?;
        fields.serialize_field("seen", &self.change.is_seen())?;
        fields.end()
    }
}

/// One kind of record.
#[derive(Clone, Debug, Serialize)]
pub struct Runs {
    /// Which.
    #[serde(serialize_with = "super::key")]
    pub kind: TimedKind,
    /// Records with a total in each run of the two sides.
    pub n: [Vec<u64>; 2],
    /// The figures.
    pub figures: Vec<Figure>,
    /// Of requests: each method and path that every run has, of those with the most requests; what
    /// changed comes first.
    pub labels: Vec<LabelRuns>,
    /// The network leg divided at the minimum RTT; `None` where there is none, and where no round
    /// trip was measured.
    #[serde(skip)]
    pub path: Option<PathSplit>,
}

/// The requests of one method and path in each run.
#[derive(Clone, Debug, Serialize)]
pub struct LabelRuns {
    /// Method and path.
    #[serde(flatten, serialize_with = "super::label")]
    pub label: Label,
    /// Requests in each run of the two sides.
    pub n: [Vec<u64>; 2],
    /// Their p50 and p99, where every run has requests enough. The intervals of all methods and
    /// paths hold together.
    pub figures: Vec<Figure>,
}

/// Two sides of several runs each.
#[derive(Clone, Debug, Serialize)]
pub struct Several {
    /// What the sides are called.
    pub names: [String; 2],
    /// What their runs are called.
    pub runs: [Vec<String>; 2],
    /// What has to be known before it is believed.
    #[serde(skip)]
    pub unlike: Vec<Unlike>,
    /// The kinds that every run has.
    pub kinds: Vec<Runs>,
}

/// Compares two sides of at least two runs each.
pub fn several(names: [&str; 2], sides: [&[Side]; 2]) -> Several {
    let has = |kind: &TimedKind| sides.iter().all(|side| side.iter().all(|run| run.timed(*kind) > 0));
    Several {
        names: names.map(str::to_owned),
        runs: sides.map(|side| side.iter().map(|run| run.name.clone()).collect()),
        unlike: unlike(sides),
        kinds: TimedKind::ALL.into_iter().filter(has).map(|kind| runs(sides, kind)).collect(),
    }
}

fn unlike([first, second]: [&[Side]; 2]) -> Vec<Unlike> {
    let mut all: Vec<Unlike> = Vec::new();
    for run in first.iter().chain(second).skip(1) {
        for one in unlike::of(&first[0], run) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all
}

fn runs(sides: [&[Side]; 2], kind: TimedKind) -> Runs {
    let mut figures = Vec::new();
    for (i, leg) in kind.legs().iter().enumerate() {
        let times = sides.map(|side| side.iter().map(|run| run.times(kind, i)).collect::<Vec<_>>());
        figures.extend(percentiles(leg.name, &times, &Quantile::SHOWN));
    }
    let parts: Vec<usize> = kind.adding().map(|(i, _)| i).collect();
    let total = (kind.legs()[kind.total()].name, parts.clone());
    for (leg, parts) in parts.iter().map(|i| (kind.legs()[*i].name, vec![*i])).chain([total]) {
        let of = |run: &Side| run.of(kind).mean_of(&parts);
        let [Some(a), Some(b)] = sides.map(|side| side.iter().map(of).collect::<Option<Vec<f64>>>()) else { continue };
        figures.push((leg, Measure::Mean, [a, b]));
    }
    let total = kind.legs()[kind.total()].name;
    let together = figures.iter().filter(|(leg, ..)| *leg == total).count();
    let figures: Vec<Figure> = figures.into_iter().map(|figure| judged(figure, together)).collect();
    Runs {
        kind,
        n: sides.map(|side| side.iter().map(|run| run.timed(kind)).collect()),
        path: path(kind, &figures, sides),
        figures,
        labels: by_label(sides, kind),
    }
}

/// A figure that is not judged yet: its leg, which it is, and its values.
type Unjudged = (LegName, Measure, [Vec<f64>; 2]);

fn judged((leg, measure, values): Unjudged, together: usize) -> Figure {
    let runs = compare::Runs { values };
    Figure { leg, measure, change: runs.change(confidence(together)), runs }
}

/// These percentiles of a leg, of the ones that every run carries.
fn percentiles(leg: LegName, times: &[Vec<Distribution>; 2], of: &[Quantile]) -> Vec<Unjudged> {
    let each = of.iter().filter_map(|&quantile| {
        let of = |times: &Distribution| {
            let beyond = times.n() as f64 * (1.0 - quantile.share()).min(quantile.share());
            times.quantile(quantile).filter(|_| beyond >= FEWEST_BEYOND).map(|ns| ns as f64)
        };
        let values = times.each_ref().map(|side| side.iter().map(of).collect::<Option<Vec<f64>>>());
        let [Some(a), Some(b)] = values else { return None };
        Some((leg, Measure::Quantile(quantile), [a, b]))
    });
    each.collect()
}

fn by_label(sides: [&[Side]; 2], kind: TimedKind) -> Vec<LabelRuns> {
    let runs = sides.map(|side| side.iter().map(|run| run.labels(kind)).collect::<Option<Vec<_>>>());
    let [Some(a), Some(b)] = runs else { return Vec::new() };
    let total = kind.legs()[kind.total()].name;
    let unjudged = labels::of_all(&[a.as_slice(), &b].concat()).into_iter().map(|label| {
        let times = [&a, &b].map(|side| side.iter().map(|run| run.times(label)).collect::<Vec<_>>());
        let n = times.each_ref().map(|side| side.iter().map(Distribution::n).collect::<Vec<_>>());
        (label, n, percentiles(total, &times, &labels::QUANTILES))
    });
    let unjudged: Vec<_> = unjudged.collect();
    let together = unjudged.iter().map(|(_, _, figures)| figures.len()).sum();
    let label = |(label, n, figures): (&Label, _, Vec<Unjudged>)| LabelRuns {
        label: label.clone(),
        n,
        figures: figures.into_iter().map(|figure| judged(figure, together)).collect(),
    };
    let mut labels: Vec<LabelRuns> = unjudged.into_iter().map(label).collect();
    labels.sort_by(|x, y| y.moved().total_cmp(&x.moved()));
    labels
}

impl LabelRuns {
    /// The figure that changed: the median where that did.
    pub fn most(&self) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.change.is_seen())
    }

    /// How much of the requests' time moved; nothing where no change is seen.
    fn moved(&self) -> f64 {
        let n = self.n[1].iter().sum::<u64>() as f64;
        self.most().map_or(0.0, |f| (f.change.values[1].round() - f.change.values[0].round()).abs() * n)
    }
}

impl Runs {
    /// The figures of the total that have an interval.
    pub fn of_total(&self) -> Vec<&Figure> {
        let total = self.kind.legs()[self.kind.total()].name;
        self.figures.iter().filter(|f| f.leg == total && f.change.by.is_some()).collect()
    }

    /// The figure that speaks for the runs: of those that changed the median, else the largest;
    /// where none did, the median or the first. `None` where there are too few records.
    pub fn main(&self) -> Option<&Figure> {
        let of_total = self.of_total();
        let changed = compare::largest(&of_total, |f| &f.change, |f| f.is_median());
        changed.or_else(|| of_total.iter().find(|f| f.is_median())).or(of_total.first()).copied()
    }

    /// What became of the total.
    pub fn verdict(&self) -> Verdict {
        self.main().map_or(Verdict::TooFew, |figure| figure.change.verdict())
    }

    /// The leg with the largest change of its mean in the direction of the total's, where both are
    /// seen, and which share of that it is.
    pub fn most(&self) -> Option<(&Figure, f64)> {
        let mean = |side: &Vec<f64>| stats::mean(side).unwrap_or(0.0);
        let moved = |f: &Figure| mean(&f.runs.values[1]) - mean(&f.runs.values[0]);
        let total = self.kind.legs()[self.kind.total()].name;
        let means = || self.figures.iter().filter(|f| f.measure == Measure::Mean && f.change.is_seen());
        let whole = means().find(|f| f.leg == total)?;
        let parts = means().filter(|f| f.leg != total);
        let most = parts.max_by(|x, y| (moved(x) / moved(whole)).total_cmp(&(moved(y) / moved(whole))))?;
        let share = moved(most) / moved(whole);
        (share > 0.0).then_some((most, share))
    }
}

/// The network of sends, or of requests, divided at the minimum RTT, in the mean of the runs.
fn path(kind: TimedKind, figures: &[Figure], sides: [&[Side]; 2]) -> Option<PathSplit> {
    if !matches!(kind, TimedKind::Sends | TimedKind::AtClient) {
        return None;
    }
    let network = figures.iter().find(|f| f.measure == Measure::Mean && f.leg == LegName::Network)?;
    let least = |of: &[Side]| {
        let each: Option<Vec<f64>> = of.iter().map(|side| side.sends.path().map(|[least, _]| least)).collect();
        stats::mean(&each?)
    };
    let least_rtt_ns = [least(sides[0])?, least(sides[1])?];
    let mean = |i: usize| stats::mean(&network.runs.values[i]);
    Some(PathSplit { least_rtt_ns, beyond_ns: [mean(0)? - least_rtt_ns[0], mean(1)? - least_rtt_ns[1]] })
}
