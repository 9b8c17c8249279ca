//! Responsiveness under working conditions.

use quantity::{bit_rate, count, counted};
use record::Nanos;
use traffic::responsiveness::{Config, Figures, Load, Outcome, Probe, ProbeKind, Stage};

use super::ended_early;
use crate::page::facts;
use paper::document::{Column, Document, Section, Table, clauses, texts};
use paper::plot::{Axis, Hue, Layer, Plot, Unit, tidy};

fn loaded(load: Load) -> &'static str {
    match load {
        Load::Both => "both directions loaded",
        Load::Down => "download loaded",
        Load::Up => "upload loaded",
    }
}

/// What the test showed.
pub fn document(config: &Config, o: &Outcome) -> Document {
    let mut verdict: Vec<String> = o.stages.iter().map(|stage| sentence(config, stage)).collect();
    if let (Some(rpm), Some(http)) = (o.idle.foreign_rpm(), o.idle.http_foreign) {
        verdict.push(format!(
            "Without load: {} round trips a minute on separate connections, {http} for a request.",
            count(rpm as u64)
        ));
    }
    let mut warnings = ended_early(o.interrupted.as_ref());
    let failed: u64 = o.stages.iter().map(|s| s.figures.failed).sum();
    if failed > 0 {
        warnings.push(format!("{} failed and are in no figure.", counted(failed, "probe")));
    }
    let mut trips = Section::new("Round trips");
    let figures =
        ["TCP handshake", "TLS round trip", "request", "request on the load", "foreign probes", "self probes"];
    let columns = [Column::text("")].into_iter().chain(figures.map(Column::figures));
    let mut table = Table::new("Trimmed means", columns).with_basis("the lowest 95 % of each");
    table.push(row("without load", &o.idle));
    table.extend(o.stages.iter().map(|stage| row(loaded(stage.load), &stage.figures)));
    trips.table(table);
    trips.plot(over_time(o));
    trips.plot(goodput(o));
    let mut settings = Section::new("Settings");
    let p = &config.parameters;
    settings.table(facts(
        "",
        [
            ("draft", o.draft.clone()),
            ("server", o.server.to_string()),
            ("protocol", format!("HTTP/2 over {}", o.tls_version.as_deref().unwrap_or("TLS"))),
            (
                "stable",
                format!(
                    "where {} moving averages over as many intervals of {} deviate by less than {} %",
                    p.moving_average_intervals,
                    p.interval,
                    p.deviation_share * 100.0
                ),
            ),
            ("sockets", config.options.to_string()),
        ],
    ));
    Document {
        title: format!("responsiveness to {}", o.server).into(),
        about: format!("Round trips a minute under working conditions, in {}.", o.elapsed),
        verdict: clauses(verdict),
        warnings: texts(warnings),
        sections: vec![trips, settings],
        ..Document::default()
    }
}

fn sentence(config: &Config, stage: &Stage) -> String {
    let goodputs = [(stage.down_bits_per_second, "down"), (stage.up_bits_per_second, "up")];
    let goodputs: Vec<String> =
        goodputs.into_iter().filter_map(|(rate, way)| Some(format!("{} {way}", bit_rate(rate?)))).collect();
    let goodputs = if goodputs.is_empty() { "no goodput".to_owned() } else { goodputs.join(", ") };
    let by = counted(stage.connections.into(), "connection");
    let confidence = format!("confidence {} (goodput {})", stage.confidence, stage.goodput_confidence);
    let Some(rpm) = stage.rpm else {
        return format!(
            "{}: responsiveness is not known, for a kind of probe had no answer within {}; {goodputs} by {by}; {confidence}.",
            loaded(stage.load),
            config.limit
        );
    };
    let interval = stage.rpm_interval.map_or_else(
        || "no interval: too few probes".to_owned(),
        |e| format!("{} to {} at 95 % by what varied in this run", count(e.low as u64), count(e.high as u64)),
    );
    format!(
        "{}: {} round trips a minute ({interval}); {goodputs} by {by}; {confidence}.",
        loaded(stage.load),
        count(rpm as u64)
    )
}

fn row(name: &str, f: &Figures) -> Vec<String> {
    let time = |time: Option<Nanos>| time.map_or_else(|| "—".to_owned(), |t| t.to_string());
    vec![
        name.to_owned(),
        time(f.tcp_foreign),
        time(f.tls_foreign),
        time(f.http_foreign),
        time(f.http_self),
        count(f.foreign),
        count(f.own),
    ]
}

/// Probes with a point in a plot, at most.
const POINTS: usize = 2_000;

fn over_time(o: &Outcome) -> Option<Plot> {
    let stride = o.probes.len().div_ceil(POINTS).max(1);
    let dots = |name: &str, hue, kind: ProbeKind, of: fn(&Probe) -> Option<Nanos>| {
        let probes = o.probes.iter().step_by(stride).filter(|p| p.kind == kind && p.http.is_some());
        let points = probes.filter_map(|p| Some([p.at.0 as f64, tidy(of(p)?.0 as f64)])).collect();
        Layer::dots(name, Hue(hue), points)
    };
    let mut layers = vec![
        dots("TCP handshake", 0, ProbeKind::Foreign, |p| p.tcp),
        dots("TLS round trip", 1, ProbeKind::Foreign, |p| p.tls),
        dots("request", 2, ProbeKind::Foreign, |p| p.http),
        dots("request on the load", 3, ProbeKind::Own, |p| p.http),
    ];
    for stage in &o.stages {
        if let Some(first) = o.intervals.iter().find(|i| i.load == stage.load) {
            layers.push(Layer::Rule {
                name: format!("{} from here", loaded(stage.load)),
                upright: true,
                value: first.start.0 as f64,
            });
        }
    }
    let axes = (
        Axis::linear("time since the start", Unit::Time).reaching(0.0),
        Axis::log("round trip (logarithmic)", Unit::Time),
    );
    let caption = "Each answered probe, when it began.";
    Plot::new("responsiveness", "Round trips over time", caption, axes, layers)
}

fn goodput(o: &Outcome) -> Option<Plot> {
    let line = |name: &str, hue, of: fn(&traffic::responsiveness::Interval) -> Option<f64>| {
        let points = o.intervals.iter().filter_map(|i| Some([i.end.0 as f64, tidy(of(i)?)])).collect();
        Layer::line(name, Hue(hue), points)
    };
    let axes = (
        Axis::linear("time since the start", Unit::Time).reaching(0.0),
        Axis::linear("goodput", Unit::Rate).reaching(0.0),
    );
    let layers = vec![line("up", 0, |i| i.up_bits_per_second), line("down", 1, |i| i.down_bits_per_second)];
    let caption = "by interval: acknowledged by the server (up), read here (down)";
    Plot::new("goodput", "Goodput of the load over time", caption, axes, layers).map(Plot::in_strips)
}
