//! A request and its answer on one connection, seen from one end, and where its time went.

use std::fmt;

use crate::{ConnectionId, Instant, Monotonic, Nanos, Owner, SeqNumber};

/// Which end of the exchange was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The end that asks.
    Client,
    /// The end that answers.
    Server,
}

impl Role {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Client, Self::Server];

    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By what the network's time is told from the peer application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The request's own ACK came before the answer and at once: network is `left` → `acked`.
    OwnAck,
    /// The ACK came with the answer, or was delayed: network is the least round trip seen on the connection up to then.
    LeastRoundTrip,
    /// The peer's end was traced as well, on the same clock: every part is measured.
    BothEnds,
    /// Seen from the server, where the request's way is over before it is seen.
    Server,
}

impl Basis {
    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnAck => "own_ack",
            Self::LeastRoundTrip => "least_round_trip",
            Self::BothEnds => "both_ends",
            Self::Server => "server",
        }
    }
}

/// Where a part of a request's time was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// In the traced program: between its first write and its last, and from readable to read. At a server also all that it
    /// did between reading and writing.
    Application,
    /// In this host's kernel: `send` → `driver` of the last byte sent, and arrival → `ready` of the last byte received.
    Kernel,
    /// On the wire, both ways; with the peer's kernel where the peer was not traced.
    Network,
    /// In the peer's kernel, from the arrival of the request until it was readable.
    PeerReceive,
    /// In the peer's program: from readable to its first write of the answer.
    PeerApplication,
    /// In the peer's kernel, from that write until the answer was with the driver.
    PeerSend,
    /// From the arrival of the first byte of a message to that of its last: peer and network together.
    Transfer,
}

impl Part {
    /// All of them, in the order a request passes them.
    pub const ALL: [Self; 7] = [
        Self::Application,
        Self::Kernel,
        Self::Network,
        Self::PeerReceive,
        Self::PeerApplication,
        Self::PeerSend,
        Self::Transfer,
    ];

    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Kernel => "kernel",
            Self::Network => "network",
            Self::PeerReceive => "peer_receive",
            Self::PeerApplication => "peer_application",
            Self::PeerSend => "peer_send",
            Self::Transfer => "transfer",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// When the bytes of an exchange passed the stages of this end. What this end sent is the request at a client and the
/// answer at a server; what it received is the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// The first write.
    pub sent: Option<Instant<Monotonic>>,
    /// The first write went to the driver.
    pub first_left: Option<Instant<Monotonic>>,
    /// The last write.
    pub written: Option<Instant<Monotonic>>,
    /// Its last byte went to the driver.
    pub left: Option<Instant<Monotonic>>,
    /// Its last byte was acknowledged.
    pub acked: Option<Instant<Monotonic>>,
    /// The first byte of the other message arrived.
    pub arrived: Option<Instant<Monotonic>>,
    /// Its last byte arrived.
    pub last_arrived: Option<Instant<Monotonic>>,
    /// Its last byte was readable.
    pub ready: Option<Instant<Monotonic>>,
    /// Its last byte was read.
    pub read: Option<Instant<Monotonic>>,
}

/// The peer's kernel, where the peer's end was traced too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// [`Part::PeerReceive`].
    pub receive: Nanos,
    /// [`Part::PeerSend`].
    pub send: Nanos,
}

/// The parts of a request's time. They add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// [`Part::Application`].
    pub application: Nanos,
    /// [`Part::Kernel`].
    pub kernel: Nanos,
    /// [`Part::Network`]; `None` at a server.
    pub network: Option<Nanos>,
    /// [`Part::PeerApplication`]; `None` at a server.
    pub peer_application: Option<Nanos>,
    /// The peer's kernel, where it was measured.
    pub peer: Option<Peer>,
    /// [`Part::Transfer`].
    pub transfer: Nanos,
}

impl Parts {
    /// One of them; `None` where it is not measured on its own.
    pub fn get(&self, part: Part) -> Option<Nanos> {
        match part {
            Part::Application => Some(self.application),
            Part::Kernel => Some(self.kernel),
            Part::Network => self.network,
            Part::PeerReceive => self.peer.map(|p| p.receive),
            Part::PeerApplication => self.peer_application,
            Part::PeerSend => self.peer.map(|p| p.send),
            Part::Transfer => Some(self.transfer),
        }
    }

    /// All of them together.
    pub fn sum(&self) -> Nanos {
        Part::ALL.into_iter().filter_map(|part| self.get(part)).sum()
    }
}

/// One message of an exchange: a run of bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The sequence number of its first byte.
    pub first_seq: SeqNumber,
    /// How many bytes.
    pub bytes: u64,
    /// In how many writes it was sent (merged ones included), or in how many frames it came.
    pub pieces: u32,
}

impl Message {
    /// The sequence number after its last byte.
    pub fn end_seq(&self) -> SeqNumber {
        self.first_seq.add(self.bytes as u32)
    }
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The connection.
    pub connection: ConnectionId,
    /// Which end was traced.
    pub role: Role,
    /// The program at the traced end.
    pub owner: Owner,
    /// What was asked.
    pub request: Message,
    /// What was answered.
    pub answer: Message,
    /// When the stages were passed.
    pub moments: Moments,
    /// Where the time went; `None` where a stage has no stamp, or where stamps are in an impossible order.
    pub parts: Option<Parts>,
    /// By what the network is told from the peer.
    pub basis: Basis,
}

impl Request {
    /// When it began: a client's first write, or the arrival of the first byte at a server.
    pub fn began(&self) -> Option<Instant<Monotonic>> {
        match self.role {
            Role::Client => self.moments.sent,
            Role::Server => self.moments.arrived,
        }
    }

    /// When it was over: the client had read the last byte of the answer, or that byte was with the server's driver.
    pub fn ended(&self) -> Option<Instant<Monotonic>> {
        match self.role {
            Role::Client => self.moments.read,
            Role::Server => self.moments.left,
        }
    }

    /// How long it took; `None` where it has no beginning or no end.
    pub fn whole(&self) -> Option<Nanos> {
        self.ended()?.since(self.began()?).ok()
    }
}
