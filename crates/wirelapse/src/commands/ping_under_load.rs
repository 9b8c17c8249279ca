//! `wirelapse ping-under-load`.

use std::path::PathBuf;

use record::Nanos;
use traffic::load::{Config, Flent, Quantity, Values};
use traffic::stream::Direction;

use quantity::parse;
use report::page::workload as page;
use traffic::kept::Run;

use crate::interrupt::Interrupt;
use crate::options::{FOR, FORCE, Json, Output, heading};
use crate::output::{self, json_event};
use crate::server::Server;
use crate::workload;
use ::files::{OutputFile, Readers, refuse};

/// Measure latency before, during and after a load: what queues in the path add
///
/// --for is the time under load. Objects of --json: each kind of probe with every round trip, then
/// the load.
#[derive(clap::Args)]
#[command(mut_arg("server", |server| server.required(false).required_unless_present("read")))]
pub struct Args {
    #[command(flatten)]
    server: Server,
    /// Load only this direction
    #[arg(long, value_enum, default_value_t = Load::Both, help_heading = "Traffic")]
    load: Load,
    /// Streams in each loaded direction
    #[arg(short = 'P', long, value_name = "N", default_value_t = 4, help_heading = "Traffic")]
    flows: u32,
    /// Probe this long before the load
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "5s", help_heading = heading::HOW_MUCH)]
    before: Nanos,
    #[arg(short = 't', long = "for", value_name = "TIME", value_parser = parse::seconds_above_zero, default_value = "10s", help = FOR, help_heading = heading::HOW_MUCH)]
    duration: Nanos,
    /// Probe this long after the load
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "5s", help_heading = heading::HOW_MUCH)]
    after: Nanos,
    /// Time between two probes of a protocol
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "100ms", help_heading = heading::HOW_MUCH)]
    probe_interval: Nanos,
    /// Also write the result as a data file of flent
    #[arg(long, value_name = "FILE.flent.gz", help_heading = heading::OUTPUT)]
    flent: Option<PathBuf>,
    #[arg(long, help = FORCE, requires = "flent", help_heading = heading::OUTPUT)]
    force: bool,
    /// Measure nothing: report on this data file, written by flent or with --flent
    #[arg(long, value_name = "FILE.flent.gz", conflicts_with_all = ["server", "flent", "output"], help_heading = "Saved result")]
    read: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    json: Json,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Load {
    Up,
    Down,
    Both,
}

impl Args {
    fn request(&self) -> anyhow::Result<Config> {
        Ok(Config {
            direction: match self.load {
                Load::Up => Direction::Up,
                Load::Down => Direction::Down,
                Load::Both => Direction::Both,
            },
            flows: self.flows,
            before: self.before,
            load: self.duration,
            after: self.after,
            probe_interval: self.probe_interval,
            ..Config::new(self.server.target()?)
        })
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.read {
        return read(path, args.json.json);
    }
    workload::check(&args.output)?;
    args.flent.as_deref().map_or(Ok(()), |path| refuse(path, args.force))?;
    let mut config = args.request()?;
    let interrupt = Interrupt::listen()?;
    let run = |config: &Config| traffic::load::run(config, &mut |_| interrupt.go_on());
    let outcome = args.server.run(&mut config, |c| &mut c.target, run)?;
    // What was measured is shown, whatever becomes of the disk.
    let kept = args.flent.as_deref().map(|path| -> anyhow::Result<()> {
        let started = record::Utc::from_nanos(outcome.started_realtime.as_nanos()).to_string();
        let (mut file, pending) = OutputFile::create(path, args.force, Readers::AsUmask)?.into_parts();
        Flent::of(&config, &outcome, &started).write(&mut file)?;
        Ok(pending.finish()?)
    });
    let interrupted = outcome.interrupted.clone();
    workload::show(&Run::Load(config, Box::new(outcome)), &args.output, args.json.json)?;
    kept.transpose()?;
    workload::end(interrupted, interrupt)
}

/// Reports on a data file of flent.
fn read(path: &std::path::Path, json: bool) -> anyhow::Result<()> {
    rights::keep_for_runs(&[path], &[], false)?;
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
    output::document(&page::flent(&flent))
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
