//! Active probes by TCP, UDP and ICMP, each timed at every stage that the socket and the machine
//! can give.
//!
//! **Does:** sends one probe at a time ([`Prober`]) and waits for what comes back: an answer, an
//! ICMP error (which is timed like an answer: a closed port shows the round trip too), or nothing.
//! The other end needs only a host that answers. Separates this host's time from the network's, and
//! where TCP's ACK shows it, the network's from that of the program at the peer.
//!
//! **Does not:** resolve names, pace probes, or set an interface up for hardware stamps.
//!
//! **Guarantees:** a stage that this machine cannot give is `None`, never a guess; what cannot be
//! separated is given together ([`Exchange::network_and_peer`]); stages in an impossible order, and
//! a system clock that was set meanwhile, make a probe unsound ([`Probe::is_sound`]); answers to
//! other probes are counted, not mixed in.

mod clock_watch;
mod datagram;
mod exchange;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod icmp;
mod outcome;
mod socket;
mod tap;
mod tcp;
mod udp;
mod waiting;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use exchange::{Answerer, Exchange};
pub use icmp::IcmpProber;
pub use outcome::{Outcome, Probe};
pub use tcp::TcpProber;
pub use timestamping::Error;
pub use udp::UdpProber;

/// What all probes share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long an answer may take.
    pub timeout: Duration,
    /// Bytes of payload: of the ICMP echo, the datagram, or the TCP request (0: the handshake
    /// alone).
    pub size: usize,
    /// TTL or hop limit, where not the system's.
    pub ttl: Option<u8>,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: Option<u8>,
    /// Leave by this interface.
    pub interface: Option<String>,
    /// Ask for the NIC's stamps too. The interface has to be set to make them.
    pub hardware: bool,
    /// Bytes to send once a TCP connection is made, in place of `size` bytes of filling.
    pub request: Option<Vec<u8>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(1),
            size: 56,
            ttl: None,
            dscp: None,
            interface: None,
            hardware: false,
            request: None,
        }
    }
}

/// Sends one probe after another.
pub trait Prober {
    /// Sends probe `number` and waits for what comes of it, or until `stop` is set.
    ///
    /// # Errors
    /// Where the probe could not be sent at all. An answer that does not come is an [`Outcome`].
    fn probe(&mut self, number: u64, stop: &AtomicBool) -> Result<Probe, Error>;

    /// How the probes are made, in words: `ping socket`, `raw socket`, ….
    fn method(&self) -> &'static str;

    /// What this prober cannot time here, and why; empty where it can do everything.
    fn limits(&self) -> &[String];
}
