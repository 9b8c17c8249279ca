//! What `wirelapse probe` is asked to do.

use std::net::SocketAddr;
use std::time::Duration;

use ping::{IcmpProber, Prober, Settings, TcpProber, UdpProber};

/// By what kind of packet a probe is made.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// Handshakes, and requests on the new connection.
    Tcp,
    /// Datagrams.
    Udp,
    /// Echo requests.
    Icmp,
}

impl Protocol {
    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        }
    }

    /// What makes such probes to an address.
    pub fn prober(self, to: SocketAddr, settings: &Settings) -> anyhow::Result<Box<dyn Prober>> {
        Ok(match self {
            Self::Tcp => Box::new(TcpProber::new(to, settings)?),
            Self::Udp => Box::new(UdpProber::new(to, settings)?),
            Self::Icmp => Box::new(IcmpProber::new(to, settings)?),
        })
    }
}

/// What is to be done, checked.
pub struct Request {
    /// By what kind of packet.
    pub protocol: Protocol,
    /// The target as it was given.
    pub target: String,
    /// Its address; the port is 0 for icmp.
    pub to: SocketAddr,
    /// How probes are made.
    pub settings: Settings,
    /// How many.
    pub count: u64,
    /// From one to the next.
    pub interval: Duration,
    /// Lines of JSON in place of text.
    pub json: bool,
}
