//! `wirelapse udp`.

use traffic::udp::{Config, Direction, Outcome};

use crate::workload::{self, Interrupt, MeasureArgs, TargetArgs, amount, rate, say, time};

/// Datagrams at a rate: loss, order, jitter and one-way delay, to `serve`
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// The server sends
    #[arg(short = 'R', long)]
    down: bool,
    /// Bytes of each datagram, 24 to 65507
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = workload::bytes32, default_value = "1200")]
    size: u32,
    /// Bits of datagrams a second, 0 for as fast as it goes
    #[arg(short = 'b', long, value_name = "RATE", value_parser = workload::bit_rate, default_value = "10M")]
    rate: u64,
    #[command(flatten)]
    measure: MeasureArgs,
    /// One JSON object a line: each interval, then the outcome
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let config = Config {
        direction: if args.down { Direction::Down } else { Direction::Up },
        datagram_bytes: args.size,
        bits_per_second: args.rate,
        duration: args.measure.duration(),
        interval: args.measure.interval(),
        cpu: args.measure.cpu,
        ..Config::new(args.target.target()?)
    };
    let interrupt = Interrupt::listen()?;
    let outcome = workload::or_bad_input(traffic::udp::run(&config, &mut |_| interrupt.go_on()))?;
    if args.json {
        for interval in &outcome.series {
            workload::json_event("interval", interval)?;
        }
        return workload::json_event("outcome", &outcome);
    }
    show(&outcome);
    Ok(())
}

fn show(o: &Outcome) {
    let d = &o.datagrams;
    let percent = 100.0 * d.lost as f64 / d.expected.max(1) as f64;
    say!("sent      {} datagrams ({}) in {}", o.sent, amount(o.sent_bytes), time(o.elapsed.0));
    say!("received  {} ({}), {}", d.received, amount(o.received_bytes), rate(o.goodput_bits_per_second));
    say!("lost      {} ({percent:.3} %), {} of them dropped at the receiver's socket", d.lost, d.dropped_at_socket);
    say!("order     {} reordered, {} duplicated, {} too late to tell", d.reordered, d.duplicated, d.too_late);
    say!("sockets   {}", o.socket_options);
    say!("jitter    {} (RFC 3550)", time(d.jitter.0));
    match &o.one_way_delay {
        Some(delay) => crate::rr::distribution("one-way", delay),
        None => say!("one-way   unknown: the ends do not share a clock"),
    }
    if o.not_sent > 0 {
        say!("not sent  {}: this host's queue was full", o.not_sent);
    }
}
