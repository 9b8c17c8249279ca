//! `wirelapse rr`, and what `crr` shares with it.

use report::page::workload as page;
use traffic::Progress;
use traffic::kept::Run;
use traffic::rr::{Config, Exchange};

use quantity::parse;
use record::Nanos;

use crate::interrupt::Interrupt;
use crate::options::{Json, Measure, Output};
use crate::output::{self, say};
use crate::server::Server;
use crate::workload;

/// Request and response over lasting connections, to `serve`
///
/// Objects of --json: each interval, each slow transaction, then the outcome.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: Shape,
    /// Requests under way on one connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    outstanding: u32,
}

/// The shape of transactions.
#[derive(clap::Args)]
pub struct Shape {
    #[command(flatten)]
    server: Server,
    /// Bytes of a request
    #[arg(short = 'q', long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "1")]
    request: u32,
    /// Bytes of a response
    #[arg(short = 'r', long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "1")]
    response: u32,
    /// Writes that requests and responses are each split into (a message of fewer bytes takes a write a byte)
    #[arg(long, value_name = "N", default_value_t = 1)]
    writes: u32,
    /// Writes of a request, where they differ
    #[arg(long, value_name = "N")]
    request_writes: Option<u32>,
    /// Writes of a response, where they differ
    #[arg(long, value_name = "N")]
    response_writes: Option<u32>,
    /// What the server waits before it responds
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "0")]
    think: Nanos,
    /// Connections; for crr, transactions at the same time
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    connections: u32,
    /// Transactions a second in all, at fixed moments (open loop); each when the one before is done unless given
    #[arg(long, value_name = "N/s", value_parser = parse::per_second)]
    rate: Option<f64>,
    #[command(flatten)]
    measure: Measure,
    /// Run this long before counting
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "0")]
    warm_up: Nanos,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    json: Json,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    run_shape(&args.shape, false, args.outstanding)
}

impl Shape {
    fn request(&self, connect_each: bool, outstanding: u32) -> anyhow::Result<Config> {
        Ok(Config {
            connect_each,
            exchange: Exchange {
                request_bytes: self.request,
                response_bytes: self.response,
                request_writes: self.request_writes.unwrap_or(self.writes.min(self.request)),
                response_writes: self.response_writes.unwrap_or(self.writes.min(self.response)),
                think: self.think,
            },
            connections: self.connections,
            outstanding,
            rate_per_second: self.rate,
            duration: self.measure.duration(),
            warm_up: self.warm_up,
            interval: self.measure.interval(),
            cpu: self.measure.cpu,
            ..Config::new(self.server.target()?)
        })
    }
}

/// Carries out the transactions and shows them.
pub fn run_shape(shape: &Shape, connect_each: bool, outstanding: u32) -> anyhow::Result<()> {
    workload::check(&shape.output)?;
    let mut config = shape.request(connect_each, outstanding)?;
    let interrupt = Interrupt::listen()?;
    let shows = output::shows_progress(shape.json.json);
    let mut before = (Nanos::ZERO, 0);
    let mut progress = |progress: Progress<'_>| {
        if let (true, Progress::Transactions { elapsed, done }) = (shows, progress) {
            let rate = (done - before.1) as f64 * 1e9 / elapsed.saturating_sub(before.0).0.max(1) as f64;
            say!("{}", page::transactions_progress(elapsed, done, rate));
            before = (elapsed, done);
        }
        interrupt.go_on()
    };
    let outcome = shape.server.run(&mut config, |c| &mut c.target, |config| traffic::rr::run(config, &mut progress))?;
    let run = Run::Transactions(config, Box::new(outcome));
    workload::show(&run, &shape.output, shape.json.json)?;
    let Run::Transactions(_, outcome) = run else { return Ok(()) };
    match outcome.interrupted {
        Some(_) if interrupt.came() => Ok(()),
        Some(why) => anyhow::bail!("{why}"),
        None if outcome.transactions == 0 && outcome.failed > 0 => {
            anyhow::bail!("every connection failed: {}", outcome.failure.as_deref().unwrap_or("no reason is known"))
        }
        None => page::transactions_silence(&outcome)
            .map_or(Ok(()), |silence| anyhow::bail!("{}", silence.trim_end_matches('.'))),
    }
}
