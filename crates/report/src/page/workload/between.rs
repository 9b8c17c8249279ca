//! Two runs of the same workload side by side.

use std::collections::{BTreeMap, BTreeSet};

use quantity::{bit_rate, count, per_second, percent};
use record::Nanos;
use serde::Serialize;
use serde_json::Value;
use stats::{Distribution, DurationSummary, Estimate, FEWEST_STRETCHES, Precision, Quantile, mean_shift, shifts};
use store::workload::Provenance;
use traffic::kept::Run;
use traffic::load::settling;
use traffic::responsiveness::{self, ProbeKind};
use traffic::stream::Sample;
use traffic::{load, rr, stream, udp};

use paper::document::{Block, Document, Section, Table, clauses};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// Stretches that a phase's probes are cut into: neighbouring round trips are alike.
const STRETCHES: usize = 20;
/// The same for each comparison: the intervals of a report can be had again.
const SEED: u64 = 1;
/// The chance of any false difference in one comparison, over all its figures.
const LEVEL: f64 = 0.05;

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Nanoseconds.
    Time,
    /// Bits a second.
    BitRate,
    /// A second.
    Rate,
    /// A share of 1.
    Share,
}

impl Measure {
    fn text(self, value: f64) -> String {
        match self {
            Self::Time => Nanos(value.max(0.0).round() as u64).to_string(),
            Self::BitRate => bit_rate(value),
            Self::Rate => per_second(value),
            Self::Share => percent(value),
        }
    }

    fn change(self, value: f64) -> String {
        format!("{}{}", if value < 0.0 { "−" } else { "+" }, self.text(value.abs()))
    }
}

/// One figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub figure: String,
    /// What it is.
    pub measure: Measure,
    /// In the first run.
    pub first: f64,
    /// In the second.
    pub second: f64,
    /// Second less first with its interval, where there is one. All of them hold at the same time in 95 % of comparisons.
    pub difference: Option<Estimate>,
    /// Why there is no interval.
    pub withheld: Option<String>,
}

impl Row {
    /// Whether a difference was seen.
    pub fn seen(&self) -> bool {
        self.difference.is_some_and(|e| !e.covers(0.0))
    }
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Between {
    /// The workload of both.
    pub workload: &'static str,
    /// The figures.
    pub rows: Vec<Row>,
    /// What else differs between the runs, in words.
    pub differences: Vec<String>,
}

/// A figure before its interval is known.
enum Values {
    /// A quantile of stretches of times.
    Times(Quantile, [Vec<Distribution>; 2]),
    /// A mean of stretches: sum and number of each.
    Means([Vec<(f64, u64)>; 2]),
}

struct Figure {
    name: String,
    measure: Measure,
    values: Values,
}

/// Compares two runs. `None` where they are of different workloads.
pub fn compare(first: (&Run, &Provenance), second: (&Run, &Provenance)) -> Option<Between> {
    let (figures, single) = match (first.0, second.0) {
        (Run::Stream(_, a), Run::Stream(_, b)) => (goodputs([(a, Nanos::ZERO), (b, Nanos::ZERO)]), Vec::new()),
        (Run::Load(ca, a), Run::Load(cb, b)) => {
            let mut figures = round_trips([(ca, a), (cb, b)]);
            if let (Some(sa), Some(sb)) = (&a.stream, &b.stream) {
                figures.extend(goodputs([(sa, settling(ca.load)), (sb, settling(cb.load))]));
            }
            (figures, Vec::new())
        }
        (Run::Transactions(ca, a), Run::Transactions(cb, b)) if ca.connect_each == cb.connect_each => {
            (transactions([a, b]), latencies([a, b]))
        }
        (Run::Responsiveness(_, a), Run::Responsiveness(_, b)) => (responses([a, b]), Vec::new()),
        (Run::Udp(_, a), Run::Udp(_, b)) => (datagrams([a, b]), Vec::new()),
        _ => return None,
    };
    // How many intervals there are decides how wide each is (Bonferroni).
    let known = figures.iter().filter(|f| f.at(1.0 - LEVEL).is_some_and(|row| row.difference.is_some())).count();
    let confidence = 1.0 - LEVEL / known.max(1) as f64;
    let mut rows: Vec<Row> = figures.iter().filter_map(|f| f.at(confidence)).collect();
    rows.extend(single);
    let differences = differences(first, second);
    Some(Between { workload: first.0.workload(), rows, differences })
}

impl Figure {
    /// The figure of both runs with its interval; `None` where a run has nothing of it.
    fn at(&self, confidence: f64) -> Option<Row> {
        let row = |first, second, difference: Option<Estimate>, withheld: &str| Row {
            figure: self.name.clone(),
            measure: self.measure,
            first,
            second,
            difference,
            withheld: difference.is_none().then(|| withheld.to_owned()),
        };
        match &self.values {
            Values::Times(quantile, [a, b]) => {
                let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
                let shifted = shifts(&a, &b, &[*quantile], confidence, SEED).into_iter().next()??;
                // Each of the two is known to the resolution of its distribution.
                let rounding = shifted.first.max(shifted.second) as f64 / 1e3;
                let wider = |e: Estimate| Estimate { low: e.low - rounding, high: e.high + rounding, ..e };
                let difference = shifted.shift.map(wider);
                Some(row(shifted.first as f64, shifted.second as f64, difference, "too few round trips"))
            }
            Values::Means([a, b]) => {
                let mean = |of: &[(f64, u64)]| {
                    let n: u64 = of.iter().map(|(_, n)| n).sum();
                    (n > 0).then(|| of.iter().map(|(sum, _)| sum).sum::<f64>() / n as f64)
                };
                let difference = mean_shift(a, b, confidence, SEED);
                let few = format!("fewer than {FEWEST_STRETCHES} intervals: a shorter --interval gives more");
                Some(row(mean(a)?, mean(b)?, difference, &few))
            }
        }
    }
}

/// Values in their order, cut into stretches of about the same number.
fn cut(times: impl Iterator<Item = Nanos>) -> Vec<Distribution> {
    let times: Vec<Nanos> = times.collect();
    times
        .chunks(times.len().div_ceil(STRETCHES).max(1))
        .map(|stretch| {
            let mut distribution = Distribution::new(Precision::Fine);
            stretch.iter().for_each(|time| distribution.record(time.0));
            distribution
        })
        .collect()
}

/// Round trips of each kind of probe that both runs have, before the load and under it.
fn round_trips([first, second]: [(&load::Config, &load::Outcome); 2]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for ours in &first.1.probes {
        let Some(theirs) = second.1.probes.iter().find(|other| other.probe == ours.probe) else { continue };
        for phase in ["before", "loaded"] {
            let of = |probed: &load::Probed, (config, outcome): (&load::Config, &load::Outcome)| {
                let parts = load::parts(config, outcome.load_started, outcome.load_ended);
                let meant = |at: &Nanos| parts.iter().any(|(name, range)| *name == phase && range.contains(at));
                cut(probed.rounds.iter().filter(|r| meant(&r.at)).filter_map(|r| r.round_trip))
            };
            for (quantile, called) in [(Quantile::P50, "median"), (Quantile::P99, "p99")] {
                figures.push(Figure {
                    name: format!("{} round trip {phase}, {called}", ours.probe),
                    measure: Measure::Time,
                    values: Values::Times(quantile, [of(ours, first), of(theirs, second)]),
                });
            }
        }
    }
    figures
}

/// What arrived in each direction, from `from` on: by interval, all flows together.
fn goodputs(runs: [(&stream::Outcome, Nanos); 2]) -> Vec<Figure> {
    let arrived = |(outcome, from): (&stream::Outcome, Nanos), up: bool| {
        let received = |series: &[Sample]| slots(series.iter().filter(|s| !s.sends), from);
        match (up, received(&outcome.server_series)) {
            (false, _) => received(&outcome.series),
            // A stock iperf3 sends no series: what it acknowledged stands for what it read.
            (true, theirs) if theirs.is_empty() => slots(outcome.series.iter().filter(|s| s.sends), from),
            (true, theirs) => theirs,
        }
    };
    [("goodput up", true), ("goodput down", false)]
        .map(|(name, up)| Figure {
            name: name.into(),
            measure: Measure::BitRate,
            values: Values::Means(runs.map(|run| arrived(run, up))),
        })
        .into()
}

/// Bits and nanoseconds of each interval, so that their quotient is a rate.
fn slots<'a>(samples: impl Iterator<Item = &'a Sample>, from: Nanos) -> Vec<(f64, u64)> {
    let mut slots: BTreeMap<Nanos, (f64, u64)> = BTreeMap::new();
    for s in samples.filter(|s| !s.warm_up && s.start >= from && s.end > s.start) {
        let width = s.end.saturating_sub(s.start).0;
        let slot = slots.entry(s.end).or_insert((0.0, width));
        slot.0 += s.goodput_bits_per_second() * width as f64;
    }
    slots.into_values().collect()
}

fn transactions(runs: [&rr::Outcome; 2]) -> Vec<Figure> {
    let mut slots: [BTreeMap<Nanos, (u64, u64, f64)>; 2] = Default::default();
    for (run, slots) in runs.iter().zip(&mut slots) {
        for i in &run.series {
            let slot = slots.entry(i.end).or_insert((i.end.saturating_sub(i.start).0, 0, 0.0));
            slot.1 += i.latency.n;
            slot.2 += i.latency.mean.0 as f64 * i.latency.n as f64;
        }
    }
    let rates = slots.each_ref().map(|s| s.values().map(|(width, n, _)| (*n as f64 * 1e9, *width)).collect());
    let means = slots.each_ref().map(|s| s.values().map(|(_, n, sum)| (*sum, *n)).collect());
    vec![
        Figure { name: "transactions".into(), measure: Measure::Rate, values: Values::Means(rates) },
        Figure { name: "mean latency".into(), measure: Measure::Time, values: Values::Means(means) },
    ]
}

/// Percentiles of latencies, which a run keeps without their order.
fn latencies([a, b]: [&rr::Outcome; 2]) -> Vec<Row> {
    [(Quantile::P50, "median latency"), (Quantile::P99, "p99 latency")]
        .into_iter()
        .filter(|(quantile, _)| a.latency.n.min(b.latency.n) >= quantile.needs())
        .map(|(quantile, name)| {
            let of = |s: &DurationSummary| if quantile == Quantile::P50 { s.p50 } else { s.p99 };
            Row {
                figure: name.into(),
                measure: Measure::Time,
                first: of(&a.latency).0 as f64,
                second: of(&b.latency).0 as f64,
                difference: None,
                withheld: Some("the run keeps latencies without their order".into()),
            }
        })
        .collect()
}

/// Requests for one byte under load, on separate connections and on those of the load.
fn responses(runs: [&responsiveness::Outcome; 2]) -> Vec<Figure> {
    [(ProbeKind::Foreign, "request under load, median"), (ProbeKind::Own, "request on the load, median")]
        .map(|(kind, name)| {
            let of = |run: &responsiveness::Outcome| {
                cut(run.probes.iter().filter(|p| p.kind == kind && p.load.is_some()).filter_map(|p| p.http))
            };
            Figure { name: name.into(), measure: Measure::Time, values: Values::Times(Quantile::P50, runs.map(of)) }
        })
        .into()
}

fn datagrams(runs: [&udp::Outcome; 2]) -> Vec<Figure> {
    let of = |values: fn(&udp::Interval) -> Option<(f64, u64)>| {
        Values::Means(runs.map(|run| run.series.iter().filter_map(values).collect()))
    };
    let figure = |name: &str, measure, values| Figure { name: name.into(), measure, values };
    vec![
        figure("goodput", Measure::BitRate, of(|i| Some((i.bytes as f64 * 8e9, i.end.saturating_sub(i.start).0)))),
        figure("lost", Measure::Share, of(|i| Some((i.lost as f64, i.received.saturating_add_signed(i.lost))))),
        figure("mean delay", Measure::Time, of(|i| Some((i.mean_delay?.0 as f64 * i.received as f64, i.received)))),
    ]
}

/// What was asked of the runs, and where, that is not the same.
fn differences(first: (&Run, &Provenance), second: (&Run, &Provenance)) -> Vec<String> {
    let [a, b] = [first, second].map(|(run, provenance)| {
        let mut all = BTreeMap::from([
            ("version".to_owned(), provenance.version.clone()),
            ("kernel".to_owned(), provenance.kernel.clone()),
            ("machine".to_owned(), provenance.machine.clone()),
            ("CPUs".to_owned(), count(provenance.cpus.into())),
        ]);
        flat(&run.asked(), "", &mut all);
        all
    });
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let text = |of: Option<&String>| of.map_or("nothing", String::as_str).to_owned();
    keys.into_iter()
        .filter(|key| a.get(*key) != b.get(*key))
        .map(|key| format!("{key}: {} and {}", text(a.get(key)), text(b.get(key))))
        .collect()
}

fn flat(value: &Value, path: &str, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                flat(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, into);
            }
        }
        Value::Null => {}
        Value::Number(n) if path.ends_with("_ns") => {
            into.insert(path.trim_end_matches("_ns").to_owned(), Nanos(n.as_u64().unwrap_or(0)).to_string());
        }
        other => drop(into.insert(path.to_owned(), other.as_str().map_or_else(|| other.to_string(), str::to_owned))),
    }
}

/// What changed from the first run to the second, by their names.
pub fn document(names: [&str; 2], between: &Between) -> Document {
    let mut seen: Vec<&Row> = between.rows.iter().filter(|row| row.seen()).collect();
    let relative = |row: &Row| (row.second - row.first).abs() / row.first.abs().max(f64::MIN_POSITIVE);
    seen.sort_by(|a, b| relative(b).total_cmp(&relative(a)));
    let judged: Vec<&Row> = between.rows.iter().filter(|row| row.difference.is_some()).collect();
    let mut verdict: Vec<String> = seen
        .iter()
        .map(|row| {
            let [first, second] = [row.first, row.second].map(|value| row.measure.text(value));
            format!("{}: {} ({first} in {}, {second} in {}).", row.figure, interval(row), names[0], names[1])
        })
        .collect();
    if judged.is_empty() {
        verdict.push("The runs are too short for intervals, so no difference can be claimed or excluded.".into());
    } else if seen.is_empty() {
        let reach: Vec<String> = judged.iter().map(|row| format!("{} {}", row.figure, interval(row))).collect();
        verdict.push(format!("No difference seen: {}.", reach.join("; ")));
    }
    let mut warnings: Vec<String> =
        between.differences.iter().map(|text| format!("The runs differ in {text}.")).collect();
    warnings.push(
        "Each side is one run: the intervals hold what varied within the runs, not what varies from run to run. `wirelapse study` repeats.".into(),
    );
    let mut section = Section::new("What changed");
    section.plot(plot(between));
    let mut table = Table::new("", ["figure", names[0], names[1], "difference"]);
    for row in &between.rows {
        let difference = row.withheld.as_ref().map_or_else(|| interval(row), |why| format!("— ({why})"));
        let [first, second] = [row.first, row.second].map(|value| row.measure.text(value));
        table.push(vec![row.figure.clone(), first, second, difference]);
    }
    section.table(table);
    section.blocks.push(Block::Words(
        "Second less first. All intervals hold at the same time in 95 % of comparisons (Bonferroni); stretches of a run are drawn whole, because neighbouring values are alike.".into(),
    ));
    Document {
        title: format!("{} against {}", names[1], names[0]).into(),
        about: format!("Two runs of {} side by side.", between.workload),
        verdict: clauses(verdict),
        warnings,
        sections: vec![section],
    }
}

fn interval(row: &Row) -> String {
    let text = |value| row.measure.change(value);
    row.difference.map_or_else(String::new, |e| format!("{} [{}, {}]", text(e.value), text(e.low), text(e.high)))
}

/// Differences as shares of the first run's figure: figures of different units stand on one axis.
fn plot(between: &Between) -> Option<Plot> {
    let shown: Vec<(&Row, Estimate)> =
        between.rows.iter().filter(|row| row.first > 0.0).filter_map(|row| Some((row, row.difference?))).collect();
    let items = (0u32..).zip(&shown).map(|(i, (row, e))| Interval {
        at: f64::from(i),
        low: tidy(e.low / row.first),
        value: tidy(e.value / row.first),
        high: tidy(e.high / row.first),
        label: format!("{}\n{}", row.figure, interval(row)),
    });
    let layers = vec![
        Layer::Rule { name: "no difference".into(), upright: true, value: 0.0 },
        Layer::Intervals { name: "measured".into(), hue: Hue(0), items: items.collect() },
    ];
    let names = shown.iter().map(|(row, _)| row.figure.clone());
    let caption = "The second run less the first, as a share of the first, with intervals.";
    let axes = (Axis::linear("difference", Unit::Share), Axis::names("", names));
    Plot::new("between", "Differences with their intervals", caption, axes, layers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// A run with a probe every 10 ms for 20 s, and its round trips under load `loaded` long.
    fn run(loaded: u64, seed: u64) -> Run {
        let server = SocketAddr::from(([192, 0, 2, 1], 5201));
        let config = load::Config {
            before: Nanos::from_secs(5),
            load: Nanos::from_secs(10),
            after: Nanos::from_secs(5),
            ..load::Config::new(server)
        };
        let (mut rounds, mut state) = (Vec::new(), seed);
        for n in 0..2_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = Nanos::from_millis(10 * n);
            let base = if (500..1_500).contains(&n) { loaded } else { 20_000_000 };
            rounds.push(load::Round { at, late: Nanos::ZERO, round_trip: Some(Nanos(base + (state >> 40) % 500_000)) });
        }
        let phase = load::Phase::default();
        let probed = load::Probed {
            probe: load::ProbeKind::Icmp,
            before: phase,
            loaded: phase,
            after: phase,
            added_by_load: None,
            stamped: 0,
            rounds,
            error: None,
        };
        let outcome = load::Outcome {
            started_realtime: record::Instant::from_nanos(0),
            elapsed: Nanos::from_secs(20),
            load_started: Nanos::from_secs(5),
            load_ended: Nanos::from_secs(15),
            probes: vec![probed],
            stream: None,
            interrupted: None,
        };
        Run::Load(config, Box::new(outcome))
    }

    fn provenance() -> Provenance {
        Provenance {
            version: "0".into(),
            command_line: Vec::new(),
            kernel: "6.18".into(),
            machine: "x86_64".into(),
            cpus: 2,
            clock: record::ClockReading { realtime_offset_ns: 0, realtime_offset_error_ns: 0 },
        }
    }

    #[test]
    fn a_longer_queue_is_seen_under_load_alone_and_nothing_where_nothing_differs() {
        let p = provenance();
        let (a, b, c) = (run(100_000_000, 1), run(100_000_000, 2), run(150_000_000, 3));
        let same = compare((&a, &p), (&b, &p)).unwrap();
        assert!(
            same.rows.iter().all(|row| !row.seen() && row.difference.is_some() == (row.figure.ends_with("median")))
        );
        assert!(document(["A", "B"], &same).verdict[0].text.starts_with("No difference seen"));
        let other = Provenance { kernel: "6.12".into(), ..p.clone() };
        let moved = compare((&a, &p), (&c, &other)).unwrap();
        let seen: Vec<&str> = moved.rows.iter().filter(|r| r.seen()).map(|r| r.figure.as_str()).collect();
        assert_eq!(seen, ["icmp round trip loaded, median"]);
        let e = moved.rows.iter().find(|r| r.seen()).and_then(|r| r.difference).unwrap();
        assert!(e.covers(5e7) && e.half_width() < 1e6, "{e:?}");
        assert_eq!(moved.differences, ["kernel: 6.18 and 6.12"]);
        let Run::Load(config, outcome) = run(1, 1) else { unreachable!() };
        let stream = Run::Stream(stream::Config::new(config.target.clone()), Box::new(streamed()));
        assert_eq!(compare((&Run::Load(config, outcome), &p), (&stream, &p)), None);
    }

    fn streamed() -> stream::Outcome {
        serde_json::from_value(serde_json::json!({
            "started_realtime_ns": 0, "cookie": "", "elapsed_ns": 0, "flows": [], "cpu": { "user_ns": 0, "system_ns": 0 },
            "socket_options": {}, "server_is_wirelapse": true,
        }))
        .unwrap()
    }
}
