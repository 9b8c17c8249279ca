//! A request and its answer on one connection, seen from one end, and where its time went.

use std::fmt;
use std::net::SocketAddr;

use crate::table::{Cell, Value};
use crate::{
    ConnectionId, Http, Instant, Monotonic, Nanos, Owner, SeqNumber, SpanId, TraceContext, TraceId, WaitReason, Waits,
    columns, wait, words,
};

/// Which end of the exchange was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
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
    /// The ACK came with the answer, or was delayed: network is the minimum RTT of the connection
    /// up to then.
    LeastRoundTrip,
    /// The peer's end was traced as well, on the same clock: every component is measured.
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
pub enum Component {
    /// Setting up the connection that was made for the request, from the SYN to the SYN-ACK.
    Connect,
    /// The traced program's own work: between its first write and its last, and at a server from
    /// reading to the last write.
    Application,
    /// Waiting for TCP: the program for room in the send buffer, and the last bytes in the write
    /// queue for what held it.
    Tcp,
    /// In this host's kernel: `send` → `driver` of the last byte sent, but for its wait in TCP, and
    /// arrival → `ready` of the last byte received.
    Kernel,
    /// On the wire, both ways; with the peer's kernel where the peer was not traced.
    Network,
    /// In the peer's kernel, from the arrival of the request until it was readable.
    PeerReceive,
    /// In the peer's program: from readable to its first write of the answer.
    PeerApplication,
    /// In the peer's kernel, from that write until the answer was with the driver.
    PeerSend,
    /// From the arrival of the first byte of a message to that of its last: peer and network
    /// together.
    Transfer,
    /// From readable until the traced program has read: it was woken up, or was busy with something
    /// else.
    Wakeup,
    /// At a server that asks others itself, such as a proxy: the time in which its program had a
    /// request of its own under way for this one ([`Upstream`]).
    Upstream,
}

words! {
    Component: Connect = "connect", Application = "application", Tcp = "tcp", Kernel = "kernel", Network = "network", PeerReceive = "peer_receive",
    PeerApplication = "peer_application", PeerSend = "peer_send", Transfer = "transfer", Wakeup = "wakeup",
    Upstream = "upstream";
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// When the bytes of an exchange passed the stages of this end. What this end sent is the request
/// at a client and the answer at a server; what it received is the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// The SYN of the connection that was made for this request was sent.
    pub connecting: Option<Instant<Monotonic>>,
    /// That connection was established.
    pub connected: Option<Instant<Monotonic>>,
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
    /// [`Component::PeerReceive`].
    pub receive: Nanos,
    /// [`Component::PeerSend`].
    pub send: Nanos,
}

/// The components of a request's time. They add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Components {
    /// [`Component::Connect`]; `None` but at a client in the first request of a connection that was
    /// made for it.
    pub connect: Option<Nanos>,
    /// [`Component::Application`].
    pub application: Nanos,
    /// [`Component::Tcp`], by what held it; `None` where nothing waited.
    pub tcp: Option<Waits>,
    /// [`Component::Kernel`].
    pub kernel: Nanos,
    /// [`Component::Network`]; `None` at a server.
    pub network: Option<Nanos>,
    /// [`Component::PeerApplication`]; `None` at a server.
    pub peer_application: Option<Nanos>,
    /// The peer's kernel, where it was measured.
    pub peer: Option<Peer>,
    /// [`Component::Transfer`].
    pub transfer: Nanos,
    /// [`Component::Wakeup`]; `None` in runs that count it as the program's own.
    pub wakeup: Option<Nanos>,
    /// [`Component::Upstream`]; `None` but at a server, in requests that were joined with what the
    /// program asked for them. It is then no part of `application`.
    pub upstream: Option<Nanos>,
}

impl Components {
    /// One of them; `None` where it is not measured on its own.
    pub fn get(&self, component: Component) -> Option<Nanos> {
        match component {
            Component::Connect => self.connect,
            Component::Application => Some(self.application),
            Component::Tcp => Some(self.tcp.map_or(Nanos::ZERO, |waits| waits.sum())),
            Component::Kernel => Some(self.kernel),
            Component::Network => self.network,
            Component::PeerReceive => self.peer.map(|p| p.receive),
            Component::PeerApplication => self.peer_application,
            Component::PeerSend => self.peer.map(|p| p.send),
            Component::Transfer => Some(self.transfer),
            Component::Wakeup => self.wakeup,
            Component::Upstream => self.upstream,
        }
    }

    /// All of them together.
    pub fn sum(&self) -> Nanos {
        Component::ALL.into_iter().filter_map(|component| self.get(component)).sum()
    }
}

/// Whether it is known what a program asked others for the sake of a request that it answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Requests of its own are joined with this one: it was the only one that the program had open
    /// when it asked, or the only one in the thread that did.
    Joined,
    /// It asked something that may have been for this request or for another, or what it asked was
    /// not seen to its end.
    Withheld,
    /// It was not seen to ask anything for it.
    #[default]
    Nothing,
}

words! { Join: Joined = "joined", Withheld = "withheld", Nothing = "nothing"; }

/// What a program asked others while it worked on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    /// Whether that is known. All that follows is of requests that are joined.
    pub join: Join,
    /// How many requests of its own.
    pub requests: u32,
    /// Whom it asked; of several the one that took longest.
    pub remote: Option<SocketAddr>,
    /// Of [`Component::Upstream`], the time in the program that was asked
    /// ([`Component::PeerApplication`] of those requests); `None` where one of them is not divided,
    /// or where several were under way at the same time.
    pub program: Option<Nanos>,
    /// The same on the network: [`Component::Connect`], [`Component::Network`],
    /// [`Component::PeerReceive`] and [`Component::PeerSend`].
    pub network: Option<Nanos>,
    /// Whether the other ends of all those connections were traced too. The two times are then
    /// measured, unless a stamp of that end came later than this request was over; otherwise they
    /// are separated as [`Basis`] says.
    pub both_ends: bool,
}

/// One message of an exchange: a run of bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The sequence number of its first byte.
    pub first_seq: SeqNumber,
    /// How many bytes.
    pub bytes: u64,
    /// In how many writes it was sent, or in how many frames it came.
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
    /// Where the time went; `None` where a stage has no stamp, or where stamps are in an impossible
    /// order.
    pub components: Option<Components>,
    /// By what the network is separated from the peer.
    pub basis: Basis,
    /// Whether it overlaps another: the answer went on past the next request, or began before the
    /// request was whole. Then it is not divided, as what is called the answer is that of another
    /// request, at least in part. `None` in runs of earlier versions.
    pub overlapping: Option<bool>,
    /// What was read of it, with `--http`.
    pub http: Http,
    /// What the program asked others for it; `None` at a client, of programs that asked nothing at
    /// all, and where not all of a program's connections were traced, so that nothing is joined.
    pub upstream: Option<Upstream>,
}

impl Request {
    /// When it began: a client's first write, or the SYN of the connection that was made for it; at
    /// a server the arrival of the first byte.
    pub fn began(&self) -> Option<Instant<Monotonic>> {
        match self.role {
            Role::Client => self.moments.connecting.or(self.moments.sent),
            Role::Server => self.moments.arrived,
        }
    }

    /// When it was over: the client had read the last byte of the answer, or that byte was with the
    /// server's driver.
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
    fn component(&self, component: Component) -> Option<Nanos> {
        self.components.as_ref().and_then(|c| c.get(component))
    }

    /// Puts back a component that is there wherever components are.
    fn set(&mut self, value: Value<'_>, place: fn(&mut Components) -> &mut Nanos) -> Result<(), &'static str> {
        match &mut self.components {
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
        place: fn(&mut Components) -> &mut Option<Nanos>,
    ) -> Result<(), &'static str> {
        match &mut self.components {
            Some(components) => *place(components) = Cell::from_value(value)?,
            None if value == Value::Null => {}
            None => return Err("is there, and application_ns is null"),
        }
        Ok(())
    }

    /// What was asked for it, where it is joined.
    pub fn joined(&self) -> Option<&Upstream> {
        self.upstream.as_ref().filter(|upstream| upstream.join == Join::Joined)
    }

    /// Puts back a field of what was asked for it.
    fn set_upstream<T: Cell + Default>(
        &mut self,
        value: Value<'_>,
        place: fn(&mut Upstream) -> &mut T,
    ) -> Result<(), &'static str> {
        match &mut self.upstream {
            Some(upstream) if value != Value::Null => *place(upstream) = T::from_value(value)?,
            None if value != Value::Null => return Err("is there, and upstream_join is null"),
            _ => {}
        }
        Ok(())
    }

    /// Puts back a field of its trace.
    fn set_trace<T: Cell>(
        &mut self,
        value: Value<'_>,
        place: fn(&mut TraceContext) -> &mut T,
    ) -> Result<(), &'static str> {
        match &mut self.http.trace {
            Some(trace) => *place(trace) = T::from_value(value)?,
            None if value == Value::Null => {}
            None => return Err("is there, and trace_id is null"),
        }
        Ok(())
    }

    fn tcp(&self) -> Option<&Waits> {
        self.components.as_ref().and_then(|c| c.tcp.as_ref())
    }

    /// How long one reason held it.
    fn tcp_time(&self, reason: WaitReason) -> Option<Nanos> {
        self.tcp().map(|waits| waits.time(reason))
    }

    /// Puts back a part of the wait for TCP; null where nothing waited.
    fn set_tcp(
        &mut self,
        value: Value<'_>,
        place: impl FnOnce(&mut Option<Waits>, Value<'_>) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        match &mut self.components {
            Some(components) => place(&mut components.tcp, value),
            None if value == Value::Null => Ok(()),
            None => Err("is there, and application_ns is null"),
        }
    }

    /// Puts back the time of one reason for waiting in TCP.
    fn set_tcp_time(&mut self, value: Value<'_>, reason: WaitReason) -> Result<(), &'static str> {
        self.set_tcp(value, |waits, value| wait::set_time(waits, reason, value))
    }

    /// Puts back one half of the peer's kernel.
    fn set_peer(&mut self, value: Value<'_>, place: fn(&mut Peer) -> &mut Nanos) -> Result<(), &'static str> {
        match &mut self.components {
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
        components: None,
        basis: Basis::OwnAck,
        overlapping: None,
        http: Http::default(),
        upstream: None,
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
    connecting_at_ns = moments.connecting, null "no connection was made for it, or that was not seen",
        "the SYN of the connection that was made for it was sent";
    connected_at_ns = moments.connected, null "as `connecting_at_ns`", "that connection was established";
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
        "at a client `connecting` (or `sent`, where that is null) to `read`, at a server `arrived` to `left`; the components that are not null add up to it";
    application_ns = |r| r.component(Component::Application),
        set |r, v| { r.components = Option::<Nanos>::from_value(v)?.map(|application| Components { application, ..Components::default() }); Ok(()) },
        null "a stamp is missing or out of order", "the traced program's own work";
    connect_ns = |r| r.component(Component::Connect), set |r, v| r.set_optional(v, |c| &mut c.connect),
        null "as `application_ns`; and as `connecting_at_ns`", "setting up the connection that was made for it";
    tcp_waited_for = |r| r.tcp().map(|waits| waits.reason()), set |r, v| r.set_tcp(v, wait::set_reason),
        null "as `application_ns`; and where nothing waited", "what took the largest share of `tcp_ns`";
    tcp_ns = |r| r.tcp().map(|waits| waits.sum()), set |r, v| r.set_tcp(v, wait::set_whole),
        null "as `application_ns`; and where nothing waited", "waiting for TCP: the program for room in the send buffer, the last bytes in the write queue";
    tcp_congestion_window_ns = |r| r.tcp_time(WaitReason::CongestionWindow), set |r, v| r.set_tcp_time(v, WaitReason::CongestionWindow),
        null "as `tcp_ns`", "of `tcp_ns`, time with the congestion window full";
    tcp_receive_window_ns = |r| r.tcp_time(WaitReason::ReceiveWindow), set |r, v| r.set_tcp_time(v, WaitReason::ReceiveWindow),
        null "as `tcp_ns`", "of `tcp_ns`, time with the peer's receive window full";
    tcp_send_buffer_ns = |r| r.tcp_time(WaitReason::SendBuffer), set |r, v| r.set_tcp_time(v, WaitReason::SendBuffer),
        null "as `tcp_ns`", "of `tcp_ns`, time for room in the send buffer, with nothing that held the queue";
    tcp_pacing_ns = |r| r.tcp_time(WaitReason::Pacing), set |r, v| r.set_tcp_time(v, WaitReason::Pacing),
        null "as `tcp_ns`", "of `tcp_ns`, time for TCP's pacing";
    tcp_nagle_ns = |r| r.tcp_time(WaitReason::Nagle), set |r, v| r.set_tcp_time(v, WaitReason::Nagle),
        null "as `tcp_ns`", "of `tcp_ns`, time for Nagle's algorithm";
    tcp_cork_ns = |r| r.tcp_time(WaitReason::Cork), set |r, v| r.set_tcp_time(v, WaitReason::Cork),
        null "as `tcp_ns`", "of `tcp_ns`, time for `TCP_CORK` or `MSG_MORE`";
    tcp_autocork_ns = |r| r.tcp_time(WaitReason::Autocork), set |r, v| r.set_tcp_time(v, WaitReason::Autocork),
        null "as `tcp_ns`", "of `tcp_ns`, time for autocorking";
    tcp_small_queue_ns = |r| r.tcp_time(WaitReason::SmallQueue), set |r, v| r.set_tcp_time(v, WaitReason::SmallQueue),
        null "as `tcp_ns`", "of `tcp_ns`, time for the small-queue limit";
    tcp_retransmission_ns = |r| r.tcp_time(WaitReason::Retransmission), set |r, v| r.set_tcp_time(v, WaitReason::Retransmission),
        null "as `tcp_ns`", "of `tcp_ns`, time while losses were repaired";
    tcp_unknown_ns = |r| r.tcp_time(WaitReason::Unknown), set |r, v| r.set_tcp_time(v, WaitReason::Unknown),
        null "as `tcp_ns`", "of `tcp_ns`, time for a reason not known";
    kernel_ns = |r| r.component(Component::Kernel), set |r, v| r.set(v, |c| &mut c.kernel),
        null "a stamp is missing or out of order", "this host's kernel";
    network_ns = |r| r.component(Component::Network), set |r, v| r.set_optional(v, |c| &mut c.network),
        null "as `application_ns`; and at a server", "the network in both directions, with the peer's kernel where the peer was not traced";
    peer_receive_ns = |r| r.component(Component::PeerReceive), set |r, v| r.set_peer(v, |p| &mut p.receive),
        null "as `application_ns`; and where the peer was not traced", "the peer's kernel until the request was readable";
    peer_application_ns = |r| r.component(Component::PeerApplication), set |r, v| r.set_optional(v, |c| &mut c.peer_application),
        null "as `application_ns`; and at a server", "the peer's program";
    peer_send_ns = |r| r.component(Component::PeerSend), set |r, v| r.set_peer(v, |p| &mut p.send),
        null "as `application_ns`; and where the peer was not traced", "the peer's kernel from its program's write to the driver";
    transfer_ns = |r| r.component(Component::Transfer), set |r, v| r.set(v, |c| &mut c.transfer),
        null "a stamp is missing or out of order", "from the first to the last byte of the message that this end received";
    wakeup_ns = |r| r.component(Component::Wakeup), set |r, v| r.set_optional(v, |c| &mut c.wakeup),
        null "as `application_ns`", "from readable until the program had read";
    basis = basis, "how the network is separated from the peer's program; `server` at a server";
    overlapping = overlapping, null "the run is of an earlier version",
        "the answer went on past the next request, or began before the request was whole: pipelined or multiplexed";
    method = http.method, null "there is no `--http`, or it begins with no whole request line of HTTP/1", "method of the HTTP/1 request";
    path = http.path, null "as `method`", "path of the HTTP/1 request without its query; `%XX` stands for what is no visible character of ASCII";
    status = http.status, null "there is no `--http`, or the answer begins with no status line of HTTP/1", "status of the HTTP/1 answer";
    trace_id = |r| r.http.trace.map(|t| t.trace), set |r, v| {
            r.http.trace = Option::<TraceId>::from_value(v)?.map(|trace| TraceContext { trace, span: SpanId([0; 8]), sampled: false });
            Ok(())
        },
        null "there is no `--http`, or no valid header `traceparent` was read", "trace of the HTTP/1 request, by its header `traceparent` (W3C Trace Context)";
    span_id = |r| r.http.trace.map(|t| t.span), set |r, v| r.set_trace(v, |t| &mut t.span),
        null "as `trace_id`", "span that sent it, by the same header: at a server the parent of the server's own";
    trace_sampled = |r| r.http.trace.map(|t| t.sampled), set |r, v| r.set_trace(v, |t| &mut t.sampled),
        null "as `trace_id`", "that header says that the trace may have been recorded";
    protocol = http.protocol, null "there is no `--http`, or nothing was recognised",
        "what the request or its connection was seen to be; of `http2`, `upgraded` and `postgresql_pipeline` it is an exchange that may hold several requests, and of `tls_h2_offered` it may be one";
    upstream_join = |r| r.upstream.map(|u| u.join), set |r, v| { r.upstream = Option::<Join>::from_value(v)?.map(|join| Upstream { join, ..Upstream::default() }); Ok(()) },
        null "at a client; the program asked nothing at all; or not all of its connections were traced",
        "whether the program's own requests to others are joined with this one that it answered";
    upstream_ns = |r| r.component(Component::Upstream), set |r, v| r.set_optional(v, |c| &mut c.upstream),
        null "as `application_ns`; and where nothing is joined", "the program waited for what it asked others for this request; no part of `application_ns`";
    upstream_requests = |r| r.joined().map(|u| u.requests), set |r, v| r.set_upstream(v, |u| &mut u.requests),
        null "nothing is joined", "requests of its own that are joined";
    upstream_remote = |r| r.joined().and_then(|u| u.remote), set |r, v| r.set_upstream(v, |u| &mut u.remote),
        null "nothing is joined", "whom it asked: address and port; of several the one that took longest";
    upstream_program_ns = |r| r.joined().and_then(|u| u.program), set |r, v| r.set_upstream(v, |u| &mut u.program),
        null "nothing is joined, one of those requests is not divided, or several were under way at the same time",
        "of `upstream_ns`, the time in the program that was asked";
    upstream_network_ns = |r| r.joined().and_then(|u| u.network), set |r, v| r.set_upstream(v, |u| &mut u.network),
        null "as `upstream_program_ns`", "of `upstream_ns`, the time on the network to that program and back, setting up connections among it";
    upstream_both_ends = |r| r.joined().map(|u| u.both_ends), set |r, v| r.set_upstream(v, |u| &mut u.both_ends),
        null "nothing is joined", "the program that was asked was traced too";
}
