//! `wirelapse stream`.

use std::ops::ControlFlow;

use traffic::Progress;
use traffic::stream::{Config, Direction, Method, Outcome, Pacing, Sample, Total};

use quantity::{bit_rate, bytes, parse};

use crate::interrupt::Interrupt;
use crate::options::{Json, Measure};
use crate::output::{self, say};
use crate::server::Server;

/// Send bulk data up, down or both ways, to `serve` or a stock iperf3 server
///
/// Objects of --json: each interval, then the outcome.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: Server,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with = "both")]
    down: bool,
    /// Both send, each on its own connections
    #[arg(long)]
    both: bool,
    /// Parallel flows in each direction
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1)]
    flows: u32,
    #[command(flatten)]
    measure: Measure,
    /// End after so many bytes (of all flows of a direction together) instead of by time
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse::bytes, conflicts_with = "duration")]
    bytes: Option<u64>,
    /// Send this long before counting, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = whole_seconds, default_value = "0")]
    warm_up: u64,
    /// Datagrams instead of TCP
    #[arg(short = 'u', long)]
    udp: bool,
    /// Bytes of a write (128K), or of a datagram (1448)
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = parse::bytes_u32)]
    write_size: Option<u32>,
    /// Bits a second of each flow, such as 10M; UDP: 1 Mbit/s unless given, 0 for as fast as it goes
    #[arg(short = 'b', long, value_name = "RATE", value_parser = parse::bit_rate)]
    rate: Option<u64>,
    /// Keep that rate in the program rather than by SO_MAX_PACING_RATE
    #[arg(long, requires = "rate")]
    pace_in_program: bool,
    /// Send with MSG_ZEROCOPY, and count its completions
    #[arg(long, conflicts_with = "sendfile")]
    zerocopy: bool,
    /// Send with sendfile
    #[arg(long)]
    sendfile: bool,
    /// Bind the server's flows to a CPU (`serve` only)
    #[arg(long, value_name = "N")]
    server_cpu: Option<usize>,
    #[command(flatten)]
    json: Json,
    /// The result in the form of `iperf3 --json`
    #[arg(long, conflicts_with = "json")]
    json_iperf3: bool,
}

/// The iperf3 protocol counts the warm-up in seconds.
fn whole_seconds(text: &str) -> Result<u64, String> {
    let time = parse::duration(text).map_err(|e| e.to_string())?;
    let second = 1_000_000_000;
    if time.0.is_multiple_of(second) {
        Ok(time.0 / second)
    } else {
        Err("the warm-up of a stream takes whole seconds; write 1s or 2s".into())
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let config = Config {
        direction: match (args.down, args.both) {
            (true, _) => Direction::Down,
            (_, true) => Direction::Both,
            _ => Direction::Up,
        },
        udp: args.udp,
        flows: args.flows,
        duration: args.measure.duration(),
        bytes: args.bytes,
        warm_up_s: args.warm_up,
        write_bytes: args.write_size.unwrap_or(if args.udp { 1448 } else { 128 << 10 }),
        pace_bits_per_second: args.rate.filter(|r| args.udp || *r > 0),
        pacing: if args.pace_in_program { Pacing::Program } else { Pacing::Kernel },
        method: match (args.zerocopy, args.sendfile) {
            (true, _) => Method::Zerocopy,
            (_, true) => Method::Sendfile,
            _ => Method::Write,
        },
        interval: args.measure.interval(),
        cpu: args.measure.cpu,
        server_cpu: args.server_cpu,
        ..Config::new(args.server.target()?)
    };
    let interrupt = Interrupt::listen()?;
    let quiet = args.json_iperf3 || !output::shows_progress(args.json.json);
    let outcome = traffic::stream::run(&config, &mut |progress| {
        if let Progress::Interval(samples) = progress {
            if args.json.json {
                for sample in samples {
                    if output::json_event("interval", sample).is_err() {
                        return ControlFlow::Break(());
                    }
                }
            } else if !quiet {
                show(samples);
            }
        }
        interrupt.go_on()
    });
    let outcome = outcome?;
    if args.json_iperf3 {
        output::json_line(&traffic::iperf3::report(&config, &outcome))?;
    } else if args.json.json {
        output::json_event("outcome", &outcome)?;
    } else {
        summary(&config, &outcome);
    }
    match outcome.interrupted {
        Some(_) if interrupt.came() => Ok(()),
        Some(why) => anyhow::bail!("{why}; what was measured until then is above"),
        None => Ok(()),
    }
}

fn show(samples: &[Sample]) {
    for s in samples {
        let way = if s.sends { "up" } else { "down" };
        let warm_up = if s.warm_up { "  warm-up" } else { "" };
        let tcp = match (s.sends, s.tcp) {
            (true, Some(t)) => format!(
                "  cwnd {:>8}  rtt {:>8}  retransmitted {}",
                bytes(t.snd_cwnd_bytes()),
                t.srtt,
                s.retransmitted_segments
            ),
            _ => String::new(),
        };
        say!("{:>7}  flow {:<3} {way:<4} {:>11}{tcp}{warm_up}", s.end, s.flow, bit_rate(s.bits_per_second));
    }
}

fn summary(config: &Config, outcome: &Outcome) {
    for (way, total) in [("up", outcome.up), ("down", outcome.down)] {
        if let Some(total) = total {
            direction(way, &total, config, outcome);
        }
    }
    let per_gb = |side: Option<f64>| side.map_or("unknown".into(), |s| format!("{s:.3} s/GB"));
    say!(
        "CPU      client {}, server {}",
        per_gb(outcome.cpu_seconds_per_gigabyte),
        per_gb(outcome.server_cpu_seconds_per_gigabyte)
    );
    say!("sockets  {}", outcome.socket_options);
    if let Some(asked) = outcome.pace_bits_per_second.filter(|asked| *asked > 0) {
        say!("asked    {} a flow, kept by {}", bit_rate(asked as f64), keeper(config, outcome));
    }
    if let Some(tcp) = outcome.flows.iter().find_map(|f| f.tcp) {
        let scale = tcp.window_scale.map_or("off".into(), |(ours, theirs)| format!("{ours}/{theirs}"));
        say!(
            "TCP      {}, MSS {} B, timestamps {}, window scale {scale} (this end/peer)",
            outcome.congestion_control.as_deref().unwrap_or("?"),
            tcp.snd_mss_bytes,
            if tcp.timestamps { "on" } else { "off" },
        );
    }
    for flow in &outcome.flows {
        if let Some(z) = flow.zerocopy {
            say!(
                "zerocopy flow {}: {} sends, {} completed, {} of them copied by the kernel all the same",
                flow.flow,
                z.sends,
                z.completed,
                z.copied
            );
        }
        if let Some(error) = &flow.error {
            say!("flow {} ended early: {error}", flow.flow);
        }
    }
    if !outcome.server_is_wirelapse && outcome.interrupted.is_none() {
        say!("the server is a stock iperf3: socket options beyond its own were set on this end only");
    }
}

/// Who keeps the rate that was asked for.
fn keeper(config: &Config, outcome: &Outcome) -> &'static str {
    match (config.udp || config.pacing == Pacing::Program, outcome.server_is_wirelapse) {
        (true, _) => "the sending program",
        (false, true) => "the sender's kernel",
        (false, false) => "the kernel here, and by iperf3 where the server sends",
    }
}

fn direction(way: &str, total: &Total, config: &Config, outcome: &Outcome) {
    let flows = if total.flows == 1 { "1 flow".into() } else { format!("{} flows", total.flows) };
    match (total.goodput_bits_per_second, total.received_bytes) {
        (Some(goodput), Some(bytes)) => {
            say!("{way:<8} {} received ({} by {flows})", bit_rate(goodput), quantity::bytes(bytes));
        }
        _ => say!(
            "{way:<8} {} sent ({} by {flows}); what arrived is unknown",
            bit_rate(total.sent_bits_per_second),
            bytes(total.sent_bytes)
        ),
    }
    if let Some(segments) = total.retransmitted_segments {
        say!("         {segments} segments retransmitted");
    }
    if config.udp {
        for flow in outcome.flows.iter().filter(|f| f.client_sends == (way == "up")) {
            if let Some(d) = flow.datagrams {
                say!(
                    "         flow {}: {} of {} datagrams lost ({:.3} %), {} reordered, {} duplicated, jitter {}",
                    flow.flow,
                    d.lost,
                    d.expected,
                    100.0 * d.lost as f64 / d.expected.max(1) as f64,
                    d.reordered,
                    d.duplicated,
                    d.jitter
                );
            }
        }
    }
}
