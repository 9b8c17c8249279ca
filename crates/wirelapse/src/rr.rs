//! `wirelapse rr`, and what `crr` shares with it.

use stats::DurationSummary;
use traffic::Progress;
use traffic::rr::{Config, Exchange, Outcome};

use quantity::parse;
use record::Nanos;

use crate::interrupt::Interrupt;
use crate::options::{Json, Measure};
use crate::output::{self, say};
use crate::server::Server;

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
    json: Json,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    run_shape(&args.shape, false, args.outstanding)
}

/// Carries out the transactions and shows them.
pub fn run_shape(shape: &Shape, connect_each: bool, outstanding: u32) -> anyhow::Result<()> {
    let config = Config {
        connect_each,
        exchange: Exchange {
            request_bytes: shape.request,
            response_bytes: shape.response,
            request_writes: shape.request_writes.unwrap_or(shape.writes.min(shape.request)),
            response_writes: shape.response_writes.unwrap_or(shape.writes.min(shape.response)),
            think: shape.think,
        },
        connections: shape.connections,
        outstanding,
        rate_per_second: shape.rate,
        duration: shape.measure.duration(),
        warm_up: shape.warm_up,
        interval: shape.measure.interval(),
        cpu: shape.measure.cpu,
        ..Config::new(shape.server.target()?)
    };
    let interrupt = Interrupt::listen()?;
    let shows = output::shows_progress(shape.json.json);
    let mut before = (Nanos::ZERO, 0);
    let outcome = traffic::rr::run(&config, &mut |progress| {
        if let (true, Progress::Transactions { elapsed, done }) = (shows, progress) {
            let rate = (done - before.1) as f64 * 1e9 / elapsed.saturating_sub(before.0).0.max(1) as f64;
            say!("{:>7}  {done:>10} transactions  {rate:>9.0}/s", elapsed);
            before = (elapsed, done);
        }
        interrupt.go_on()
    })?;
    if shape.json.json {
        for interval in &outcome.series {
            output::json_event("interval", interval)?;
        }
        for slow in &outcome.slowest {
            output::json_event("slow", slow)?;
        }
        output::json_event("outcome", &outcome)?;
    } else {
        show(&outcome);
    }
    match outcome.interrupted {
        Some(_) if interrupt.came() => Ok(()),
        Some(why) => anyhow::bail!("{why}"),
        None if outcome.transactions == 0 && outcome.failed > 0 => {
            anyhow::bail!("every connection failed: {}", outcome.failure.as_deref().unwrap_or("no reason is known"))
        }
        None => Ok(()),
    }
}

/// The usual figures of a distribution on one line.
pub fn distribution(name: &str, s: &DurationSummary) {
    say!(
        "{name:<11} min {}  median {}  p90 {}  p99 {}  p99.9 {}  max {}  (n = {})",
        s.min,
        s.p50,
        s.p90,
        s.p99,
        s.p999,
        s.max,
        s.n
    );
}

fn show(o: &Outcome) {
    say!("rate        {:.1} transactions/s ({} in {})", o.transactions_per_second, o.transactions, o.elapsed);
    distribution("latency", &o.latency);
    if let Some(connect) = &o.connect {
        distribution("handshake", connect);
    }
    say!("sockets     {}", o.socket_options);
    if let Some(cpu) = o.cpu_per_transaction {
        say!("CPU         {} a transaction on this side", cpu);
    }
    if o.unfinished + o.never_sent + o.failed > 0 {
        say!("not counted {} unfinished at the end, {} never sent, {} failed", o.unfinished, o.never_sent, o.failed);
    }
    if let Some(why) = &o.failure {
        say!("failed      {why}");
    }
    for slow in o.slowest.iter().take(3) {
        let parts = [
            ("queued", slow.queued),
            ("handshake", slow.connect),
            ("first byte", slow.first_byte),
            ("rest", slow.rest),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|p| p.1 > Nanos::ZERO).map(|(name, length)| format!("{name} {length}")).collect();
        say!("slow        {} from port {}: {}", slow.latency, slow.local_port, parts.join(", "));
    }
}
