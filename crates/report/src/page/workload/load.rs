//! Latency before, under and after a load.

use quantity::{bit_rate, count, counted};
use record::Nanos;
use stats::{Distribution, Precision, Quantile};
use std::collections::BTreeMap;
use traffic::load::{self, Config, Outcome, Phase, Probed};

use super::{carried, ended_early, withheld};
use crate::page::{NONE, TOO_FEW};
use crate::page::{curve, shortest_note};
use paper::document::{Cell, Column, Document, Section, Table, Text, clauses, texts};
use paper::plot::{Axis, Hue, Layer, Plot, Unit, tidy};

/// Above this, the probes' own lateness is worth a sentence: a wake-up of an idle host takes some
/// 0.1 ms.
const LATE: Nanos = Nanos::from_millis(1);

const fn phases(probed: &Probed) -> [(&'static str, &Phase); 3] {
    [("before", &probed.before), ("loaded", &probed.loaded), ("after", &probed.after)]
}

/// What the probes and the load showed.
pub fn document(config: &Config, outcome: &Outcome) -> Document {
    let filled = outcome.stream.is_none() || outcome.filled.is_some();
    let mut verdict: Vec<String> = outcome.probes.iter().filter_map(|p| sentence(p, filled)).collect();
    if let Some(stream) = &outcome.stream {
        let goodput = |way: &str, total: Option<traffic::stream::Total>| {
            Some(format!("{} {way}", bit_rate(total?.goodput_bits_per_second?)))
        };
        let both: Vec<String> =
            [goodput("up", stream.up), goodput("down", stream.down)].into_iter().flatten().collect();
        if !both.is_empty() {
            verdict.push(format!("The load: {}.", both.join(", ")));
        }
    }
    let mut warnings = ended_early(outcome.interrupted.as_ref());
    warnings.extend(filling(config, outcome));
    for probed in &outcome.probes {
        warnings.extend(probed.error.iter().map(|error| format!("{}: {error}.", probed.probe)));
        warnings.extend(lateness(probed));
    }
    let mut trips = Section::new("Round trips");
    let text = ["probe", "phase"].map(Column::text).into_iter();
    let figures = ["median", "p99", "max", "round trips a minute", "n", "lost"].map(Column::figures);
    let mut table = Table::new("", text.chain(figures));
    for probed in &outcome.probes {
        for (name, phase) in phases(probed).into_iter().filter(|(_, phase)| phase.sent > 0) {
            let s = &phase.round_trip;
            table.push([
                Cell::from(probed.probe.to_string()),
                name.into(),
                carried(s, Quantile::P50, s.p50),
                carried(s, Quantile::P99, s.p99),
                Cell::time_or((s.n > 0).then_some(s.max), NONE),
                Cell::or(phase.round_trips_per_minute, |n| Cell::count(n as u64), TOO_FEW),
                Cell::count(s.n),
                Cell::count(phase.lost),
            ]);
        }
    }
    trips.table(table);
    let all = outcome.probes.iter().flat_map(|p| phases(p).map(|(_, phase)| &phase.round_trip));
    withheld(all, &[Quantile::P50, Quantile::P99]).into_iter().for_each(|note| trips.say(note));
    trips.plot(over_time(outcome));
    trips.plot(idle_and_loaded(config, outcome));
    trips.plot(goodput_over_time(outcome));
    trips.plot(backlog_over_time(outcome));
    let about = format!(
        "Probes every {} for {} before, {} under and {} after a load of {} in each loaded direction.",
        config.probe_interval,
        config.before,
        config.load,
        config.after,
        counted(config.flows.into(), "stream")
    );
    let title = Text::from("ping-under-load to ").and(config.target.server);
    Document {
        title,
        about,
        verdict: clauses(verdict),
        warnings: texts(warnings),
        sections: vec![trips],
        ..Document::default()
    }
}

/// What the streams needed to fill the path, where that is a good part of the load or was not seen.
fn filling(config: &Config, outcome: &Outcome) -> Option<String> {
    outcome.stream.as_ref()?;
    let length = outcome.load_ended.saturating_sub(outcome.load_started);
    if outcome.filled.is_none() {
        let text = "What arrived was growing to the end of the load, so whether the path was ever full is not known: \
                    a longer --for shows what a full one adds.";
        return Some(text.into());
    }
    let from = outcome.loaded_from(config);
    (from > Nanos(length.0 / 4).max(load::settling(config.load))).then(|| {
        let rest = length.saturating_sub(from);
        format!("The streams needed {from} to fill the path: figures under load are of the {rest} after that.")
    })
}

fn sentence(probed: &Probed, filled: bool) -> Option<String> {
    let (before, loaded) = (&probed.before.round_trip, &probed.loaded.round_trip);
    let Some(added) = probed.added_by_load else {
        let below = before.n > 0 && loaded.n > 0;
        return below.then(|| {
            format!(
                "{}: the median under load ({}) is below that before it ({}): what the load adds cannot be seen here.",
                probed.probe, loaded.p50, before.p50
            )
        });
    };
    if !filled {
        return Some(format!(
            "{}: the median was {} before and {} under a load that was growing still.",
            probed.probe, before.p50, loaded.p50
        ));
    }
    let a_minute = probed.loaded.round_trips_per_minute.map(|n| format!(": {} round trips a minute", count(n as u64)));
    Some(format!(
        "{}: the load added {added} to the median ({} before, {} under load{}).",
        probed.probe,
        probed.before.round_trip.p50,
        probed.loaded.round_trip.p50,
        a_minute.unwrap_or_default()
    ))
}

/// Where this host was too busy to probe on time. The round trips do not hold it.
fn lateness(probed: &Probed) -> Option<String> {
    let late = phases(probed).into_iter().filter(|(_, phase)| phase.lateness.p99 >= LATE);
    let texts: Vec<String> = late
        .map(|(name, p)| format!("{name} median {}, p99 {}, max {}", p.lateness.p50, p.lateness.p99, p.lateness.max))
        .collect();
    let text = format!("{}: this host sent probes late (in no round trip): {}.", probed.probe, texts.join("; "));
    (!texts.is_empty()).then_some(text)
}

/// Points of a series in a plot, at most.
const POINTS: usize = 2_000;

fn over_time(outcome: &Outcome) -> Option<Plot> {
    let mut layers: Vec<Layer> = Vec::new();
    for (i, probed) in outcome.probes.iter().enumerate() {
        let stride = probed.rounds.len().div_ceil(POINTS).max(1);
        let answered = probed.rounds.iter().step_by(stride);
        let points = answered.filter_map(|r| Some([r.at.0 as f64, tidy(r.round_trip?.0 as f64)])).collect();
        layers.push(Layer::line(probed.probe.to_string(), Hue::nth(i), points));
    }
    let ends = [
        ("load begins", Some(outcome.load_started)),
        ("path filled", outcome.filled),
        ("load ends", Some(outcome.load_ended)),
    ];
    for (name, at) in ends.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        layers.push(Layer::Rule { name: name.into(), upright: true, value: at.0 as f64 });
    }
    let axes = (
        Axis::linear("time since the start", Unit::Time).reaching(0.0),
        Axis::log("round trip (logarithmic)", Unit::Time),
    );
    let lost: u64 = outcome.probes.iter().map(|p| p.before.lost + p.loaded.lost + p.after.lost).sum();
    let caption = format!("Every answered probe; {} had no answer.", counted(lost, "probe"));
    Plot::new("round-trips", "Round trips over time", caption, axes, layers)
}

/// The cumulative curves of each kind of probe without load, before and after it, and under load.
fn idle_and_loaded(config: &Config, outcome: &Outcome) -> Option<Plot> {
    let parts = outcome.parts(config);
    let (mut layers, mut all) = (Vec::new(), Vec::new());
    for (i, probed) in outcome.probes.iter().enumerate() {
        for (name, phases, dashed) in [("idle", ["before", "after"], true), ("loaded", ["loaded", "loaded"], false)] {
            let mut times = Distribution::new(Precision::Fine);
            for round in &probed.rounds {
                let phase = parts.iter().find(|(_, range)| range.contains(&round.at)).map(|(name, _)| *name);
                if let (Some(round_trip), true) = (round.round_trip, phase.is_some_and(|p| phases.contains(&p))) {
                    times.record(round_trip.0);
                }
            }
            if times.n() > 0 {
                let points = curve(&times);
                let name = format!("{} {name}", probed.probe);
                layers.push(Layer::Line { name, hue: Hue::nth(i), points, step: false, dashed });
                all.push(times);
            }
        }
    }
    let note = shortest_note(all.iter());
    let caption =
        format!("Share of answered probes with at most this round trip: idle before and after the load.{note}");
    let axes = (Axis::log("round trip (logarithmic)", Unit::Time), Axis::linear("share", Unit::Share).reaching(0.0));
    Plot::new("idle-loaded", "Round trips without and under load", caption, axes, layers)
}

/// What the senders' kernels held: written and not acknowledged, and written and not even sent.
fn backlog_over_time(outcome: &Outcome) -> Option<Plot> {
    let stream = outcome.stream.as_ref()?;
    let mut layers = Vec::new();
    for (way, hue, series) in [("up", 0, &stream.series), ("down", 1, &stream.server_series)] {
        let mut slots: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
        for (sample, tcp) in series.iter().filter(|s| s.sends).filter_map(|s| Some((s, s.tcp?))) {
            let slot = slots.entry((outcome.load_started + sample.end).0).or_default();
            slot[0] += f64::from(tcp.unacked_segments) * f64::from(tcp.snd_mss_bytes);
            slot[1] += f64::from(tcp.notsent_bytes);
        }
        for (name, index, dashed) in [("in flight", 0, false), ("not sent yet", 1, true)] {
            let points = slots.iter().map(|(at, of)| [*at as f64, tidy(of[index])]).collect();
            layers.push(Layer::Line { name: format!("{way}, {name}"), hue: Hue(hue), points, step: false, dashed });
        }
    }
    layers.retain(|layer| matches!(layer, Layer::Line { points, .. } if !points.is_empty()));
    let axes = (
        Axis::linear("time since the start", Unit::Time).reaching(0.0),
        Axis::linear("backlog", Unit::Bytes).reaching(0.0),
    );
    let caption =
        "all streams together: sent and not acknowledged (on the path and in its queues), and written and not sent";
    Plot::new("backlog", "Backlog of the load over time", caption, axes, layers)
}

fn goodput_over_time(outcome: &Outcome) -> Option<Plot> {
    let stream = outcome.stream.as_ref()?;
    let line = |name: &str, hue, sends: bool| {
        let mut slots: BTreeMap<u64, f64> = BTreeMap::new();
        for s in stream.series.iter().filter(|s| s.sends == sends) {
            *slots.entry((outcome.load_started + s.end).0).or_default() += s.goodput_bits_per_second();
        }
        Layer::line(name, hue, slots.into_iter().map(|(at, rate)| [at as f64, tidy(rate)]).collect())
    };
    let axes = (
        Axis::linear("time since the start", Unit::Time).reaching(0.0),
        Axis::linear("goodput", Unit::Rate).reaching(0.0),
    );
    let layers = vec![line("up", Hue(0), true), line("down", Hue(1), false)];
    Plot::new(
        "goodput",
        "Goodput of the load over time",
        "all streams together, by interval: acknowledged by the server (up), read here (down)",
        axes,
        layers,
    )
    .map(Plot::in_strips)
}
