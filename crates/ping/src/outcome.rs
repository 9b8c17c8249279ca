//! What came of a probe.

use std::net::IpAddr;

use crate::Exchange;

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer.
    Answer,
    /// A TCP connection was refused: the port is closed, and its host answered.
    Refused,
    /// A TCP connection was made, but closed without an answer to the request.
    Closed,
    /// An ICMP error came back.
    Icmp {
        /// In words.
        name: &'static str,
        /// Who sent it.
        from: Option<IpAddr>,
    },
    /// Nothing came in time.
    NoAnswer,
    /// This host itself could not send it: no route, interface down, larger than the MTU.
    NotSent {
        /// The error number.
        errno: i32,
    },
    /// The program asked to stop meanwhile.
    Interrupted,
}

impl Outcome {
    /// The word used in output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::Icmp { .. } => "icmp_error",
            Self::NoAnswer => "no_answer",
            Self::NotSent { .. } => "not_sent",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether something came back that has a round-trip time.
    pub const fn came_back(&self) -> bool {
        matches!(self, Self::Answer | Self::Refused | Self::Icmp { .. })
    }
}

/// One probe, done.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Which.
    pub number: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// The exchange that the outcome is about: echo and answer, or the TCP handshake.
    pub exchange: Exchange,
    /// TCP: the request and the first bytes of its answer, where there was a request.
    pub request: Option<Exchange>,
    /// Who answered.
    pub from: Option<IpAddr>,
    /// Payload bytes of the answer.
    pub bytes: usize,
    /// Its TTL or hop limit.
    pub ttl: Option<u8>,
    /// Answers to earlier probes, and duplicates, that came meanwhile.
    pub stray: u64,
    /// The system's clock was set while the probe was in flight: its times are not to be used.
    pub clock_set: bool,
}

impl Probe {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            outcome: Outcome::NoAnswer,
            exchange: Exchange::default(),
            request: None,
            from: None,
            bytes: 0,
            ttl: None,
            stray: 0,
            clock_set: false,
        }
    }

    /// Whether its times may be used: the clock was not set and no stage is out of order.
    pub fn is_sound(&self) -> bool {
        !self.clock_set && self.exchange.is_in_order() && self.request.as_ref().is_none_or(Exchange::is_in_order)
    }
}
