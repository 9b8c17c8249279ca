//! Several traces of one setting against several of another. What runs of one setting differ by is the noise that one pair of runs cannot
//! show: here each run is one value.

use record::{Label, Leg, Nanos};
use serde::Serialize;
use stats::{Distribution, Estimate, FEWEST_BEYOND, Quantile, mean_difference};
use study::response::{is_known, too_wide};
use summary::TimedKind;

use super::PathSplit;
use super::gather::{self, Side};
use super::labels;
use paper::document::{Document, Section, Table, clauses};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// The chance of naming any figure of a total as changed where none did.
const LEVEL: f64 = 0.05;

/// One figure of one leg in each run.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The leg.
    pub leg: &'static str,
    /// `mean`, `p50`, `p90` or `p99`.
    pub figure: String,
    /// Its value in each run of the two sides, nanoseconds.
    pub values_ns: [Vec<f64>; 2],
    /// Geometric mean of the second side over that of the first, less 1, with its interval; `None` where a value is 0.
    pub change: Option<Estimate>,
    /// The deviation from run to run within each side, as a share; `None` where a value is 0.
    pub spread: [Option<f64>; 2],
    /// Whether the interval excludes 0.
    pub seen: bool,
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
    /// Of requests: each method and path that every run has, of those with the most requests; what changed comes first.
    pub labels: Vec<LabelRuns>,
    /// One sentence each, the most important first.
    pub verdict: Vec<String>,
}

/// The requests of one method and path in each run.
#[derive(Clone, Debug, Serialize)]
pub struct LabelRuns {
    /// Method and path.
    #[serde(flatten, serialize_with = "super::label")]
    pub label: Label,
    /// Requests in each run of the two sides.
    pub n: [Vec<u64>; 2],
    /// Their p50 and p99, where every run has requests enough. The intervals of all methods and paths hold together.
    pub figures: Vec<Figure>,
}

/// Two sides of several runs each.
#[derive(Clone, Debug, Serialize)]
pub struct Several {
    /// What the sides are called.
    pub names: [String; 2],
    /// What their runs are called.
    pub runs: [Vec<String>; 2],
    /// One sentence each, the most important first.
    pub verdict: Vec<String>,
    /// What has to be known before the verdict is believed.
    pub warnings: Vec<String>,
    /// The kinds that every run has.
    pub kinds: Vec<Runs>,
}

/// Compares two sides of at least two runs each.
pub fn compare(sides: [&[Side]; 2]) -> Several {
    let names =
        sides.map(|side| format!("{} and {}", side[0].name, quantity::counted(side.len() as u64 - 1, "more run")));
    let has = |kind: &TimedKind| sides.iter().all(|side| side.iter().all(|run| run.timed(*kind) > 0));
    let mut kinds: Vec<Runs> = TimedKind::ALL.into_iter().filter(has).map(|kind| runs(sides, kind)).collect();
    for kind in &mut kinds {
        kind.verdict = verdict(kind, &names, sides);
        kind.verdict.extend(said_of_labels(&kind.labels));
    }
    let mut verdict: Vec<String> = kinds.iter().flat_map(|kind| kind.verdict.clone()).collect();
    if verdict.is_empty() {
        verdict.push("There is nothing to compare: no kind of record is in every run.".into());
    }
    let runs = sides.map(|side| side.iter().map(|run| run.name.clone()).collect());
    Several { names, runs, verdict, warnings: warnings(sides), kinds }
}

fn warnings([first, second]: [&[Side]; 2]) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    for run in first.iter().chain(second).skip(1) {
        for warning in gather::warnings(&first[0], run) {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

fn runs(sides: [&[Side]; 2], kind: TimedKind) -> Runs {
    let n = sides.map(|side| side.iter().map(|run| run.timed(kind)).collect());
    let mut figures = Vec::new();
    for (i, leg) in kind.legs().iter().enumerate() {
        let times = sides.map(|side| side.iter().map(|run| run.of(kind).times(i)).collect::<Vec<_>>());
        figures.extend(percentiles(leg.name, &times, &Quantile::SHOWN));
    }
    let parts: Vec<usize> = kind.adding().map(|(i, _)| i).collect();
    let total = (kind.legs()[kind.total()].name, parts.clone());
    for (leg, parts) in parts.iter().map(|i| (kind.legs()[*i].name, vec![*i])).chain([total]) {
        let of = |run: &Side| run.of(kind).mean_of(&parts);
        let [Some(a), Some(b)] = sides.map(|side| side.iter().map(of).collect::<Option<Vec<f64>>>()) else { continue };
        figures.push(figure(leg, "mean".into(), [a, b]));
    }
    let total = kind.legs()[kind.total()].name;
    let judged = figures.iter().filter(|f| f.leg == total).count().max(1);
    for figure in &mut figures {
        figure.judge(1.0 - LEVEL / judged as f64);
    }
    Runs { kind, n, figures, labels: by_label(sides, kind), verdict: Vec::new() }
}

/// These percentiles of a leg, of the ones that every run carries.
fn percentiles(leg: &'static str, times: &[Vec<Distribution>; 2], of: &[Quantile]) -> Vec<Figure> {
    let each = of.iter().filter_map(|&quantile| {
        let of = |times: &Distribution| {
            let beyond = times.n() as f64 * (1.0 - quantile.share()).min(quantile.share());
            times.quantile(quantile).filter(|_| beyond >= FEWEST_BEYOND).map(|ns| ns as f64)
        };
        let values = times.each_ref().map(|side| side.iter().map(of).collect::<Option<Vec<f64>>>());
        let [Some(a), Some(b)] = values else { return None };
        Some(figure(leg, quantile.to_string(), [a, b]))
    });
    each.collect()
}

fn by_label(sides: [&[Side]; 2], kind: TimedKind) -> Vec<LabelRuns> {
    let runs = sides.map(|side| side.iter().map(|run| run.labels(kind)).collect::<Option<Vec<_>>>());
    let [Some(a), Some(b)] = runs else { return Vec::new() };
    let total = kind.legs()[kind.total()].name;
    let mut labels: Vec<LabelRuns> = labels::of_all(&[a.as_slice(), &b].concat())
        .into_iter()
        .map(|label| {
            let times = [&a, &b].map(|side| side.iter().map(|run| run.times(label)).collect::<Vec<_>>());
            let n = times.each_ref().map(|side| side.iter().map(Distribution::n).collect());
            let figures = percentiles(total, &times, &labels::QUANTILES);
            LabelRuns { label: label.clone(), n, figures }
        })
        .collect();
    let judged = labels.iter().map(|label| label.figures.len()).sum::<usize>().max(1);
    labels.iter_mut().flat_map(|label| &mut label.figures).for_each(|f| f.judge(1.0 - LEVEL / judged as f64));
    labels.sort_by(|x, y| y.moved().total_cmp(&x.moved()));
    labels
}

impl LabelRuns {
    /// The figure that changed: the median where that did.
    fn most(&self) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.seen)
    }

    /// How much of the requests' time moved; nothing where no change is seen.
    fn moved(&self) -> f64 {
        let n = self.n[1].iter().sum::<u64>() as f64;
        self.most().map_or(0.0, |f| (f.middle(1).0 as f64 - f.middle(0).0 as f64).abs() * n)
    }
}

/// What is said of methods and paths, where there are any.
fn said_of_labels(labels: &[LabelRuns]) -> Option<String> {
    let enough = labels.iter().filter(|label| !label.figures.is_empty()).count();
    if labels.is_empty() {
        return None;
    }
    if enough == 0 {
        return Some(format!("There are too few requests of each of {} to compare by.", labels::methods(labels.len())));
    }
    let changed = labels.iter().filter(|label| label.most().is_some()).count() as u64;
    let few = match labels.len() - enough {
        0 => String::new(),
        few => format!("; of {} there are too few requests", labels::methods(few)),
    };
    let Some((first, figure)) = labels.iter().find_map(|label| Some((label, label.most()?))) else {
        return Some(format!("No change is seen in any of {} that every run has{few}.", labels::methods(enough)));
    };
    Some(format!(
        "Of {} that every run has, {} changed{few}. The largest change, over all its requests, is that of {}: {} went from {} to {}, {} (interval {}).",
        labels::methods(enough),
        quantity::count(changed),
        first.label,
        figure.figure,
        figure.middle(0),
        figure.middle(1),
        quantity::change(figure.change.map_or(0.0, |change| change.value)),
        figure.interval().unwrap_or_default()
    ))
}

fn figure(leg: &'static str, figure: String, values_ns: [Vec<f64>; 2]) -> Figure {
    Figure { leg, figure, values_ns, change: None, spread: [None; 2], seen: false }
}

impl Figure {
    fn judge(&mut self, confidence: f64) {
        let logs = self.values_ns.each_ref().map(|side| {
            let logs = side.iter().map(|ns| (*ns > 0.0).then(|| ns.ln()));
            logs.collect::<Option<Vec<f64>>>()
        });
        self.spread = logs.each_ref().map(|side| stats::deviation(side.as_deref()?).map(f64::exp_m1));
        let [Some(a), Some(b)] = logs else { return };
        self.change = mean_difference(&a, &b, confidence).map(|change| change.map(f64::exp_m1));
        self.seen = self.change.is_some_and(|change| !change.covers(0.0));
    }

    /// The middle of a side's runs: the geometric mean.
    fn middle(&self, side: usize) -> Nanos {
        let values = &self.values_ns[side];
        let logs = values.iter().map(|ns| ns.max(1.0).ln()).sum::<f64>();
        Nanos((logs / values.len().max(1) as f64).exp().round() as u64)
    }

    fn interval(&self) -> Option<String> {
        let change = self.change?;
        if !is_known(&change) {
            return Some(format!("not known: {}", too_wide(&change)));
        }
        Some(format!("{} to {}", quantity::change(change.low), quantity::change(change.high)))
    }
}

fn verdict(runs: &Runs, [first, second]: &[String; 2], sides: [&[Side]; 2]) -> Vec<String> {
    let kind = runs.kind;
    let (total, thing) = (&kind.legs()[kind.total()], kind.thing());
    let of_total: Vec<&Figure> = runs.figures.iter().filter(|f| f.leg == total.name && f.change.is_some()).collect();
    let size = |f: &&&Figure| f.change.map_or(0.0, |c| c.value.ln_1p().abs());
    let seen: Vec<&Figure> = of_total.iter().copied().filter(|f| f.seen).collect();
    let main =
        seen.iter().find(|f| f.figure == "p50").or_else(|| seen.iter().max_by(|x, y| size(x).total_cmp(&size(y))));
    let count = format!("{} and {} runs", sides[0].len(), sides[1].len());
    let noise = |f: &Figure| {
        let most = f.spread.iter().flatten().copied().fold(0.0, f64::max);
        format!("runs of one side vary by {}", quantity::percent(most))
    };
    let Some(main) = main else {
        let Some(shown) = of_total.iter().find(|f| f.figure == "p50").or(of_total.first()) else {
            return vec![format!("There are too few {thing}s in a run to compare.")];
        };
        return vec![format!(
            "No difference between {first} and {second} is seen in {thing}s {}: {} changed by {} (interval {}) over {count}; {}.",
            total.meaning,
            shown.figure,
            quantity::change(shown.change.map_or(0.0, |c| c.value)),
            shown.interval().unwrap_or_default(),
            noise(shown)
        )];
    };
    let change = main.change.map_or(0.0, |c| c.value);
    let how = if change > 0.0 { "slower" } else { "faster" };
    let mut said = vec![format!(
        "{second}: {how} than {first}. {}, {} of {thing}s went from {} to {}, {} (interval {}), over {count}; {}.",
        crate::view::capital(total.meaning),
        main.figure,
        main.middle(0),
        main.middle(1),
        quantity::change(change),
        main.interval().unwrap_or_default(),
        noise(main)
    )];
    if let Some(most) = most(runs, total.name) {
        said.push(format!(
            "The {} leg explains {} of the difference of the means.",
            most.0.leg,
            super::verdict::percent(most.1)
        ));
        if most.0.leg == Leg::Network.name() {
            said.extend(super::verdict::beyond(kind, path(kind, most.0, sides), [first, second]));
        }
    }
    said
}

/// The network of sends, or of requests, divided at the minimum RTT, in the mean of the runs.
fn path(kind: TimedKind, network: &Figure, sides: [&[Side]; 2]) -> Option<PathSplit> {
    if !matches!(kind, TimedKind::Sends | TimedKind::AtClient) {
        return None;
    }
    let least = |of: &[Side]| {
        let each: Option<Vec<f64>> = of.iter().map(|side| side.sends.path().map(|[least, _]| least)).collect();
        stats::mean(&each?)
    };
    let least_rtt_ns = [least(sides[0])?, least(sides[1])?];
    let mean = |i: usize| stats::mean(&network.values_ns[i]);
    Some(PathSplit { least_rtt_ns, beyond_ns: [mean(0)? - least_rtt_ns[0], mean(1)? - least_rtt_ns[1]] })
}

/// The leg with the largest change of its mean in the direction of the total's, where both are seen, and which share of that it is.
fn most<'a>(runs: &'a Runs, total: &str) -> Option<(&'a Figure, f64)> {
    let mean = |side: &Vec<f64>| stats::mean(side).unwrap_or(0.0);
    let moved = |f: &Figure| mean(&f.values_ns[1]) - mean(&f.values_ns[0]);
    let means = || runs.figures.iter().filter(|f| f.figure == "mean");
    let whole = means().find(|f| f.leg == total).filter(|f| f.seen)?;
    let parts = means().filter(|f| f.leg != total && f.seen);
    let most = parts.max_by(|x, y| (moved(x) / moved(whole)).total_cmp(&(moved(y) / moved(whole))))?;
    let share = moved(most) / moved(whole);
    (share > 0.0).then_some((most, share))
}

/// The comparison as a document.
pub fn document(several: &Several) -> Document {
    Document {
        title: format!("{} against {}", several.names[1], several.names[0]).into(),
        about: "Several traces of each side.".into(),
        verdict: clauses(several.verdict.clone()),
        warnings: several.warnings.clone(),
        sections: several.kinds.iter().map(|runs| section(several, runs)).collect(),
    }
}

fn section(several: &Several, runs: &Runs) -> Section {
    let mut section = Section::new(runs.kind.title());
    section.plot(plot(several, runs));
    let [first, second] = &several.names;
    let head = |of| [of, "figure", first, second, "change", "interval", "run to run", "run to run", "seen"];
    let mut table = Table::new("What changed, each run one value", head("leg"));
    table.extend(runs.figures.iter().map(|f| row(f.leg.into(), f)));
    section.table(table);
    section.say(
        "Values are geometric means over the runs of a side. The change is by Welch's test of their logarithms: the intervals of all figures of \
         the total hold together in 95 % of comparisons. Run to run is the deviation within a side.",
    );
    if !runs.labels.is_empty() {
        let mut table = Table::new("By method and path, each run one value", head("request"));
        for label in &runs.labels {
            let n = label.n.each_ref().map(|side| quantity::count(side.iter().sum()));
            let name = format!("{}, n = {} / {}", label.label, n[0], n[1]);
            if label.figures.is_empty() {
                let mut few = vec![name.clone(), "too few".into()];
                few.resize(9, "—".into());
                table.push(few);
            }
            table.extend(label.figures.iter().map(|f| row(name.clone(), f)));
        }
        section.table(table);
        section.say(
            "Compared are the methods and paths with the most requests, at most 20, that every run has. The intervals of all of them hold together in \
             95 % of comparisons.",
        );
    }
    let total = runs.kind.legs()[runs.kind.total()].name;
    let figures: Vec<&Figure> = runs.figures.iter().filter(|f| f.leg == total).collect();
    let mut head = vec!["run".to_owned(), "n".into()];
    head.extend(figures.iter().map(|f| format!("{} {}", f.leg, f.figure)));
    let mut each = Table::new("Each run", head);
    for (side, names) in several.runs.iter().enumerate() {
        for (i, name) in names.iter().enumerate() {
            let mut row = vec![name.clone(), quantity::count(runs.n[side][i])];
            row.extend(figures.iter().map(|f| Nanos(f.values_ns[side][i].round() as u64).to_string()));
            each.push(row);
        }
    }
    section.table(each);
    section
}

fn row(name: String, f: &Figure) -> Vec<String> {
    let spread = |side: usize| f.spread[side].map_or_else(|| "—".into(), quantity::percent);
    vec![
        name,
        f.figure.clone(),
        f.middle(0).to_string(),
        f.middle(1).to_string(),
        f.change.map_or_else(|| "—".into(), |c| quantity::change(c.value)),
        f.interval().unwrap_or_else(|| "—".into()),
        spread(0),
        spread(1),
        if f.seen { "yes" } else { "no" }.into(),
    ]
}

/// The total's quantiles of each run.
fn plot(several: &Several, runs: &Runs) -> Option<Plot> {
    let total = runs.kind.legs()[runs.kind.total()].name;
    let of = |figure: &str| runs.figures.iter().find(|f| f.leg == total && f.figure == figure);
    let middle = of("p50")?;
    let high = of("p90").unwrap_or(middle);
    let (mut names, mut layers) = (Vec::new(), Vec::new());
    for (side, of_side) in several.runs.iter().enumerate() {
        let mut items = Vec::new();
        for (i, name) in of_side.iter().enumerate() {
            let (p50, p90) = (middle.values_ns[side][i], high.values_ns[side][i]);
            let label = format!("{name}: p50 {}, p90 {}", Nanos(p50 as u64), Nanos(p90 as u64));
            items.push(Interval { at: names.len() as f64, low: tidy(p50), value: tidy(p50), high: tidy(p90), label });
            names.push(name.clone());
        }
        layers.push(Layer::Intervals { name: several.names[side].clone(), hue: Hue(side as u8), items });
    }
    Plot::new(
        &format!("{}-runs", runs.kind.key()),
        "Each run",
        format!("The point is p50 of {}s, the line reaches to p90.", runs.kind.thing()),
        (Axis::linear(total, Unit::Time).reaching(0.0), Axis::names("", names)),
        layers,
    )
}
