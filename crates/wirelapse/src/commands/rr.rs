//! `wirelapse rr`, and what `crr` shares with it.

use report::page::workload as page;
use traffic::Progress;
use traffic::kept::Run;
use traffic::rr::{Config, Exchange};

use quantity::parse;
use record::Nanos;

use crate::interrupt::Interrupt;
use crate::options::{Json, Measure, Output, heading};
use crate::output::{self, say};
use crate::server::Server;
use crate::workload;

/// The heading of what a transaction is.
const TRANSACTIONS: &str = "Transactions";

/// Measure transactions over long-lived connections, to `serve`
///
/// Objects of --json: each interval, each slow transaction, then the outcome.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: Shape,
    /// Requests in flight on one connection
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRANSACTIONS)]
    outstanding: u32,
}

/// The shape of transactions.
#[derive(clap::Args)]
pub struct Shape {
    #[command(flatten)]
    server: Server,
    /// Bytes in a request
    #[arg(short = 'q', long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "1", help_heading = TRANSACTIONS)]
    request: u32,
    /// Bytes in a response
    #[arg(short = 'r', long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "1", help_heading = TRANSACTIONS)]
    response: u32,
    /// Split each request and response into this many writes (a message with fewer bytes takes one
    /// write for each byte)
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRANSACTIONS)]
    writes: u32,
    /// Writes of a request, if different
    #[arg(long, value_name = "N", help_heading = TRANSACTIONS)]
    request_writes: Option<u32>,
    /// Writes of a response, if different
    #[arg(long, value_name = "N", help_heading = TRANSACTIONS)]
    response_writes: Option<u32>,
    /// How long the server waits before it responds
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "0", help_heading = TRANSACTIONS)]
    think: Nanos,
    /// Connections; for crr, concurrent transactions
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1, help_heading = TRANSACTIONS)]
    connections: u32,
    /// Transactions a second in total, at fixed times (open loop). By default each starts when the
    /// one before has ended
    #[arg(long, value_name = "N/s", value_parser = parse::per_second, help_heading = TRANSACTIONS)]
    rate: Option<f64>,
    #[command(flatten)]
    measure: Measure,
    /// Run this long before measuring
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "0", help_heading = heading::HOW_MUCH)]
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
        None => page::transactions_silence(&outcome).map_or(Ok(()), |silence| anyhow::bail!(silence)),
    }
}
