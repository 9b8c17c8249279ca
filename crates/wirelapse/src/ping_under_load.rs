//! `wirelapse ping-under-load`.

use std::path::PathBuf;

use record::Nanos;
use traffic::load::{Config, Flent, Outcome, Phase, Probed, Quantity, Values};
use traffic::stream::Direction;

use quantity::{bit_rate, parse};

use crate::calendar::iso_utc;
use crate::interrupt::Interrupt;
use crate::options::{FOR, Json};
use crate::output::{json_event, say};
use crate::server::Server;

/// Latency before, during and after a load: what the queues of a path add
///
/// --for is the time under load. Objects of --json: each kind of probe with every round trip, then the load.
#[derive(clap::Args)]
#[command(mut_arg("server", |server| server.required(false).required_unless_present("read")))]
pub struct Args {
    #[command(flatten)]
    server: Server,
    /// Load only this way
    #[arg(long, value_enum, default_value_t = Load::Both)]
    load: Load,
    /// Streams in each loaded way
    #[arg(short = 'P', long, value_name = "N", default_value_t = 4)]
    flows: u32,
    /// Probe this long before the load
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "5s")]
    before: Nanos,
    #[arg(short = 't', long = "for", value_name = "TIME", value_parser = parse::duration_above_zero, default_value = "10s", help = FOR)]
    duration: Nanos,
    /// Probe this long after the load
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "5s")]
    after: Nanos,
    /// Time from one probe of a kind to the next
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "100ms")]
    probe_interval: Nanos,
    /// Write the run for flent
    #[arg(long, value_name = "FILE.flent.gz")]
    flent: Option<PathBuf>,
    /// Measure nothing: report on this data file of flent, its own or one of ours
    #[arg(long, value_name = "FILE.flent.gz", conflicts_with_all = ["server", "flent"])]
    read: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Load {
    Up,
    Down,
    Both,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.read {
        return read(path, args.json.json);
    }
    let config = Config {
        direction: match args.load {
            Load::Up => Direction::Up,
            Load::Down => Direction::Down,
            Load::Both => Direction::Both,
        },
        flows: args.flows,
        before: args.before,
        load: args.duration,
        after: args.after,
        probe_interval: args.probe_interval,
        ..Config::new(args.server.target()?)
    };
    let interrupt = Interrupt::listen()?;
    let outcome = traffic::load::run(&config, &mut |_| interrupt.go_on())?;
    if let Some(path) = &args.flent {
        let started = iso_utc(outcome.started_realtime.as_nanos());
        Flent::of(&config, &outcome, &started).write(path)?;
    }
    if args.json.json {
        for probed in &outcome.probes {
            json_event("probe", probed)?;
        }
        json_event(
            "outcome",
            &serde_json::json!({
                "started_realtime_ns": outcome.started_realtime,
                "elapsed_ns": outcome.elapsed,
                "load_started_ns": outcome.load_started,
                "stream": outcome.stream,
                "interrupted": outcome.interrupted,
            }),
        )?;
    } else {
        show(&outcome);
    }
    match outcome.interrupted {
        Some(_) if interrupt.came() => Ok(()),
        Some(why) => anyhow::bail!("{why}; what was measured until then is above"),
        None => Ok(()),
    }
}

/// Reports on a data file of flent.
fn read(path: &std::path::Path, json: bool) -> anyhow::Result<()> {
    let flent = Flent::read(path)?;
    let series = flent.read_series();
    if json {
        json_event("flent", &serde_json::json!({ "metadata": flent.metadata }))?;
        for s in &series {
            let part = |values: Option<&Values>| values.map(|v| in_units(s.quantity, v));
            json_event(
                "series",
                &serde_json::json!({
                    "name": s.name,
                    "quantity": s.quantity,
                    "before": part(s.before.as_ref()),
                    "loaded": part(Some(&s.loaded)),
                    "after": part(s.after.as_ref()),
                }),
            )?;
        }
        return Ok(());
    }
    let text = |key: &str| flent.metadata.get(key).and_then(|v| v.as_str()).unwrap_or("-").to_owned();
    say!("{}: {} to {}, {}", text("NAME"), text("TITLE"), text("HOST"), text("TIME"));
    let width = series.iter().map(|s| s.name.chars().count()).max().unwrap_or(0).max(6);
    say!("{:<width$} {:<7} {:>11} {:>11} {:>11} {:>11}  n (missing)", "series", "part", "median", "mean", "p99", "max");
    for s in &series {
        for (part, values) in [("before", s.before), ("loaded", Some(s.loaded)), ("after", s.after)] {
            let Some(v) = values.filter(|v| v.n + v.missing > 0) else { continue };
            let cells = [v.median, v.mean, v.p99, v.max].map(|value| match s.quantity {
                _ if v.n == 0 => "-".to_owned(),
                Quantity::Time => Nanos(value.max(0.0) as u64).to_string(),
                Quantity::Rate => bit_rate(value),
                Quantity::Other => format!("{value:.3}"),
            });
            let [median, mean, p99, max] = cells;
            say!("{:<width$} {part:<7} {median:>11} {mean:>11} {p99:>11} {max:>11}  {} ({})", s.name, v.n, v.missing);
        }
        if let (Quantity::Time, Some(before)) = (s.quantity, s.before.filter(|v| v.n > 0 && s.loaded.n > 0)) {
            let added = (s.loaded.median - before.median).max(0.0) as u64;
            let a_minute = 60e9 / s.loaded.median.max(1.0);
            say!(
                "{:<width$} the load added {} to the median: {a_minute:.0} round trips a minute",
                s.name,
                Nanos(added)
            );
        }
    }
    Ok(())
}

/// The values with their unit in each key, times as whole nanoseconds.
fn in_units(quantity: Quantity, v: &Values) -> serde_json::Value {
    let mut object = serde_json::Map::from_iter([("n".into(), v.n.into()), ("missing".into(), v.missing.into())]);
    if v.n > 0 {
        for (name, value) in
            [("min", v.min), ("median", v.median), ("mean", v.mean), ("p90", v.p90), ("p99", v.p99), ("max", v.max)]
        {
            match quantity {
                Quantity::Time => object.insert(format!("{name}_ns"), (value.round().max(0.0) as u64).into()),
                Quantity::Rate => object.insert(format!("{name}_bits_per_second"), value.into()),
                Quantity::Other => object.insert(name.into(), value.into()),
            };
        }
    }
    object.into()
}

fn show(outcome: &Outcome) {
    say!("{:<6} {:<8} {:>9} {:>9} {:>9} {:>14}  n (lost)", "probe", "part", "median", "p99", "max", "round trips/min");
    for probed in &outcome.probes {
        if let Some(error) = &probed.error {
            say!("{:<6} {error}", probed.probe);
        }
        for (name, part) in [("before", probed.before), ("loaded", probed.loaded), ("after", probed.after)] {
            if part.sent > 0 {
                row(probed.probe, name, &part);
            }
        }
        lateness(probed);
        if let Some(added) = probed.added_by_load {
            say!("{:<6} the load added {} to the median", probed.probe, added);
        }
    }
    if let Some(stream) = &outcome.stream {
        for (way, total) in [("up", stream.up), ("down", stream.down)] {
            if let Some(goodput) = total.and_then(|t| t.goodput_bits_per_second) {
                say!("load   {way:<8} {}", bit_rate(goodput));
            }
        }
    }
}

/// Above this, the probes' own lateness is worth a line: a wake-up of an idle host takes some 0.1 ms.
const LATE: Nanos = Nanos::from_millis(1);

/// Says where this host was too busy to probe on time. The round trips do not hold it.
fn lateness(probed: &Probed) {
    let phases = [("before", probed.before), ("loaded", probed.loaded), ("after", probed.after)];
    let late = phases.into_iter().filter(|(_, p)| p.lateness.p99 >= LATE);
    let texts: Vec<String> = late
        .map(|(name, p)| format!("{name} median {}, p99 {}, max {}", p.lateness.p50, p.lateness.p99, p.lateness.max))
        .collect();
    if !texts.is_empty() {
        say!("{:<6} sent late by this host (in no round trip): {}", probed.probe, texts.join("; "));
    }
}

fn row(probe: &str, name: &str, part: &Phase) {
    let s = &part.round_trip;
    let per_minute = part.round_trips_per_minute.map_or("-".into(), |r| format!("{r:.0}"));
    say!("{probe:<6} {name:<8} {:>9} {:>9} {:>9} {per_minute:>14}  {} ({})", s.p50, s.p99, s.max, part.sent, part.lost);
}
