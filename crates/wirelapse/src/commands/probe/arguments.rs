//! The arguments of `wirelapse probe`, and how they make a request.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use clap_complete::engine::ArgValueCandidates;
use ping::{Outcome, Settings};
use quantity::Address;
use record::Nanos;
use timestamping::{Interface, ReceiveFilter, TransmitType};

use crate::commands::completions::values;
use crate::exit::BadInput;
use crate::options::{Json, heading};
use crate::server::{self, Family};

use super::request::{Protocol, Request};

/// Ping (TCP, UDP, ICMP) that separates kernel time from network time
///
/// The other end needs no software. `icmp` sends echo requests. `udp` sends datagrams to a port
/// that echoes them, to `wirelapse serve`, or to a closed port: its host answers with an ICMP error
/// that is timed as well. `tcp` times the handshake, and with --request or --size a request on the
/// new connection.
///
/// Ctrl-C ends it and prints the summary. The exit status is 1 if nothing came back.
#[derive(clap::Args)]
#[command(after_long_help = super::json::keys())]
pub struct Args {
    /// Which kind of packet to send
    protocol: Protocol,
    /// HOST for icmp, HOST:PORT for udp and tcp; write an IPv6 address with a port as
    /// `[ADDRESS]:PORT`
    #[arg(value_parser = quantity::parse::address)]
    target: Address,
    /// End after this many probes [default: on Ctrl-C]
    #[arg(short, long, value_name = "N", value_parser = quantity::parse::count_within(1..=u64::MAX), help_heading = heading::HOW_MUCH)]
    count: Option<u64>,
    /// Time between two probes
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = quantity::parse::duration, help_heading = heading::HOW_MUCH)]
    interval: Nanos,
    /// How long to wait for an answer
    #[arg(short = 'W', long, value_name = "TIME", default_value = "1s", value_parser = quantity::parse::duration, help_heading = heading::HOW_MUCH)]
    timeout: Nanos,
    /// Payload bytes [default: 56; for tcp none, only the handshake]
    #[arg(short, long, value_name = "BYTES", value_parser = payload_bytes, help_heading = "Packets")]
    size: Option<u32>,
    /// TTL or hop limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), help_heading = "Packets")]
    ttl: Option<u8>,
    /// Differentiated services code point, 0 to 63
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..64), help_heading = "Packets")]
    dscp: Option<u8>,
    /// Send from this interface
    #[arg(short = 'I', long, value_name = "NAME", help_heading = "Packets", add = ArgValueCandidates::new(values::interfaces))]
    interface: Option<String>,
    /// Also use the timestamps of the NIC (name its interface; it must be set up to make them)
    #[arg(long, requires = "interface", help_heading = "Packets")]
    hardware: bool,
    /// tcp: send this text once connected and wait for an answer; \r, \n and \\ are understood
    #[arg(long, value_name = "TEXT", conflicts_with = "size", help_heading = "Packets")]
    request: Option<String>,
    #[command(flatten)]
    family: Family,
    #[command(flatten)]
    json: Json,
}

impl Args {
    /// Looks the host up and checks the interface.
    ///
    /// # Errors
    /// [`BadInput`] for what does not go together, an unknown host, and an interface that lacks
    /// what is asked of it.
    pub fn request(&self) -> anyhow::Result<Request> {
        if self.request.is_some() && self.protocol != Protocol::Tcp {
            return Err(BadInput("--request is for tcp".into()).into());
        }
        self.check_interface()?;
        let settings = Settings {
            timeout: self.timeout.into(),
            size: self.size.unwrap_or(if self.protocol == Protocol::Tcp { 0 } else { 56 }) as usize,
            ttl: self.ttl,
            dscp: self.dscp,
            interface: self.interface.clone(),
            hardware: self.hardware,
            request: self.request.as_deref().map(unescape),
        };
        let to = self.resolve(&settings)?;
        Ok(Request {
            protocol: self.protocol,
            target: self.target.to_string(),
            to,
            settings,
            count: self.count.unwrap_or(u64::MAX),
            interval: self.interval.into(),
            json: self.json.json,
        })
    }

    fn resolve(&self, settings: &Settings) -> anyhow::Result<SocketAddr> {
        let port = port(&self.target, self.protocol).map_err(BadInput)?;
        let addresses = self.family.resolve(&self.target, port, None)?;
        // Where none answers, the probes of the first say why.
        let first = addresses[0];
        match self.protocol {
            Protocol::Tcp => Ok(server::answering_first(addresses).map_or(first, |addresses| addresses[0])),
            Protocol::Udp | Protocol::Icmp => Ok(self.answering(&addresses, settings).unwrap_or(first)),
        }
    }

    /// Of several addresses the first that answers a probe, or else the first from which an error
    /// comes. These probes are in no figure.
    fn answering(&self, addresses: &[SocketAddr], settings: &Settings) -> Option<SocketAddr> {
        if addresses.len() < 2 {
            return None;
        }
        let mut errs = None;
        for to in addresses {
            let probed = self.protocol.prober(*to, settings).and_then(|mut p| Ok(p.probe(0, &AtomicBool::new(false))?));
            match probed.map(|probe| probe.outcome) {
                Ok(Outcome::Answer) => return Some(*to),
                Ok(outcome) if outcome.came_back() => errs = errs.or(Some(*to)),
                _ => {}
            }
        }
        errs
    }

    /// Whether the interface exists, and where hardware stamps are asked for, makes them. It is not
    /// set here: the setting is one for the whole machine and would outlive a killed probe.
    fn check_interface(&self) -> anyhow::Result<()> {
        let Some(name) = &self.interface else { return Ok(()) };
        let interface = Interface::by_name(name)?;
        if !self.hardware {
            return Ok(());
        }
        let info = interface.timestamping_info()?;
        if !info.has_hardware_transmit() {
            return Err(BadInput(format!("interface {name} has no hardware timestamps: remove --hardware")).into());
        }
        let config = interface.hardware()?;
        if config.transmit == TransmitType::Off || config.receive == ReceiveFilter::None {
            let advice = format!("hwstamp_ctl -i {name} -t 1 -r 1");
            return Err(BadInput(format!("interface {name} is not set to stamp packets: run {advice}, as root")).into());
        }
        Ok(())
    }
}

/// The port of a target; 0 for ICMP, which has none.
fn port(target: &Address, protocol: Protocol) -> Result<u16, String> {
    match (protocol, target.port) {
        (Protocol::Icmp, None) => Ok(0),
        (Protocol::Icmp, Some(_)) => Err(format!("{target}: icmp takes a host without a port")),
        (_, Some(port)) => Ok(port),
        (_, None) => Err(format!("{target}: {} takes HOST:PORT, or [ADDRESS]:PORT for IPv6", protocol.name())),
    }
}

/// The most payload that a datagram of IPv4 holds.
fn payload_bytes(text: &str) -> Result<u32, String> {
    const MOST: u32 = 65_507;
    let bytes = quantity::parse::bytes_u32(text).map_err(|e| e.to_string())?;
    if bytes > MOST { Err(format!("at most {MOST} bytes, which is what a datagram holds")) } else { Ok(bytes) }
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut chars) = (Vec::new(), text.chars());
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some('r') => '\r',
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            c => c,
        };
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_for_those_protocols_that_have_one() {
        let of = |target: &str, protocol| port(&target.parse().unwrap(), protocol);
        assert_eq!(of("host:80", Protocol::Tcp), Ok(80));
        assert_eq!(of("[2001:db8::1]:80", Protocol::Udp), Ok(80));
        for host in ["2001:db8::1", "[::1]", "host"] {
            assert_eq!(of(host, Protocol::Icmp), Ok(0), "{host}");
        }
        for (target, protocol) in [("host", Protocol::Tcp), ("2001:db8::1", Protocol::Udp), ("host:80", Protocol::Icmp)]
        {
            assert!(of(target, protocol).is_err(), "{target}");
        }
    }

    #[test]
    fn payload_is_what_a_datagram_holds() {
        assert_eq!(payload_bytes("1400"), Ok(1400));
        assert!(payload_bytes("65508").is_err());
    }

    #[test]
    fn escapes_are_understood() {
        assert_eq!(unescape(r"GET / HTTP/1.0\r\n\r\n\\é"), "GET / HTTP/1.0\r\n\r\n\\é".as_bytes());
    }
}
