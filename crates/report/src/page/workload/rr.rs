//! Request and response: `rr` and `crr`.

use quantity::{count, counted, per_second};
use record::Nanos;
use traffic::rr::{Config, Outcome};

use super::{DISTRIBUTED, buckets_curve, distributions, ended_early, withheld};
use crate::page::facts;
use paper::document::{Cell, Column, Document, Section, Table, Text, clauses, texts};
use paper::plot::{Axis, Hue, Layer, Plot, Unit, tidy};

/// One line of progress: what was done until then, and how fast since the last one.
pub fn progress(elapsed: Nanos, done: u64, rate: f64) -> String {
    format!("{:>7}  {done:>10} transactions  {:>9}", elapsed.to_string(), per_second(rate))
}

/// What the transactions showed.
pub fn document(config: &Config, o: &Outcome) -> Document {
    let name = if config.connect_each { "crr" } else { "rr" };
    let e = &config.exchange;
    let congestion = o.congestion_control.as_ref().map_or(String::new(), |name| format!("; congestion control {name}"));
    let about = format!(
        "Requests of {} B in {}, responses of {} B in {}; {}{congestion}.",
        count(e.request_bytes.into()),
        counted(e.request_writes.into(), "write"),
        count(e.response_bytes.into()),
        counted(e.response_writes.into(), "write"),
        match (config.connect_each, config.rate_per_second) {
            (true, None) => format!("a connection each, {} at the same time", count(config.connections.into())),
            (true, Some(rate)) => format!("a connection each, {} at fixed moments", per_second(rate)),
            (false, None) => counted(config.connections.into(), "connection"),
            (false, Some(rate)) =>
                format!("{}, {} at fixed moments", counted(config.connections.into(), "connection"), per_second(rate)),
        }
    );
    let unfinished = if o.unfinished > 0 { format!(", {} unfinished", count(o.unfinished)) } else { String::new() };
    let mut verdict = vec![format!(
        "{}: {} in {}{unfinished}.",
        per_second(o.transactions_per_second),
        counted(o.transactions, "transaction"),
        o.elapsed
    )];
    let mut warnings = ended_early(o.interrupted.as_ref());
    warnings.extend(silence(o).map(|said| format!("{said}.")));
    if o.never_sent + o.failed > 0 {
        verdict.push(format!("Not counted: {} never sent, {} failed.", count(o.never_sent), count(o.failed)));
    }
    warnings.extend(o.failure.iter().map(|why| format!("The first failure: {why}.")));
    let mut times = Section::new("Latency");
    let mut rows = vec![("latency", &o.latency)];
    rows.extend(o.connect.iter().map(|connect| ("handshake", connect)));
    let note = withheld(rows.iter().map(|(_, s)| *s), &DISTRIBUTED);
    times.table(distributions("", &rows));
    note.into_iter().for_each(|note| times.say(note));
    times.plot(buckets_curve("latency", "Latency", "transactions", &o.latency_buckets));
    times.plot(over_time(o));
    times.table(slowest(o));
    let mut settings = Section::new("Settings and cost");
    let mut kept = vec![("sockets", o.socket_options.to_string())];
    kept.extend(o.cpu_per_transaction.map(|cpu| ("CPU", format!("{cpu} a transaction on this side"))));
    settings.table(facts("", kept));
    Document {
        title: Text::from(format!("{name} to ")).and(config.target.server),
        about,
        verdict: clauses(verdict),
        warnings: texts(warnings),
        sections: vec![times, settings],
        ..Document::default()
    }
}

/// That the server answered no more at the end, where it did not; without a full stop.
pub fn silence(o: &Outcome) -> Option<String> {
    o.fell_silent().then(|| {
        let (n, waited) = (counted(o.unfinished, "transaction"), o.unfinished_waited);
        format!("The server answered no more: {n} unfinished, the oldest after {waited}")
    })
}

/// The median and the 99th percentile of each interval, over all connections the largest.
fn over_time(o: &Outcome) -> Option<Plot> {
    let line = |name: &str, hue, of: fn(&stats::DurationSummary) -> Nanos| {
        let mut points: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        for i in o.series.iter().filter(|i| i.latency.n > 0) {
            let slot = points.entry(i.end.0).or_default();
            *slot = (*slot).max(of(&i.latency).0);
        }
        Layer::line(name, hue, points.into_iter().map(|(at, ns)| [at as f64, tidy(ns as f64)]).collect())
    };
    let axes =
        (Axis::linear("time since measuring began", Unit::Time).reaching(0.0), Axis::sizes("latency", Unit::Time));
    let caption = "of each interval; where there are several connections, that of the slowest";
    let layers = vec![line("median", Hue(0), |l| l.p50), line("p99", Hue(1), |l| l.p99)];
    (o.series.len() > 1)
        .then(|| Plot::new("latency-time", "Latency over time", caption, axes, layers))
        .flatten()
        .map(Plot::in_strips)
}

fn slowest(o: &Outcome) -> Table {
    let columns = ["latency", "queued", "handshake", "first byte", "rest", "port"].map(Column::figures);
    let mut table = Table::new("The slowest transactions, and where their time went", columns);
    for slow in &o.slowest {
        let time = |time: Nanos| if time == Nanos::ZERO { Cell::default() } else { Cell::time(time) };
        table.push([
            Cell::time(slow.latency),
            time(slow.queued),
            time(slow.connect),
            time(slow.first_byte),
            time(slow.rest),
            Cell::figure(slow.local_port.to_string()),
        ]);
    }
    table.shown = Some(3);
    table.elsewhere = "--json and the run of -o have them".into();
    table
}
