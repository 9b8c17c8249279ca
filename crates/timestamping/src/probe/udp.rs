//! UDP datagrams to a port that echoes them, or to a closed one, whose host says so with an ICMP error.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use super::datagram::Exchanger;
use super::{Probe, Prober, Settings, socket};
use crate::Error;

/// Probes by datagram.
pub struct UdpProber {
    exchanger: Exchanger,
    own: u64,
    size: usize,
    limits: Vec<String>,
}

impl UdpProber {
    /// A prober for this host and port.
    ///
    /// # Errors
    /// [`Error::System`] where there is no route, and as [`crate::Request::enable`].
    pub fn new(to: SocketAddr, settings: &Settings) -> Result<Self, Error> {
        let socket = socket::open(to.ip(), libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
        let exchanger = Exchanger::new(socket, to, settings)?;
        let limits = exchanger.limits();
        Ok(Self { exchanger, own: socket::own_number(), size: settings.size, limits })
    }
}

impl Prober for UdpProber {
    fn probe(&mut self, number: u64, stop: &AtomicBool) -> Result<Probe, Error> {
        let payload = socket::payload(self.size, self.own, number);
        self.exchanger.exchange(
            number,
            &payload,
            stop,
            |bytes| (bytes == payload).then_some(bytes.len()),
            // As much of the datagram as came back with the error has to be this one's.
            |error| payload.starts_with(error.payload) || error.payload.starts_with(&payload),
        )
    }

    fn method(&self) -> &'static str {
        "UDP datagrams, echoed or refused"
    }

    fn limits(&self) -> &[String] {
        &self.limits
    }
}
