//! `wirelapse rr`, and what `crr` shares with it.

use std::time::Duration;

use record::Nanos;
use stats::DurationSummary;
use traffic::Progress;
use traffic::rr::{Config, Exchange, Outcome};

use crate::workload::{self, Interrupt, MeasureArgs, TargetArgs, say, time};

/// Request and response over lasting connections, to `serve`
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
    target: TargetArgs,
    /// Bytes of a request
    #[arg(short = 'q', long, value_name = "BYTES", value_parser = workload::bytes32, default_value = "1")]
    request: u32,
    /// Bytes of a response
    #[arg(short = 'r', long, value_name = "BYTES", value_parser = workload::bytes32, default_value = "1")]
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
    #[arg(long, value_name = "TIME", value_parser = workload::duration, default_value = "0")]
    think: Duration,
    /// Connections; for crr, transactions at once
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    connections: u32,
    /// Transactions a second in all, at fixed moments (open loop); each when the one before is done unless given
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    #[command(flatten)]
    measure: MeasureArgs,
    /// Done before that and not counted
    #[arg(long, value_name = "TIME", value_parser = workload::duration, default_value = "0")]
    warm_up: Duration,
    /// One JSON object a line: each interval, each slow transaction, then the outcome
    #[arg(long)]
    json: bool,
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
            think: shape.think.into(),
        },
        connections: shape.connections,
        outstanding,
        rate_per_second: shape.rate,
        duration: shape.measure.duration(),
        warm_up: shape.warm_up.into(),
        interval: shape.measure.interval(),
        cpu: shape.measure.cpu,
        ..Config::new(shape.target.target()?)
    };
    let interrupt = Interrupt::listen()?;
    let shows = workload::shows_progress(shape.json);
    let mut before = (Nanos::ZERO, 0);
    let outcome = workload::or_bad_input(traffic::rr::run(&config, &mut |progress| {
        if let (true, Progress::Transactions { elapsed, done }) = (shows, progress) {
            let rate = (done - before.1) as f64 * 1e9 / elapsed.saturating_sub(before.0).0.max(1) as f64;
            say!("{:>7}  {done:>10} transactions  {rate:>9.0}/s", time(elapsed.0));
            before = (elapsed, done);
        }
        interrupt.go_on()
    }))?;
    if shape.json {
        for interval in &outcome.series {
            workload::json_event("interval", interval)?;
        }
        for slow in &outcome.slowest {
            workload::json_event("slow", slow)?;
        }
        workload::json_event("outcome", &outcome)?;
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
        time(s.min.0),
        time(s.p50.0),
        time(s.p90.0),
        time(s.p99.0),
        time(s.p999.0),
        time(s.max.0),
        s.n
    );
}

fn show(o: &Outcome) {
    say!("rate        {:.1} transactions/s ({} in {})", o.transactions_per_second, o.transactions, time(o.elapsed.0));
    distribution("latency", &o.latency);
    if let Some(connect) = &o.connect {
        distribution("handshake", connect);
    }
    say!("sockets     {}", o.socket_options);
    if let Some(cpu) = o.cpu_per_transaction {
        say!("CPU         {} a transaction on this side", time(cpu.0));
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
        say!("slow        {} from port {}: {}", time(slow.latency.0), slow.local_port, parts.join(", "));
    }
}
