//! `wirelapse ping-under-load`.

use std::path::PathBuf;
use std::time::Duration;

use traffic::load::{Config, Flent, Outcome, Part};
use traffic::stream::Direction;

use crate::workload::{self, Interrupt, ServerArgs, SocketArgs, rate, say, time};

/// Latency before, during and after a load: what the queues of a path add
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Load only this way
    #[arg(long, value_enum, default_value_t = Load::Both)]
    load: Load,
    /// Streams in each loaded way
    #[arg(short = 'P', long, value_name = "N", default_value_t = 4)]
    flows: u32,
    /// Without load, before
    #[arg(long, value_name = "TIME", value_parser = workload::duration, default_value = "5s")]
    before: Duration,
    /// Under load
    #[arg(short = 't', long = "for", value_name = "TIME", value_parser = workload::duration, default_value = "10s")]
    duration: Duration,
    /// Without load, after
    #[arg(long, value_name = "TIME", value_parser = workload::duration, default_value = "5s")]
    after: Duration,
    /// Between two probes of a kind
    #[arg(long, value_name = "TIME", value_parser = workload::duration, default_value = "100ms")]
    probe_interval: Duration,
    /// Write the run for flent
    #[arg(long, value_name = "FILE.flent.gz")]
    flent: Option<PathBuf>,
    #[command(flatten)]
    options: SocketArgs,
    /// One JSON object a line: each kind of probe with every round trip, then the load
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Load {
    Up,
    Down,
    Both,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let config = Config {
        token: args.server.token.clone(),
        local: args.server.bind,
        direction: match args.load {
            Load::Up => Direction::Up,
            Load::Down => Direction::Down,
            Load::Both => Direction::Both,
        },
        flows: args.flows,
        before_ns: workload::ns(args.before),
        load_ns: workload::ns(args.duration),
        after_ns: workload::ns(args.after),
        probe_interval_ns: workload::ns(args.probe_interval),
        options: args.options.options(),
        ..Config::new(args.server.address()?)
    };
    let interrupt = Interrupt::listen()?;
    let outcome = workload::or_bad_input(traffic::load::run(&config, &mut |_| interrupt.go_on()))?;
    if let Some(path) = &args.flent {
        let started = workload::iso_utc(outcome.started_realtime_ns);
        workload::or_bad_input(Flent::of(&config, &outcome, &started).write(path))?;
    }
    if args.json {
        for probed in &outcome.probes {
            workload::json_event("probe", probed)?;
        }
        workload::json_event(
            "outcome",
            &serde_json::json!({
                "started_realtime_ns": outcome.started_realtime_ns,
                "elapsed_ns": outcome.elapsed_ns,
                "load_started_ns": outcome.load_started_ns,
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
        if let Some(added) = probed.added_by_load_ns {
            say!("{:<6} the load added {} to the median", probed.probe, time(added));
        }
    }
    if let Some(stream) = &outcome.stream {
        for (way, total) in [("up", stream.up), ("down", stream.down)] {
            if let Some(goodput) = total.and_then(|t| t.goodput_bits_per_second) {
                say!("load   {way:<8} {}", rate(goodput));
            }
        }
    }
}

fn row(probe: &str, name: &str, part: &Part) {
    let s = &part.round_trip;
    let per_minute = part.round_trips_per_minute.map_or("-".into(), |r| format!("{r:.0}"));
    say!(
        "{probe:<6} {name:<8} {:>9} {:>9} {:>9} {per_minute:>14}  {} ({})",
        time(s.p50_ns),
        time(s.p99_ns),
        time(s.max_ns),
        part.sent,
        part.lost
    );
}
