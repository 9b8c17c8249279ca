//! `wirelapse serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use traffic::server::{Event, Server, ServerConfig};
use traffic::tls::Identity;

use quantity::parse;
use record::Nanos;
use report::page::workload;
use rights::Kept;
use rustix::thread::CapabilitySet;

use crate::congestion;
use crate::exit::{self, BadInput};
use crate::interrupt::Interrupt;
use crate::login::OfUsers;
use crate::memory;
use crate::options::{Json, heading};
use crate::output::{self, complain, json_event, say};
use crate::server::{PORT, Token};

/// Answer the workloads of other hosts, and stock iperf3 clients
///
/// Objects of --json: listening, began, ended, refused, garbage, failed, stopped.
#[derive(clap::Args)]
pub struct Args {
    /// Listen on this address, TCP and UDP. By default only this host can connect. Port 0 takes any
    /// free port
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT), help_heading = heading::CONNECTION)]
    listen: SocketAddr,
    #[command(flatten)]
    token: Token,
    #[command(flatten)]
    users: OfUsers,
    /// Accept tests only over TLS, with this certificate: a PEM file with the server's certificate,
    /// then those that signed it
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = heading::SECURITY)]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = heading::SECURITY)]
    tls_key: Option<PathBuf>,
    /// Ports for the listeners of `crr`, to open in a firewall [default: any free port]
    #[arg(long, value_name = "FIRST-LAST", value_parser = port_range, help_heading = heading::CONNECTION)]
    data_ports: Option<(u16, u16)>,
    /// Concurrent connections, at most; 1024 unless given, fewer if little memory is left
    #[arg(long, value_name = "N", help_heading = heading::COST)]
    max_connections: Option<u32>,
    /// Concurrent tests, at most; 64 unless given, fewer if little memory is left
    #[arg(long, value_name = "N", help_heading = heading::COST)]
    max_sessions: Option<u32>,
    /// Threads of all tests, at most, beside one for each connection; 512 unless given, fewer if
    /// little memory is left
    #[arg(long, value_name = "N", help_heading = heading::COST)]
    max_threads: Option<u32>,
    /// Flows of one test in each direction, at most
    #[arg(long, value_name = "N", default_value_t = traffic::Limits::default().flows, help_heading = heading::COST)]
    max_flows: u32,
    /// Duration of one test, at most, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = parse::duration_above_zero, default_value_t = Nanos::from_secs(traffic::Limits::default().duration_s), help_heading = heading::COST)]
    max_duration: Nanos,
    /// Bytes of one test that is limited by bytes, at most
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes, default_value = "16T", help_heading = heading::COST)]
    max_bytes: u64,
    /// Bytes of one write, request, response or datagram, at most
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "4M", help_heading = heading::COST)]
    max_message: u32,
    /// Bytes of a socket buffer that a client may request
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes_u32, default_value = "64M", help_heading = heading::COST)]
    max_socket_buffer: u32,
    /// Memory for the buffers of all tests and HTTP/2 connections, at most; 256M unless given, less
    /// if little memory is left
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes, help_heading = heading::COST)]
    max_memory: Option<u64>,
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

impl Args {
    fn request(&self) -> anyhow::Result<ServerConfig> {
        let tls = self.tls_cert.as_ref().zip(self.tls_key.as_ref()).map(|(chain, key)| Identity::load(chain, key));
        let usual = memory::of_server();
        Ok(ServerConfig {
            listen: self.listen,
            token: self.token.read()?,
            users: self.users.users()?,
            tls: tls.transpose().map_err(BadInput)?,
            limits: traffic::Limits {
                connections: self.max_connections.unwrap_or(usual.connections),
                sessions: self.max_sessions.unwrap_or(usual.sessions),
                threads: self.max_threads.unwrap_or(usual.threads),
                flows: self.max_flows,
                duration_s: self.max_duration.0.div_ceil(1_000_000_000),
                bytes: self.max_bytes,
                message_bytes: self.max_message,
                socket_buffer_bytes: self.max_socket_buffer,
                memory_bytes: self.max_memory.unwrap_or(usual.memory_bytes),
                ..usual
            },
            data_ports: self.data_ports,
        })
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    congestion::keep_the_right_to_set()?;
    let interrupt = Interrupt::listen()?;
    memory::small_pages();
    let config = args.request()?;
    let (with_token, with_tls) = (config.token.is_some(), config.tls.is_some());
    let restricted = with_token || config.users.is_some();
    if restricted {
        // Nor does a core file hold the token; where the kernel refuses, the limit on core files
        // stays the user's.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
    // Everything else that it needs comes in with clients. A port below 1024 takes a separate right
    // to bind.
    let low = (1..1024).contains(&args.listen.port()) || args.data_ports.is_some_and(|(first, _)| first < 1024);
    let capabilities = if low { CapabilitySet::NET_BIND_SERVICE } else { CapabilitySet::empty() };
    rights::keep_only(&Kept { capabilities, ..Kept::NOTHING })?;
    let json = args.json.json;
    // A reader that went away must not take the server with it, nor a full disk: that is said once.
    let said = AtomicBool::new(false);
    let server = Server::start_with(config, move |event| {
        if let Err(error) = tell(json, &event)
            && !exit::is_closed_pipe(&error)
            && !said.swap(true, Ordering::Relaxed)
        {
            complain!("events are lost: {error:#}");
        }
    })?;
    let local = server.local_addr();
    if json {
        json_event("listening", &serde_json::json!({ "address": local, "token": with_token, "tls": with_tls }))?;
    } else {
        say!("listening on {local}, TCP and UDP; Ctrl-C ends");
        if !local.ip().is_loopback() && !restricted {
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
    output::document(&workload::served(&counts))
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
            Event::Failed { error } => json_event("failed", &serde_json::json!({ "error": error })),
            Event::Garbage { peer, why } => {
                json_event("garbage", &serde_json::json!({ "peer": peer, "why": why.to_string() }))
            }
        };
    }
    writeln!(output::stdout(), "{}", output::one_line(&workload::server_event(event).to_string()))?;
    Ok(())
}
