//! `wirelapse stream`.

use std::ops::ControlFlow;

use traffic::Progress;
use traffic::kept::Run;
use traffic::stream::{Config, Direction, Method, Pacing};

use quantity::parse;
use report::page::workload as page;

use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::login::AsUser;
use crate::options::{Json, Measure, Output, Paced, heading};
use crate::output::{self, say};
use crate::server::Server;
use crate::workload;

/// Send bulk data up, down or both ways, to `serve` or a stock iperf3 server
///
/// Objects of --json: each interval, then the outcome.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: Server,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with = "both", help_heading = "Traffic")]
    down: bool,
    /// Both sides send, each on its own connections
    #[arg(long, help_heading = "Traffic")]
    both: bool,
    /// Parallel flows in each direction
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, help_heading = "Traffic")]
    flows: u32,
    #[command(flatten)]
    measure: Measure,
    /// End after this many bytes (all flows of a direction together) instead of after a time
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse::bytes, conflicts_with = "duration", help_heading = heading::HOW_MUCH)]
    bytes: Option<u64>,
    /// Send this long before measuring, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = whole_seconds, default_value = "0", help_heading = heading::HOW_MUCH)]
    warm_up: u64,
    /// Send datagrams instead of TCP
    #[arg(short = 'u', long, help_heading = "Traffic")]
    udp: bool,
    /// Bytes of a write [default: 128K], or of a datagram [default: 1448]
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = parse::bytes_u32, help_heading = "Traffic")]
    write_size: Option<u32>,
    /// Bits a second of each flow, such as 10M; 0 for as fast as possible [default for UDP: 1M].
    /// With -u and a burst, so many datagrams leave in a row: 10M/20
    #[arg(short = 'b', long, value_name = "RATE[/BURST]", value_parser = Paced::parse, help_heading = "Traffic")]
    rate: Option<Paced>,
    /// Pace in the program instead of with SO_MAX_PACING_RATE
    #[arg(long, requires = "rate", help_heading = "Traffic")]
    pace_in_program: bool,
    /// Send with MSG_ZEROCOPY, and count its completions
    #[arg(long, conflicts_with = "sendfile", help_heading = "Traffic")]
    zerocopy: bool,
    /// Send with sendfile
    #[arg(long, help_heading = "Traffic")]
    sendfile: bool,
    /// Bind the flows of the server to a CPU (`serve` only)
    #[arg(long, value_name = "N", help_heading = heading::COST)]
    server_cpu: Option<usize>,
    /// Also show the report of the server
    #[arg(long, help_heading = heading::OUTPUT)]
    get_server_output: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    user: AsUser,
    #[command(flatten)]
    json: Json,
    /// Write the result in the format of `iperf3 --json`
    #[arg(long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    json_iperf3: bool,
}

/// The iperf3 protocol counts the warm-up in seconds.
fn whole_seconds(text: &str) -> Result<u64, String> {
    let time = parse::seconds(text).map_err(|e| e.to_string())?;
    let second = 1_000_000_000;
    if time.0.is_multiple_of(second) {
        Ok(time.0 / second)
    } else {
        Err("the warm-up of a stream takes whole seconds; write 1s or 2s".into())
    }
}

impl Args {
    fn request(&self) -> anyhow::Result<Config> {
        if !self.udp && self.rate.is_some_and(|rate| rate.burst > 1) {
            return Err(BadInput("a burst is of datagrams: give -u too, or leave /BURST out".into()).into());
        }
        Ok(Config {
            direction: match (self.down, self.both) {
                (true, _) => Direction::Down,
                (_, true) => Direction::Both,
                _ => Direction::Up,
            },
            udp: self.udp,
            flows: self.flows,
            duration: self.measure.duration(),
            bytes: self.bytes,
            warm_up_s: self.warm_up,
            write_bytes: self.write_size.unwrap_or(if self.udp { 1448 } else { 128 << 10 }),
            pace_bits_per_second: self.rate.map(|rate| rate.bits_per_second).filter(|r| self.udp || *r > 0),
            burst: self.rate.map_or(1, |rate| rate.burst),
            pacing: if self.pace_in_program { Pacing::Program } else { Pacing::Kernel },
            method: match (self.zerocopy, self.sendfile) {
                (true, _) => Method::Zerocopy,
                (_, true) => Method::Sendfile,
                _ => Method::Write,
            },
            interval: self.measure.interval(),
            cpu: self.measure.cpu,
            server_cpu: self.server_cpu,
            get_server_output: self.get_server_output,
            login: self.user.login()?,
            ..Config::new(self.server.target()?)
        })
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    workload::check(&args.output)?;
    let mut config = args.request()?;
    let interrupt = Interrupt::listen()?;
    let quiet = args.json_iperf3 || !output::shows_progress(args.json.json);
    let mut progress = |progress: Progress<'_>| {
        if let Progress::Interval(samples) = progress {
            if args.json.json {
                for sample in samples {
                    if output::json_event("interval", sample).is_err() {
                        return ControlFlow::Break(());
                    }
                }
            } else if !quiet {
                for sample in samples {
                    say!("{}", page::stream_interval(sample));
                }
            }
        }
        interrupt.go_on()
    };
    let outcome =
        args.server.run(&mut config, |c| &mut c.target, |config| traffic::stream::run(config, &mut progress))?;
    if args.json_iperf3 {
        output::json_line(&traffic::stream::iperf3_report(&config, &outcome))?;
    }
    let interrupted = outcome.interrupted.clone();
    let run = Run::Stream(config, Box::new(outcome));
    if args.json_iperf3 {
        workload::keep(&run, &args.output)?;
    } else {
        workload::show(&run, &args.output, args.json.json)?;
    }
    workload::end(interrupted, interrupt)
}
