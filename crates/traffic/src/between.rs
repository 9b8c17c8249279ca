//! Two runs of the same workload side by side.

use std::collections::{BTreeMap, BTreeSet};

use compare::{ALONE, Change, Scale};
use record::Nanos;
use serde::Serialize;
use serde::ser::SerializeStruct as _;
use serde_json::Value;
use stats::{Distribution, DurationSummary, FEWEST_STRETCHES, Precision, Quantile};
use store::workload::Provenance;

use crate::kept::Run;
use crate::responsiveness::{self, ProbeKind};
use crate::stream::Sample;
use crate::workload::Workload;
use crate::{load, rr, stream, udp};

/// Stretches that a phase's probes are cut into: neighbouring round trips are alike.
const STRETCHES: usize = 20;

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

/// Why a figure has no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// The runs have too few round trips.
    FewRoundTrips,
    /// They have too few intervals.
    FewIntervals,
    /// A run keeps them without their order.
    Unordered,
}

/// One figure of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which.
    pub figure: String,
    /// What it is.
    pub measure: Measure,
    /// In both runs, with the difference. All intervals hold at the same time in 95 % of
    /// comparisons.
    pub change: Change,
    /// Why there is no interval.
    pub withheld: Option<Withheld>,
}

impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Row", 6)?;
        let [first, second] = self.change.values;
        fields.serialize_field("figure", &self.figure)?;
        fields.serialize_field("measure", &self.measure)?;
        fields.serialize_field("first", &first)?;
        fields.serialize_field("second", &second)?;
        fields.serialize_field("difference", &self.change.by)?;
        fields.serialize_field("withheld", &self.withheld.map(Withheld::words))?;
        fields.end()
    }
}

impl Withheld {
    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::FewRoundTrips => "too few round trips".into(),
            Self::FewIntervals => format!("fewer than {FEWEST_STRETCHES} intervals: a shorter --interval gives more"),
            Self::Unordered => "the run keeps latencies without their order".into(),
        }
    }
}

/// What else differs between the runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// What it is.
    pub what: String,
    /// What it is of each run; `None` where that has nothing of it.
    pub of: [Option<String>; 2],
}

impl Serialize for Differing {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self)
    }
}

impl std::fmt::Display for Differing {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [first, second] = self.of.each_ref().map(|of| of.as_deref().unwrap_or("nothing"));
        write!(to, "{}: {first} and {second}", self.what)
    }
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Between {
    /// The workload of both.
    pub workload: Workload,
    /// The figures.
    pub rows: Vec<Row>,
    /// What else differs between the runs.
    pub differences: Vec<Differing>,
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
///
/// # Errors
/// As [`Run::asked`].
pub fn compare(first: (&Run, &Provenance), second: (&Run, &Provenance)) -> serde_json::Result<Option<Between>> {
    let (figures, single) = match (first.0, second.0) {
        (Run::Stream(_, a), Run::Stream(_, b)) => (goodputs([(a, Nanos::ZERO), (b, Nanos::ZERO)]), Vec::new()),
        (Run::Load(ca, a), Run::Load(cb, b)) => {
            let mut figures = round_trips([(ca, a), (cb, b)]);
            if let (Some(sa), Some(sb)) = (&a.stream, &b.stream) {
                figures.extend(goodputs([(sa, a.loaded_from(ca)), (sb, b.loaded_from(cb))]));
            }
            (figures, Vec::new())
        }
        (Run::Transactions(ca, a), Run::Transactions(cb, b)) if ca.connect_each == cb.connect_each => {
            (transactions([a, b]), latencies([a, b]))
        }
        (Run::Responsiveness(_, a), Run::Responsiveness(_, b)) => (responses([a, b]), Vec::new()),
        (Run::Udp(_, a), Run::Udp(_, b)) => (datagrams([a, b]), Vec::new()),
        _ => return Ok(None),
    };
    // How many intervals there are decides how wide each is (Bonferroni).
    let known = figures.iter().filter(|f| f.at(ALONE).is_some_and(|row| row.change.by.is_some())).count();
    let confidence = compare::confidence(known);
    let mut rows: Vec<Row> = figures.iter().filter_map(|f| f.at(confidence)).collect();
    rows.extend(single);
    let differences = differences(first, second)?;
    Ok(Some(Between { workload: first.0.workload(), rows, differences }))
}

impl Figure {
    /// The figure of both runs with its interval; `None` where a run has nothing of it.
    fn at(&self, confidence: f64) -> Option<Row> {
        let (change, why) = match &self.values {
            Values::Times(quantile, [a, b]) => {
                let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
                let (_, change) = compare::quantiles([&a, &b], &[*quantile], confidence).next()?;
                (change.allowing_for_rounding(), Withheld::FewRoundTrips)
            }
            Values::Means([a, b]) => (compare::mean([a, b], confidence)?, Withheld::FewIntervals),
        };
        let withheld = change.by.is_none().then_some(why);
        Some(Row { figure: self.name.clone(), measure: self.measure, change, withheld })
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
                let parts = outcome.parts(config);
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
            let values = [a, b].map(|run| of(&run.latency).0 as f64);
            let change = Change::without_interval(values, Scale::Difference);
            Row { figure: name.into(), measure: Measure::Time, change, withheld: Some(Withheld::Unordered) }
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
fn differences(first: (&Run, &Provenance), second: (&Run, &Provenance)) -> serde_json::Result<Vec<Differing>> {
    let all = |(run, provenance): (&Run, &Provenance)| {
        let mut all = BTreeMap::from([
            ("version".to_owned(), provenance.version.clone()),
            ("kernel".to_owned(), provenance.kernel.clone()),
            ("machine".to_owned(), provenance.machine.clone()),
            ("CPUs".to_owned(), provenance.cpus.to_string()),
        ]);
        run.asked().map(|asked| flat(&asked, "", &mut all))?;
        serde_json::Result::Ok(all)
    };
    let (a, b) = (all(first)?, all(second)?);
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    Ok(differ.map(|key| Differing { what: key.clone(), of: [&a, &b].map(|all| all.get(key).cloned()) }).collect())
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
            filled: Some(Nanos::from_secs(6)),
            load_ended: Nanos::from_secs(15),
            drained: Nanos::from_secs(15),
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
        let same = compare((&a, &p), (&b, &p)).unwrap().unwrap();
        assert!(
            same.rows
                .iter()
                .all(|row| !row.change.is_seen() && row.change.by.is_some() == (row.figure.ends_with("median")))
        );
        let other = Provenance { kernel: "6.12".into(), ..p.clone() };
        let moved = compare((&a, &p), (&c, &other)).unwrap().unwrap();
        let seen: Vec<&str> = moved.rows.iter().filter(|r| r.change.is_seen()).map(|r| r.figure.as_str()).collect();
        assert_eq!(seen, ["icmp round trip loaded, median"]);
        let e = moved.rows.iter().find(|r| r.change.is_seen()).and_then(|r| r.change.by).unwrap();
        assert!(e.covers(5e7) && e.half_width() < 1e6, "{e:?}");
        let differing: Vec<String> = moved.differences.iter().map(ToString::to_string).collect();
        assert_eq!(differing, ["kernel: 6.18 and 6.12"]);
        let Run::Load(config, outcome) = run(1, 1) else { unreachable!() };
        let stream = Run::Stream(stream::Config::new(config.target.clone()), Box::new(streamed()));
        assert_eq!(compare((&Run::Load(config, outcome), &p), (&stream, &p)).unwrap(), None);
    }

    fn streamed() -> stream::Outcome {
        serde_json::from_value(serde_json::json!({
            "started_realtime_ns": 0, "cookie": "", "elapsed_ns": 0, "flows": [], "cpu": { "user_ns": 0, "system_ns": 0 },
            "socket_options": {}, "server_is_wirelapse": true,
        }))
        .unwrap()
    }
}
