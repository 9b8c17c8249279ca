//! The page of a trace.

use model::{Event, Leg, Lost, Nanos, Ratio, Sampling};
use stats::{Distribution, Precision, Quantile};
use store::{Error, Run, SamplingMethod, State};

use super::{command, curve, facts};
use crate::document::{Block, Document, Section, Table};
use crate::plot::{Axis, Boxed, Cell, Hue, Layer, Plot, Span, Unit, tidy};
use crate::view::{self, Facts};
use crate::{Limits, Summary, quantity};

/// Intervals of time that a series has, at most; half as many at least, once there is enough.
const INTERVALS: usize = 160;
/// Connections in the table.
const CONNECTIONS: usize = 100;
/// Sends that are drawn as waterfalls.
const WATERFALLS: usize = 20;
/// Rows of the heat map.
const HEAT_ROWS: f64 = 30.0;

/// A trace that was read.
#[derive(Debug)]
pub struct Trace {
    /// The figures.
    pub summary: Summary,
    /// What stands beside them.
    pub facts: Facts,
    /// What has to be known before they are believed.
    pub warnings: Vec<String>,
    timeline: Timeline,
}

/// How the sends of a run were chosen.
pub fn sampling(run: &Run) -> Sampling {
    let asked = run.provenance().sampling;
    let ratio = std::num::NonZeroU32::new(asked.one_in).map_or(Ratio::ALL, Ratio);
    match asked.method {
        SamplingMethod::Every => Sampling::Every,
        SamplingMethod::Windows => Sampling::Windows(ratio),
        SamplingMethod::Draws => Sampling::Draws(ratio),
    }
}

/// What of a run is not whole: said, and then gone on without.
pub(crate) fn incomplete(run: &Run, result: Result<(), Error>, warnings: &mut Vec<String>) -> Result<(), Error> {
    match result {
        // A run that was killed may lack what it had not begun.
        Err(error @ Error::NoTable { .. }) => warnings.push(format!("{error}. What follows goes on without it.")),
        Err(error @ (Error::Truncated { .. } | Error::Malformed { .. })) if run.state() == State::Unfinished => {
            warnings.push(format!("{error}. What was read before it is below."));
        }
        other => return other,
    }
    Ok(())
}

/// Reads a trace: twice over its tables, in bounded memory.
///
/// # Errors
/// Those of [`Run::sends`], save that tables which are missing become a warning.
pub fn read(run: &Run) -> Result<Trace, Error> {
    let limits = Limits { connections: 2_000, slowest: WATERFALLS };
    let (mut summary, mut warnings) = (Summary::new(limits), Vec::new());
    let mut timeline = Timeline::new(run.provenance().start_ns);
    if run.state() == State::Unfinished {
        warnings.push(
            "This run was never finished: it is still being written, or its writer was killed. What was lost, and what share \
             was seen, is not known."
                .into(),
        );
    }
    let result = run.connections(|c| summary.event(&Event::Connection(c)));
    incomplete(run, result, &mut warnings)?;
    let mut last = run.provenance().start_ns;
    let result = run.sends(|s| {
        last = last.max(s.stamps.ack.unwrap_or(s.stamps.send).as_nanos());
        timeline.add(&s);
        summary.event(&Event::Send(s));
    });
    incomplete(run, result, &mut warnings)?;
    let result = run.totals(|t| summary.event(&Event::Closed { connection: t.connection, totals: t.totals }));
    incomplete(run, result, &mut warnings)?;
    if run.rows().is_some_and(|r| r.sends != summary.total().sends) {
        warnings.push(format!(
            "run.json speaks of {} sends, and its tables hold {}: they were not copied whole.",
            quantity::count(run.rows().map_or(0, |r| r.sends)),
            quantity::count(summary.total().sends)
        ));
    }
    let p = run.provenance();
    let facts = Facts {
        target: p.target.clone(),
        backend: p.backend.clone(),
        sampling: sampling(run),
        coverage: run.coverage().unwrap_or_default(),
        lost: run.lost().unwrap_or_default(),
        lasted: Nanos(run.end_ns().unwrap_or(last).saturating_sub(p.start_ns)),
        no_nic: None,
        receiving: Vec::new(),
        packets: Vec::new(),
    };
    Ok(Trace { summary, facts, warnings, timeline })
}

/// The page of a trace; `name` is what the run is called.
///
/// # Errors
/// As [`read`].
pub fn document(name: &str, run: &Run) -> Result<Document, Error> {
    let Trace { summary, facts, warnings, timeline } = read(run)?;
    let total = summary.total();
    let about = format!(
        "A trace of {} over {}: {} of {} on {}, {}, by {}.",
        facts.target,
        facts.lasted,
        quantity::counted(total.sends, "send"),
        quantity::bytes(total.bytes),
        quantity::counted(summary.connection_count(), "connection"),
        view::sampling(facts.sampling),
        facts.backend
    );
    let mut legs = Section::new("Legs");
    legs.plot(cdf(&summary));
    legs.plot(boxes(&summary));
    legs.table(leg_table(&summary));
    legs.plot(waits(&summary));
    let mut time = Section::new("Over time");
    let note = timeline.note();
    time.plot(timeline.quantiles(&note));
    time.plot(timeline.heat(&note));
    time.plot(timeline.rate(&note));
    let mut slow = Section::new("Slowest sends");
    slow.plot(waterfalls(&summary));
    let mut connections = Section::new("Connections");
    connections.table(connection_table(&summary));
    let mut lost = Section::new("What was not seen");
    losses(&mut lost, run.lost(), &facts);
    let mut sections = vec![legs, time, slow, connections, lost, environment(run)];
    sections.retain(|s| !s.blocks.is_empty());
    let verdict = view::sentences(&summary, &facts);
    Ok(Document { title: format!("Trace {name}"), about, verdict, warnings, sections })
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "—".into(), |ns| Nanos(ns).to_string())
}

fn n_of(n: u64) -> String {
    format!("n = {}", quantity::counted(n, "send"))
}

fn leg_table(summary: &Summary) -> Table {
    let mut table =
        Table::new("Time by leg", &["leg", "n", "min", "p50", "p90", "p99", "p99.9", "max", "share of the time"]);
    let total = summary.total();
    for leg in Leg::ALL {
        let times = &total.leg(leg).times;
        let mut row = vec![format!("{leg} ({})", view::meaning(leg)), quantity::count(times.n()), time(times.min())];
        row.extend(Quantile::SHOWN.map(|q| time(times.quantile(q))));
        row.push(time(times.max()));
        row.push(match leg {
            Leg::Total => String::new(),
            _ => quantity::percent(quantity::share(times.sum(), total.time())),
        });
        table.rows.push(row);
    }
    table
}

fn cdf(summary: &Summary) -> Option<Plot> {
    let total = summary.total();
    let layers = Leg::ALL.map(|leg| {
        let times = &total.leg(leg).times;
        let (name, points) = (format!("{leg}, n = {}", quantity::count(times.n())), curve(times));
        Layer::Line { name, hue: Hue::of(leg), points, step: true, dashed: leg == Leg::Total }
    });
    Plot::new(
        "cdf",
        "How long each leg took",
        format!(
            "The share of sends whose leg took no longer than this; {}. Times are within 0.1 %; a curve has a few hundred \
             points, more of them in its tail.",
            n_of(total.sends)
        ),
        (Axis::log("time (logarithmic)", Unit::Time), Axis::linear("share of sends", Unit::Share).reaching(0.0).reaching(1.0)),
        layers.into(),
    )
    .map(|p| p.with_table(leg_table(summary)))
}

fn boxes(summary: &Summary) -> Option<Plot> {
    let total = summary.total();
    let legs: Vec<Leg> = Leg::ALL.into_iter().filter(|l| total.leg(*l).times.n() >= 10).collect();
    let quantile = |times: &Distribution, thousandths: u16| {
        Quantile::from_thousandths(thousandths).and_then(|q| times.quantile(q)).map(|v| v.max(1) as f64)
    };
    let layers = (0u32..)
        .zip(&legs)
        .filter_map(|(i, &leg)| {
            let times = &total.leg(leg).times;
            let p = |thousandths| quantile(times, thousandths);
            let figures = [p(100)?, p(250)?, p(500)?, p(750)?, p(900)?];
            let label = format!(
                "{leg}: p10 {}, p25 {}, median {}, p75 {}, p90 {}; n = {}",
                Nanos(figures[0] as u64),
                Nanos(figures[1] as u64),
                Nanos(figures[2] as u64),
                Nanos(figures[3] as u64),
                Nanos(figures[4] as u64),
                quantity::count(times.n())
            );
            let items = vec![Boxed { at: f64::from(i), figures, label }];
            Some(Layer::Boxes { name: String::new(), hue: Hue::of(leg), items })
        })
        .collect();
    let names = legs.iter().map(|l| format!("{l} (n = {})", quantity::count(total.leg(*l).times.n()))).collect();
    Plot::new(
        "boxes",
        "Spread of each leg",
        "Box: the middle half of the sends, its line their median; whiskers: p10 and p90. n stands with each name.",
        (Axis::log("time (logarithmic)", Unit::Time), Axis::names("", names)),
        layers,
    )
}

fn waits(summary: &Summary) -> Option<Plot> {
    let waits = summary.total().waits();
    let whole: u128 = waits.iter().map(|w| u128::from(w.1.time.0)).sum();
    let label = |w: &(model::WaitReason, crate::WaitStats)| {
        format!("{}: {} over {}", w.0, w.1.time, quantity::counted(w.1.sends, "send"))
    };
    let items: Vec<Span> = (0u32..)
        .zip(&waits)
        .map(|(i, w)| Span { at: f64::from(i), from: 0.0, to: w.1.time.0 as f64, label: label(w) })
        .collect();
    let mut table = Table::new("Waiting in TCP", &["reason", "sends", "time", "share"]);
    table.rows.extend(waits.iter().map(|(reason, w)| {
        let share = quantity::percent(quantity::share(w.time.0.into(), whole));
        vec![reason.to_string(), quantity::count(w.sends), w.time.to_string(), share]
    }));
    let waited = waits.iter().map(|w| w.1.sends).sum();
    Plot::new(
        "waits",
        "What sends waited for in TCP",
        format!("Time by the reason that held a send back longest, summed over sends; {} that waited.", n_of(waited)),
        (
            Axis::linear("time, all sends together", Unit::Time).reaching(0.0),
            Axis::names("", waits.iter().map(|w| w.0.to_string()).collect()),
        ),
        vec![Layer::Spans { name: String::new(), hue: Hue::of(Leg::Tcp), items }],
    )
    .map(|p| p.with_table(table))
}

fn waterfalls(summary: &Summary) -> Option<Plot> {
    let slowest = summary.slowest().sorted();
    let mut table = Table::new(
        "The slowest sends",
        &[
            "#",
            "total",
            "tcp",
            "qdisc",
            "nic",
            "network",
            "waited for",
            "bytes",
            "at",
            "program",
            "connection",
            "cwnd",
            "in flight",
            "srtt",
        ],
    );
    let mut spans: Vec<(Leg, Vec<Span>)> = Leg::PARTS.map(|leg| (leg, Vec::new())).into();
    let mut names = Vec::new();
    for (i, slow) in (0u32..).zip(&slowest) {
        let send = &slow.send;
        let ends = slow.ends.map_or_else(|| format!("connection {}", send.connection), |(l, r)| format!("{l} → {r}"));
        let since = summary.first_send().and_then(|f| send.stamps.send.since(f).ok()).unwrap_or_default();
        let leg = |leg| send.leg(leg).ok().flatten();
        let waited = send.wait.map_or_else(|| "—".into(), |w| format!("{} ({})", w.reason, w.by_reason));
        names.push(format!("{}. {} {}", i + 1, send.owner.comm, slow.total));
        let mut from = Nanos::ZERO;
        for (leg_of, spans) in &mut spans {
            let Some(took) = leg(*leg_of) else { continue };
            let why = if *leg_of == Leg::Tcp { format!(", waited for: {waited}") } else { String::new() };
            let label = format!("{leg_of}: {took}{why}\n{ends}, {}", quantity::bytes(send.bytes.into()));
            spans.push(Span { at: f64::from(i), from: from.0 as f64, to: (from + took).0 as f64, label });
            from += took;
        }
        let mut row = vec![(i + 1).to_string(), slow.total.to_string()];
        row.extend(Leg::PARTS.map(|l| leg(l).map_or_else(|| "—".into(), |t| t.to_string())));
        row.extend([
            waited,
            quantity::count(send.bytes.into()),
            format!("+{since}"),
            format!("{}[{}]", send.owner.comm, send.owner.pid),
            ends,
            send.state.cwnd.to_string(),
            send.state.in_flight.to_string(),
            send.state.srtt.to_string(),
        ]);
        table.rows.push(row);
    }
    let layers = spans
        .into_iter()
        .map(|(leg, items)| Layer::Spans { name: leg.name().into(), hue: Hue::of(leg), items })
        .collect();
    Plot::new(
        "waterfalls",
        "Where the slowest sends lost their time",
        format!(
            "The {} that took longest from send to ACK, of n = {}; each leg after the one before it.",
            quantity::counted(slowest.len() as u64, "send"),
            quantity::count(summary.total().leg(Leg::Total).times.n())
        ),
        (Axis::linear("time since the send", Unit::Time).reaching(0.0), Axis::names("", names)),
        layers,
    )
    .map(|p| p.with_table(table))
}

fn connection_table(summary: &Summary) -> Table {
    let all = summary.connections();
    let left = summary.connection_count() - all.len().min(CONNECTIONS) as u64;
    let title = match left {
        0 => "Connections, busiest first".to_owned(),
        left => format!("The {CONNECTIONS} busiest connections; {} are not listed", quantity::count(left)),
    };
    let mut table = Table::new(
        title,
        &[
            "local → remote",
            "program",
            "opened",
            "congestion control",
            "sends",
            "bytes",
            "tcp p50",
            "network p50",
            "total p50",
            "total p99",
            "max",
            "retransmitted segments",
        ],
    );
    for c in all.iter().take(CONNECTIONS) {
        let p = |leg, q| time(c.sends.leg(leg).times.quantile(q));
        table.rows.push(vec![
            format!("{} → {}", c.connection.local, c.connection.remote),
            format!("{}[{}]", c.connection.owner.comm, c.connection.owner.pid),
            format!("{:?}", c.connection.opening).to_lowercase(),
            c.connection.congestion_control.clone(),
            quantity::count(c.sends.sends),
            quantity::bytes(c.sends.bytes),
            p(Leg::Tcp, Quantile::P50),
            p(Leg::Network, Quantile::P50),
            p(Leg::Total, Quantile::P50),
            p(Leg::Total, Quantile::P99),
            time(c.sends.leg(Leg::Total).times.max()),
            c.totals.map_or_else(|| "—".into(), |t| quantity::count(t.segments_retransmitted.into())),
        ]);
    }
    table
}

fn losses(section: &mut Section, lost: Option<Lost>, facts: &Facts) {
    let Some(lost) = lost else {
        section.say("What was lost is not known, because the run was never finished.");
        return;
    };
    let mut table = Table::new("Counters of losses that are not zero", &["n", "what", "key"]);
    for (key, words, n) in lost.entries().filter(|e| e.2 > 0) {
        table.rows.push(vec![quantity::count(n), words.into(), key.into()]);
    }
    if table.rows.is_empty() {
        section.say("Nothing was lost: every counter of losses is zero.");
    }
    section.table(table);
    section.say(view::seen(&facts.coverage, facts.sampling));
}

fn environment(run: &Run) -> Section {
    let p = run.provenance();
    let mut section = Section::new("Environment");
    section.table(facts(
        "",
        [
            ("command", command(&p.command_line)),
            ("version", p.version.clone()),
            ("kernel", p.kernel.clone()),
            ("machine", format!("{}, {} processors", p.machine, p.cpus)),
            ("backend", p.backend.clone()),
            ("sampling", view::sampling(sampling(run))),
            (
                "clock",
                format!("CLOCK_MONOTONIC; to the time of day within {}", Nanos(p.clock.realtime_offset_error_ns)),
            ),
            ("state", if run.state() == State::Finished { "finished" } else { "unfinished" }.into()),
        ],
    ));
    if let Some(path) = &p.path {
        let text = serde_json::to_string_pretty(path).unwrap_or_default();
        section.blocks.push(Block::Code { title: "What the lab's path says of itself".into(), text });
    }
    section
}

/// Sends by intervals of time, which grow as the run does.
#[derive(Debug)]
struct Timeline {
    start: u64,
    width: u64,
    intervals: Vec<Distribution>,
    sends: Vec<u64>,
}

impl Timeline {
    fn new(start: u64) -> Self {
        Self { start, width: 1_000_000, intervals: Vec::new(), sends: Vec::new() }
    }

    fn add(&mut self, send: &model::Send) {
        let since = send.stamps.send.as_nanos().saturating_sub(self.start);
        while since / self.width >= INTERVALS as u64 {
            self.width = self.width.saturating_mul(2);
            let merged = |pair: &[Distribution]| {
                let mut both = pair[0].clone();
                pair[1..].iter().for_each(|second| both.merge(second));
                both
            };
            self.intervals = self.intervals.chunks(2).map(merged).collect();
            self.sends = self.sends.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let at = (since / self.width) as usize;
        while self.intervals.len() <= at {
            self.intervals.push(Distribution::new(Precision::Coarse));
            self.sends.push(0);
        }
        self.sends[at] += 1;
        if let Ok(Some(total)) = send.leg(Leg::Total) {
            self.intervals[at].record(total.0);
        }
    }

    fn n(&self) -> u64 {
        self.intervals.iter().map(Distribution::n).sum()
    }

    /// What an interval is.
    fn note(&self) -> String {
        format!("intervals of {}", Nanos(self.width))
    }

    fn at(&self, i: usize) -> f64 {
        (i as u64 * self.width) as f64
    }

    fn quantiles(&self, note: &str) -> Option<Plot> {
        let line = |name: &str, hue: u8, of: &dyn Fn(&Distribution) -> Option<u64>| {
            let points = self
                .intervals
                .iter()
                .enumerate()
                .filter_map(|(i, d)| Some([tidy(self.at(i) + self.width as f64 / 2.0), of(d)?.max(1) as f64]));
            Layer::line(name, Hue(hue), points.collect())
        };
        let layers = vec![
            line("max", 1, &Distribution::max),
            line("p99", 3, &|d| d.quantile(Quantile::P99)),
            line("p50", 0, &|d| d.quantile(Quantile::P50)),
        ];
        Plot::new(
            "over-time",
            "From send to ACK over time",
            format!(
                "Total time by when the send was made, {note}; {}. A percentile is left out where an interval has too few sends for it.",
                n_of(self.n())
            ),
            (
                Axis::linear("time since the trace began", Unit::Time).reaching(0.0),
                Axis::log("total time (logarithmic)", Unit::Time),
            ),
            layers,
        )
    }

    fn heat(&self, note: &str) -> Option<Plot> {
        let least = self.intervals.iter().filter_map(Distribution::min).min()?.max(1) as f64;
        let most = self.intervals.iter().filter_map(Distribution::max).max()?.max(2) as f64;
        let step = ((most * 1.001 / least).ln() / HEAT_ROWS).max(0.01);
        let mut counts: Vec<((usize, i32), u64)> = Vec::new();
        for (i, d) in self.intervals.iter().enumerate() {
            let mut rows = std::collections::BTreeMap::<i32, u64>::new();
            for (value, n) in d.values() {
                *rows.entry(((value.max(1) as f64 / least).ln() / step).floor().max(0.0) as i32).or_default() += n;
            }
            counts.extend(rows.into_iter().map(|(row, n)| ((i, row), n)));
        }
        let fullest = counts.iter().map(|c| c.1).max()? as f64;
        let cells = counts
            .into_iter()
            .map(|((i, row), n)| {
                let y = [row, row + 1].map(|r| tidy(least * (f64::from(r) * step).exp()));
                let x = [tidy(self.at(i)), tidy(self.at(i + 1))];
                let [low, high] = y.map(|v| Nanos(v as u64));
                let shade = tidy((n as f64).ln_1p() / fullest.ln_1p());
                Cell { x, y, shade, label: format!("{low} to {high}: n = {}", quantity::count(n)) }
            })
            .collect();
        Plot::new(
            "heat",
            "Where the sends lie, over time",
            format!("Each cell is as dark as the logarithm of its number of sends, {note}; {}.", n_of(self.n())),
            (
                Axis::linear("time since the trace began", Unit::Time).reaching(0.0),
                Axis::log("total time (logarithmic)", Unit::Time),
            ),
            vec![Layer::Heat { name: "sends".into(), cells }],
        )
    }

    fn rate(&self, note: &str) -> Option<Plot> {
        let per_second = 1e9 / self.width as f64;
        let points = self.sends.iter().enumerate().map(|(i, n)| [tidy(self.at(i)), tidy(*n as f64 * per_second)]);
        let line =
            Layer::Line { name: String::new(), hue: Hue(0), points: points.collect(), step: true, dashed: false };
        Plot::new(
            "rate",
            "Sends recorded over time",
            format!(
                "Sends a second as they were recorded, {note}; {}. Where a trace samples, this is the sample's rate.",
                n_of(self.sends.iter().sum())
            ),
            (
                Axis::linear("time since the trace began", Unit::Time).reaching(0.0),
                Axis::linear("sends a second", Unit::Plain).reaching(0.0),
            ),
            vec![line],
        )
        .filter(|_| self.sends.len() > 1)
    }
}
