//! `wirelapse udp`.

use traffic::udp::{Config, Direction, Outcome};

use quantity::{bit_rate, bytes, parse};

use crate::interrupt::Interrupt;
use crate::options::{Json, Measure};
use crate::output::{self, say};
use crate::server::Server;

/// Datagrams at a rate: loss, order, jitter and one-way delay, to `serve`
///
/// Objects of --json: each interval, then the outcome.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: Server,
    /// The server sends
    #[arg(short = 'R', long)]
    down: bool,
    /// Bytes of each datagram, 24 to 65507
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "1200")]
    size: u32,
    /// Bits of datagrams a second, such as 10M; 0 for as fast as it goes
    #[arg(short = 'b', long, value_name = "RATE", value_parser = parse::bit_rate, default_value = "10M")]
    rate: u64,
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    json: Json,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let config = Config {
        direction: if args.down { Direction::Down } else { Direction::Up },
        datagram_bytes: args.size,
        bits_per_second: args.rate,
        duration: args.measure.duration(),
        interval: args.measure.interval(),
        cpu: args.measure.cpu,
        ..Config::new(args.server.target()?)
    };
    let interrupt = Interrupt::listen()?;
    let outcome = traffic::udp::run(&config, &mut |_| interrupt.go_on())?;
    if args.json.json {
        for interval in &outcome.series {
            output::json_event("interval", interval)?;
        }
        return output::json_event("outcome", &outcome);
    }
    show(&outcome);
    Ok(())
}

fn show(o: &Outcome) {
    let d = &o.datagrams;
    let percent = 100.0 * d.lost as f64 / d.expected.max(1) as f64;
    say!("sent      {} datagrams ({}) in {}", o.sent, bytes(o.sent_bytes), o.elapsed);
    say!("received  {} ({}), {}", d.received, bytes(o.received_bytes), bit_rate(o.goodput_bits_per_second));
    say!("lost      {} ({percent:.3} %), {} of them dropped at the receiver's socket", d.lost, d.dropped_at_socket);
    say!("order     {} reordered, {} duplicated, {} too late to tell", d.reordered, d.duplicated, d.too_late);
    say!("sockets   {}", o.socket_options);
    say!("jitter    {} (RFC 3550)", d.jitter);
    match &o.one_way_delay {
        Some(delay) => crate::rr::distribution("one-way", delay),
        None => say!("one-way   unknown: the ends do not share a clock"),
    }
    if o.not_sent > 0 {
        say!("not sent  {}: this host's queue was full", o.not_sent);
    }
}
