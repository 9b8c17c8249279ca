//! `wirelapse responsiveness`.

use std::net::IpAddr;
use std::path::PathBuf;

use quantity::parse;
use record::Nanos;
use traffic::kept::Run;
use traffic::responsiveness::{Config, Load, Parameters};

use crate::exit::BadInput;
use crate::interrupt::Interrupt;
use crate::options::{Json, Output, heading};
use crate::server::{Family, PORT, Token};
use crate::socket_options::SocketOptions;
use crate::workload;

/// Measure responsiveness under load: round trips a minute while HTTP/2 connections fill the path
///
/// As draft-ietf-ippm-responsiveness-09 defines it, against `serve --tls-cert FILE --tls-key FILE`
/// or any server that follows the draft. Objects of --json: each interval, each probe, then the
/// outcome.
#[derive(clap::Args)]
pub struct Args {
    /// `serve`, as HOST or HOST:PORT (port 5201 by default), or the https URL of the configuration
    /// of a server, such as `https://example.com/.well-known/nq`
    #[arg(value_name = "HOST[:PORT]|URL")]
    server: String,
    #[command(flatten)]
    family: Family,
    /// Connect from this address
    #[arg(long, value_name = "ADDR", help_heading = heading::CONNECTION)]
    bind: Option<IpAddr>,
    #[command(flatten)]
    token: Token,
    /// Trust the certificates in this PEM file instead of those of the system
    #[arg(long, value_name = "FILE", help_heading = heading::SECURITY)]
    tls_ca: Option<PathBuf>,
    /// Load down, then up, each with its own result, instead of both at once
    #[arg(short, long, conflicts_with = "load", help_heading = heading::HOW_MUCH)]
    sequential: bool,
    /// Load only this direction
    #[arg(long, value_enum, help_heading = heading::HOW_MUCH)]
    load: Option<Way>,
    /// End each load after this time, stable or not
    #[arg(short = 't', long = "for", value_name = "TIME", value_parser = parse::seconds_above_zero, default_value = "60s", help_heading = heading::HOW_MUCH)]
    duration: Nanos,
    /// Time between two checks of stability (the draft's ID)
    #[arg(short = 'i', long, value_name = "TIME", value_parser = parse::duration_above_zero, default_value = "5s", help_heading = heading::HOW_MUCH)]
    interval: Nanos,
    /// Load-generating connections in each direction, at most (the draft's MNP)
    #[arg(short = 'c', long, value_name = "N", default_value_t = 16, help_heading = heading::HOW_MUCH)]
    connections: u32,
    #[command(flatten)]
    options: SocketOptions,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    json: Json,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Way {
    Up,
    Down,
}

impl Args {
    fn request(&self) -> anyhow::Result<Config> {
        let url = if self.server.contains("://") {
            self.server.clone()
        } else {
            let address = parse::address(&self.server).map_err(|e| BadInput(e.to_string()))?;
            let port = address.port.unwrap_or(PORT);
            let host = if address.host.contains(':') { format!("[{}]", address.host) } else { address.host };
            format!("https://{host}:{port}/.well-known/nq")
        };
        Ok(Config {
            family: self.family.number(),
            trusted: self.tls_ca.clone(),
            token: self.token.read()?,
            local: self.bind,
            options: self.options.options(),
            stages: match (self.sequential, self.load) {
                (true, _) => vec![Load::Down, Load::Up],
                (false, Some(Way::Up)) => vec![Load::Up],
                (false, Some(Way::Down)) => vec![Load::Down],
                (false, None) => vec![Load::Both],
            },
            limit: self.duration,
            parameters: Parameters {
                interval: self.interval,
                most_connections: self.connections,
                ..Parameters::default()
            },
            ..Config::new(url)
        })
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    workload::check(&args.output)?;
    let config = args.request()?;
    let interrupt = Interrupt::listen()?;
    let outcome = traffic::responsiveness::run(&config, &mut |_| interrupt.go_on())?;
    let interrupted = outcome.interrupted.clone();
    workload::show(&Run::Responsiveness(config, Box::new(outcome)), &args.output, args.json.json)?;
    workload::end(interrupted, interrupt)
}
