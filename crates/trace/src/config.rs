//! What to trace, and with what means.

use std::fmt;
use std::num::NonZeroU32;

use record::Sampling;

use crate::{Histograms, Target};

/// How the stages are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// BPF timestamping: the kernel calls back for armed sockets (Linux 6.15 and later).
    Timestamping,
    /// Tracepoints on the path of every packet, filtered by socket.
    Tracepoints,
}

impl Backend {
    /// The word used in output and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timestamping => "timestamping",
            Self::Tracepoints => "tracepoints",
        }
    }
}

impl Backend {
    /// How errors name it.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Timestamping => "the timestamping backend",
            Self::Tracepoints => "the tracepoints backend",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which backend to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// BPF timestamping where loading it works, else tracepoints.
    #[default]
    Auto,
    /// BPF timestamping or nothing.
    Timestamping,
    /// Tracepoints or nothing.
    Tracepoints,
}

/// How a [`crate::Tracer`] is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which connections.
    pub target: Target,
    /// Which of their sends.
    pub sampling: Sampling,
    /// At most so many sends a second.
    pub max_rate: Option<NonZeroU32>,
    /// Not beyond this share of the CPU time that the traced programs use: where every send costs
    /// more, fewer are looked at. As `max_rate`, only with [`Sampling::Every`].
    pub cost: Option<f64>,
    /// By which backend.
    pub backend: BackendChoice,
    /// Whether the beginning of each call that writes is recorded, and the time that it sleeps for
    /// room in the send buffer. With the timestamping backend this takes a program on every TCP
    /// write of the machine.
    pub calls: bool,
    /// The most sends of one connection that can be on their way and be distinguished; rounded up
    /// to a power of two, 16 to 65,536. It has as much of the memory of all as it has sends on
    /// their way.
    pub slots_per_connection: u32,
    /// How many sends of all connections together can be on their way and be distinguished; `None`
    /// for a number that goes by that of the connections and by the sampling.
    pub slots_in_all: Option<u32>,
    /// How many connections can be followed at once, 1 to 1,048,576.
    pub max_connections: u32,
    /// Whether attempts to set up connections are reported, with the ends of those.
    pub connects: bool,
    /// Whether received bytes are followed too.
    pub receive: bool,
    /// How many received segments of one connection can wait to be read and be distinguished, as
    /// `slots_per_connection`.
    pub arrivals_per_connection: u32,
    /// Whether it is read what packets begin with: methods and paths of HTTP/1, and what shows
    /// other protocols.
    pub http: bool,
    /// Whether the names of servers that TLS asks for are read; with `http` they are anyway.
    pub hellos: bool,
    /// Whether every packet of the followed connections is reported, whatever the sampling of
    /// sends.
    pub packets: bool,
    /// Whether the datagrams of UDP sockets of the target are reported, likewise.
    pub udp: bool,
    /// Whether packets are copied, in both directions, with their headers and so many bytes of
    /// payload.
    pub copies: Option<u16>,
    /// Whether copies may take tracepoints, which run for all packets of the machine: for ICMP
    /// errors, drops, and packets of connections that have no socket any more.
    pub copies_tracepoints: bool,
    /// The ports of servers of DNS whose questions and answers are reported: at most
    /// [`record::Question::MOST_PORTS`].
    pub dns: Vec<u16>,
    /// Whether it is reported how long other datagrams wait for their answers where they alternate,
    /// and handshakes of QUIC.
    pub exchanges: bool,
    /// Histograms of sends in the kernel, which [`crate::Tracer::snapshot`] reads.
    pub histograms: Option<Histograms>,
    /// Whether to do with `CAP_BPF`, `CAP_PERFMON` and `CAP_NET_ADMIN`. Without `CAP_SYS_ADMIN`
    /// connections that exist already are picked up in the own network namespace alone, and another
    /// tracer that ends disarms the sockets of this one.
    pub least_rights: bool,
    /// Size of the ring buffer in bytes; rounded up to a power of two of at least a page. `None`
    /// for a size that goes by the sampling.
    pub ring_bytes: Option<u32>,
}

impl Default for Config {
    /// 1,024 connections. How many connections a machine has memory for says
    /// [`Config::connections_within`].
    fn default() -> Self {
        Self {
            target: Target::default(),
            sampling: Sampling::Every,
            max_rate: None,
            cost: None,
            backend: BackendChoice::Auto,
            calls: false,
            slots_per_connection: 65_536,
            slots_in_all: None,
            max_connections: 1024,
            connects: true,
            receive: false,
            arrivals_per_connection: 512,
            http: false,
            hellos: false,
            packets: false,
            udp: false,
            copies: None,
            copies_tracepoints: true,
            dns: Vec::new(),
            exchanges: false,
            histograms: None,
            least_rights: false,
            ring_bytes: None,
        }
    }
}

impl Config {
    /// Whether attempts to connect are reported.
    pub(crate) fn wants_connects(&self) -> bool {
        self.connects
    }

    /// One in how many window lengths is a window; `None` where there are no windows.
    pub(crate) fn windows_every(&self) -> Option<u32> {
        match self.sampling {
            Sampling::Windows(ratio) => Some(ratio.0.get()),
            // A limit on the rate, or on the cost, begins with everything and goes over to windows
            // where that is too much.
            Sampling::Every if self.max_rate.is_some() || self.cost.is_some() => Some(1),
            _ => None,
        }
    }
}
