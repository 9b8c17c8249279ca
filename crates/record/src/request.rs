//! A request and its answer on one connection, seen from one end, and where its time went.

use std::fmt;

use crate::table::{Cell, Value};
use crate::{ConnectionId, Instant, Monotonic, Nanos, Owner, SeqNumber, columns, words};

/// Which end of the exchange was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The end that asks.
    Client,
    /// The end that answers.
    Server,
}

words! { Role: Client = "client", Server = "server"; }

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By what the network's time is separated from the peer application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The request's own ACK came before the answer and at once: network is `left` → `acked`.
    OwnAck,
    /// The ACK came with the answer, or was delayed: network is the minimum RTT of the connection up to then.
    LeastRoundTrip,
    /// The peer's end was traced as well, on the same clock: every part is measured.
    BothEnds,
    /// Seen from the server, where the request's way is over before it is seen.
    Server,
}

words! {
    Basis: OwnAck = "own_ack", LeastRoundTrip = "least_round_trip", BothEnds = "both_ends", Server = "server";
}

/// Where a component of a request's time was spent.
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

words! {
    Part: Application = "application", Kernel = "kernel", Network = "network", PeerReceive = "peer_receive",
    PeerApplication = "peer_application", PeerSend = "peer_send", Transfer = "transfer";
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

/// The components of a request's time. They add up to the whole.
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
    /// By what the network is separated from the peer.
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

impl Request {
    fn part(&self, part: Part) -> Option<Nanos> {
        self.parts.as_ref().and_then(|p| p.get(part))
    }

    /// Puts back a component that is there wherever components are.
    fn set(&mut self, value: Value<'_>, place: fn(&mut Parts) -> &mut Nanos) -> Result<(), &'static str> {
        match &mut self.parts {
            Some(components) => *place(components) = Nanos::from_value(value)?,
            None if value == Value::Null => {}
            None => return Err("is there, and application_ns is null"),
        }
        Ok(())
    }

    /// Puts back a component that can be null beside others.
    fn set_optional(
        &mut self,
        value: Value<'_>,
        place: fn(&mut Parts) -> &mut Option<Nanos>,
    ) -> Result<(), &'static str> {
        match &mut self.parts {
            Some(components) => *place(components) = Cell::from_value(value)?,
            None if value == Value::Null => {}
            None => return Err("is there, and application_ns is null"),
        }
        Ok(())
    }

    /// Puts back one half of the peer's kernel.
    fn set_peer(&mut self, value: Value<'_>, place: fn(&mut Peer) -> &mut Nanos) -> Result<(), &'static str> {
        match &mut self.parts {
            Some(components) => {
                if value != Value::Null {
                    *place(components.peer.get_or_insert_default()) = Nanos::from_value(value)?;
                }
                Ok(())
            }
            None if value == Value::Null => Ok(()),
            None => Err("is there, and application_ns is null"),
        }
    }
}

columns! {
    Request: "requests", "request", blank = Request {
        connection: ConnectionId::default(),
        role: Role::Client,
        owner: Owner::default(),
        request: Message::default(),
        answer: Message::default(),
        moments: Moments::default(),
        parts: None,
        basis: Basis::OwnAck,
    };
    connection_id = connection, "its connection";
    role = role, "the end that was traced";
    pid = owner.pid, "process at that end", from "task_struct.tgid";
    comm = owner.comm, "name of its thread", from "task_struct.comm";
    request_first_seq = request.first_seq, "TCP sequence number of the first byte of the request";
    request_bytes = request.bytes, "bytes of the request";
    request_pieces = request.pieces, "writes that it was sent in, or packets that it came in";
    answer_first_seq = answer.first_seq, "TCP sequence number of the first byte of the answer";
    answer_bytes = answer.bytes, "bytes of the answer";
    answer_pieces = answer.pieces, "writes that it was sent in, or packets that it came in";
    sent_at_ns = moments.sent, null "nothing was sent, or it was not seen",
        "first write of what this end sent: the request at a client, the answer at a server";
    first_left_at_ns = moments.first_left, null "it was not seen", "that write was handed to the driver";
    written_at_ns = moments.written, null "nothing was sent, or it was not seen", "last write of what this end sent";
    left_at_ns = moments.left, null "it was not seen", "its last byte was handed to the driver";
    acked_at_ns = moments.acked, null "no ACK was seen", "its last byte was acknowledged";
    arrived_at_ns = moments.arrived, null "nothing arrived, or it was not seen", "first byte of what this end received arrived";
    last_arrived_at_ns = moments.last_arrived, null "nothing arrived, or it was not seen", "its last byte arrived";
    ready_at_ns = moments.ready, null "it was not seen", "its last byte was readable";
    read_at_ns = moments.read, null "it was not read, or that was not seen", "its last byte was read";
    whole_ns = |r| r.whole(), null "it has no beginning or no end",
        "at a client `sent` to `read`, at a server `arrived` to `left`; the components that are not null add up to it";
    application_ns = |r| r.part(Part::Application),
        set |r, v| { r.parts = Option::<Nanos>::from_value(v)?.map(|application| Parts { application, ..Parts::default() }); Ok(()) },
        null "a stamp is missing or out of order", "the traced program";
    kernel_ns = |r| r.part(Part::Kernel), set |r, v| r.set(v, |c| &mut c.kernel),
        null "a stamp is missing or out of order", "this host's kernel";
    network_ns = |r| r.part(Part::Network), set |r, v| r.set_optional(v, |c| &mut c.network),
        null "as `application_ns`; and at a server", "the network in both directions, with the peer's kernel where the peer was not traced";
    peer_receive_ns = |r| r.part(Part::PeerReceive), set |r, v| r.set_peer(v, |p| &mut p.receive),
        null "as `application_ns`; and where the peer was not traced", "the peer's kernel until the request was readable";
    peer_application_ns = |r| r.part(Part::PeerApplication), set |r, v| r.set_optional(v, |c| &mut c.peer_application),
        null "as `application_ns`; and at a server", "the peer's program";
    peer_send_ns = |r| r.part(Part::PeerSend), set |r, v| r.set_peer(v, |p| &mut p.send),
        null "as `application_ns`; and where the peer was not traced", "the peer's kernel from its program's write to the driver";
    transfer_ns = |r| r.part(Part::Transfer), set |r, v| r.set(v, |c| &mut c.transfer),
        null "a stamp is missing or out of order", "from the first to the last byte of the message that this end received";
    basis = basis, "how the network is separated from the peer's program; `server` at a server";
}
