//! `wirelapse udp`.

use quantity::parse;
use traffic::kept::Run;
use traffic::udp::{Config, Direction};

use crate::interrupt::Interrupt;
use crate::options::{Json, Measure, Output, Paced};
use crate::server::Server;
use crate::workload;

/// Send datagrams at a rate to `serve`: loss, order, jitter and one-way delay
///
/// Objects of --json: each interval, then the outcome.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: Server,
    /// The server sends
    #[arg(short = 'R', long, help_heading = "Traffic")]
    down: bool,
    /// Bytes of each datagram, 24 to 65507
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "1200", help_heading = "Traffic")]
    size: u32,
    /// Bits a second, such as 10M; 0 for as fast as possible. With a burst, so many datagrams leave
    /// in a row: 10M/20
    #[arg(short = 'b', long, value_name = "RATE[/BURST]", value_parser = Paced::parse, default_value = "10M", help_heading = "Traffic")]
    rate: Paced,
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    json: Json,
}

impl Args {
    fn request(&self) -> anyhow::Result<Config> {
        Ok(Config {
            direction: if self.down { Direction::Down } else { Direction::Up },
            datagram_bytes: self.size,
            bits_per_second: self.rate.bits_per_second,
            burst: self.rate.burst,
            duration: self.measure.duration(),
            interval: self.measure.interval(),
            cpu: self.measure.cpu,
            ..Config::new(self.server.target()?)
        })
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    workload::check(&args.output)?;
    let mut config = args.request()?;
    let interrupt = Interrupt::listen()?;
    let run = |config: &Config| traffic::udp::run(config, &mut |_| interrupt.go_on());
    let outcome = args.server.run(&mut config, |c| &mut c.target, run)?;
    let interrupted = outcome.interrupted.clone();
    workload::show(&Run::Udp(config, Box::new(outcome)), &args.output, args.json.json)?;
    workload::end(interrupted, interrupt)
}
