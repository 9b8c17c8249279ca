//! `wirelapse serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use traffic::server::{Event, Server, ServerConfig};

use quantity::parse;
use record::Nanos;

use crate::interrupt::Interrupt;
use crate::options::Json;
use crate::output::{json_event, say};
use crate::server::{PORT, Token};

/// Answer the workloads of other hosts, and stock iperf3 clients
///
/// Objects of --json: listening, began, ended, refused, garbage, stopped.
#[derive(clap::Args)]
pub struct Args {
    /// Listen here, TCP and UDP; only this host reaches it unless given. Port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT))]
    listen: SocketAddr,
    #[command(flatten)]
    token: Token,
    /// Ports for the listeners of `crr`, to let through a firewall; any free one unless given
    #[arg(long, value_name = "FIRST-LAST", value_parser = port_range)]
    data_ports: Option<(u16, u16)>,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = traffic::Limits::default().connections)]
    max_connections: u32,
    /// Tests at the same time
    #[arg(long, value_name = "N", default_value_t = traffic::Limits::default().sessions)]
    max_sessions: u32,
    /// Threads of all tests together, beside one for each connection
    #[arg(long, value_name = "N", default_value_t = traffic::Limits::default().threads)]
    max_threads: u32,
    /// Flows of one test in each direction
    #[arg(long, value_name = "N", default_value_t = traffic::Limits::default().flows)]
    max_flows: u32,
    /// Time of one test, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = parse::duration_above_zero, default_value_t = Nanos::from_secs(traffic::Limits::default().duration_s))]
    max_duration: Nanos,
    /// Bytes of one test that is asked for by bytes
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes, default_value = "16T")]
    max_bytes: u64,
    /// Bytes of one write, request, response or datagram
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "4M")]
    max_message: u32,
    /// Bytes of a socket buffer that a client may ask for
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "64M")]
    max_socket_buffer: u32,
    /// Bytes of message buffers of all tests together
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes, default_value = "256M")]
    max_memory: u64,
    #[command(flatten)]
    json: Json,
}

fn port_range(text: &str) -> Result<(u16, u16), String> {
    let wrong = || "two ports, FIRST-LAST".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err(wrong()),
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let token = args.token.read()?;
    let config = ServerConfig {
        listen: args.listen,
        token: token.clone(),
        limits: traffic::Limits {
            connections: args.max_connections,
            sessions: args.max_sessions,
            threads: args.max_threads,
            flows: args.max_flows,
            duration_s: args.max_duration.0.div_ceil(1_000_000_000),
            bytes: args.max_bytes,
            message_bytes: args.max_message,
            socket_buffer_bytes: args.max_socket_buffer,
            memory_bytes: args.max_memory,
            ..traffic::Limits::default()
        },
        data_ports: args.data_ports,
    };
    let json = args.json.json;
    // A reader that went away must not take the server with it.
    let server = Server::start_with(config, move |event| {
        tell(json, &event).ok();
    })?;
    let local = server.local_addr();
    if json {
        json_event("listening", &serde_json::json!({ "address": local, "token": token.is_some() }))?;
    } else {
        say!("listening on {local}, TCP and UDP; Ctrl-C ends");
        if !local.ip().is_loopback() && token.is_none() {
            say!(
                "anyone who reaches {local} can make this host send and receive: --token or --token-file restricts that"
            );
        }
    }
    while !interrupt.came() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let counts = server.stop();
    if json {
        return json_event("stopped", &counts);
    }
    say!(
        "served {} tests; {} broken off, {} refused; connections: {} turned away, {} silent, {} of another protocol",
        counts.tests,
        counts.broken_off,
        counts.refused,
        counts.turned_away,
        counts.silent,
        counts.garbage
    );
    Ok(())
}

fn tell(json: bool, event: &Event) -> anyhow::Result<()> {
    use std::io::Write as _;
    if json {
        return match event {
            Event::Began { peer, workload } => {
                json_event("began", &serde_json::json!({ "peer": peer, "workload": workload }))
            }
            Event::Ended(served) => json_event("ended", served),
            Event::Refused { peer, refusal } => {
                json_event("refused", &serde_json::json!({ "peer": peer, "refusal": refusal }))
            }
            Event::Garbage { peer, why } => {
                json_event("garbage", &serde_json::json!({ "peer": peer, "why": why.to_string() }))
            }
        };
    }
    let mut out = std::io::stdout().lock();
    match event {
        Event::Began { peer, workload } => writeln!(out, "{peer}  {workload} began")?,
        Event::Ended(s) => {
            let mut parts = Vec::new();
            if s.received_bytes > 0 {
                parts.push(format!("received {}", quantity::bytes(s.received_bytes)));
            }
            if s.sent_bytes > 0 {
                parts.push(format!("sent {}", quantity::bytes(s.sent_bytes)));
            }
            if s.transactions > 0 {
                parts.push(format!("{} transactions", s.transactions));
            }
            parts.extend(s.ended.clone());
            writeln!(out, "{}  {} ended after {}: {}", s.peer, s.workload, s.elapsed, parts.join(", "))?;
        }
        Event::Refused { peer, refusal } => writeln!(out, "{peer}  refused: {refusal}")?,
        Event::Garbage { peer, why } => writeln!(out, "{peer}  {why}")?,
    }
    Ok(())
}
