//! QUIC of a capture: each connection whose beginning is in clear view, and what was found.

use std::net::{IpAddr, SocketAddr};

use crate::conclusion::Conclusion;
use crate::conversation::Side;
use crate::kinds::kinds;
use crate::table::{NO_END, set_address, set_port};
use crate::{Nanos, columns, words};

/// What became of a connection's handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It came to its end.
    Done,
    /// One side closed the connection in the middle of it.
    Failed,
    /// The server did not answer at all.
    Unanswered,
    /// The server's host, or a router, said that nobody listens there or that it may not be
    /// reached.
    Unreachable,
    /// The capture does not show it.
    #[default]
    NotKnown,
}

words! {
    Outcome: Done = "done", Failed = "failed", Unanswered = "unanswered", Unreachable = "unreachable", NotKnown = "not_known";
}

impl Outcome {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unanswered => "no answer",
            Self::Unreachable => "unreachable",
            Self::NotKnown => "not known",
        }
    }
}

/// Whether the spin bit shows round trips (RFC 9000, section 17.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spin {
    /// It turns once in a round trip.
    Spins,
    /// It stands still.
    Still,
    /// It changes, but not as it would once in a round trip.
    Random,
    /// There are too few packets, or those of one side only.
    #[default]
    NotKnown,
}

words! {
    Spin: Spins = "spins", Still = "still", Random = "random", NotKnown = "not_known";
}

/// A connection of QUIC. The parts of its handshake follow one another and add up to `took_ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicConnection {
    /// Its number, from 1 in the order of first packets.
    pub number: u64,
    /// Who sent the first packet.
    pub client: SocketAddr,
    /// Who answered, or was asked.
    pub server: SocketAddr,
    /// The server's name that the client asked for (SNI).
    pub name: Option<String>,
    /// The version of its handshake.
    pub version: String,
    /// The version that the client began with.
    pub first_version: String,
    /// The application protocols that the client offers.
    pub offered_protocols: String,
    /// The cipher suite that the server chose.
    pub cipher: Option<u64>,
    /// What became of the handshake.
    pub outcome: Outcome,
    /// The error that it was closed with.
    pub error: Option<String>,
    /// The side that closed it.
    pub closed_by: Option<Side>,
    /// The versions that the server named instead.
    pub server_versions: String,
    /// The server had the client show its address first.
    pub retried: bool,
    /// The connection ID that the client chose for its first packets.
    pub original_id: String,
    /// The client's own.
    pub client_id: String,
    /// The server's own.
    pub server_id: Option<String>,
    /// The first packet.
    pub start_ns: Nanos,
    /// From there to the last packet.
    pub duration_ns: Nanos,
    /// From there until the handshake was over.
    pub took_ns: Option<Nanos>,
    /// To the first packet of another version, where the server named others.
    pub negotiation_ns: Nanos,
    /// To the packet with the token, where the server wanted one.
    pub retry_ns: Nanos,
    /// To the server's hello.
    pub hello_ns: Option<Nanos>,
    /// To the last packet of the server's flight.
    pub flight_ns: Option<Nanos>,
    /// To the client's last word.
    pub client_ns: Option<Nanos>,
    /// What of it the server was waited for.
    pub server_wait_ns: Option<Nanos>,
    /// From the capture to the server and back.
    pub to_server_ns: Option<Nanos>,
    /// From the capture to the client and back.
    pub to_client_ns: Option<Nanos>,
    /// Bytes of the client's TLS hello.
    pub hello_bytes: u64,
    /// Datagrams that it took.
    pub hello_datagrams: u64,
    /// Bytes of the server's datagrams until its flight was over.
    pub flight_bytes: u64,
    /// What of `flight_ns` the server was held by the anti-amplification limit.
    pub limited_ns: Nanos,
    /// Times that the client sent its hello again before there was an answer.
    pub probes: u64,
    /// From its first packet to the last of these.
    pub probes_ns: Nanos,
    /// Packets of the client before it had an answer (0-RTT).
    pub early_packets: u64,
    /// The server took them.
    pub early_accepted: Option<bool>,
    /// The client's first protected packet after the handshake.
    pub request_ns: Option<Nanos>,
    /// The server's first after that.
    pub answer_ns: Option<Nanos>,
    /// Datagrams of the client.
    pub client_datagrams: u64,
    /// Datagrams of the server.
    pub server_datagrams: u64,
    /// Their bytes.
    pub client_bytes: u64,
    /// Their bytes.
    pub server_bytes: u64,
    /// The client's largest datagram until the handshake was over.
    pub client_first_size: u64,
    /// The client's largest datagram.
    pub client_size: u64,
    /// How many of its datagrams were of that size.
    pub client_size_datagrams: u64,
    /// The server's largest datagram until the handshake was over.
    pub server_first_size: u64,
    /// The server's largest datagram.
    pub server_size: u64,
    /// How many of its datagrams were of that size.
    pub server_size_datagrams: u64,
    /// Datagrams of the client with a mark of ECN that says it can.
    pub client_ect: u64,
    /// Datagrams of the client that met congestion.
    pub client_ce: u64,
    /// Datagrams of the server with a mark of ECN that says it can.
    pub server_ect: u64,
    /// Datagrams of the server that met congestion.
    pub server_ce: u64,
    /// Whether the spin bit shows round trips.
    pub spin: Spin,
    /// Round trips that it showed.
    pub spin_samples: u64,
    /// The shortest.
    pub spin_min_ns: Option<Nanos>,
    /// The median.
    pub spin_median_ns: Option<Nanos>,
    /// Times that the client's address changed.
    pub moves: u64,
    /// The addresses that it had afterwards.
    pub moved_to: String,
    /// The longest time without a packet.
    pub longest_pause_ns: Nanos,
    /// What the client gives a silent connection.
    pub idle_timeout_ns: Option<Nanos>,
    /// Its packets.
    pub packets: String,
    /// Why something of it is not known.
    pub withheld: Option<String>,
}

impl QuicConnection {
    /// The name with the server's address.
    pub fn named(&self) -> Option<(&str, [IpAddr; 1])> {
        self.name.as_deref().map(|name| (name, [self.server.ip()]))
    }

    /// One of which nothing is known.
    pub fn blank() -> Self {
        Self {
            number: 0,
            client: NO_END,
            server: NO_END,
            name: None,
            version: String::new(),
            first_version: String::new(),
            offered_protocols: String::new(),
            cipher: None,
            outcome: Outcome::default(),
            error: None,
            closed_by: None,
            server_versions: String::new(),
            retried: false,
            original_id: String::new(),
            client_id: String::new(),
            server_id: None,
            start_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            took_ns: None,
            negotiation_ns: Nanos::ZERO,
            retry_ns: Nanos::ZERO,
            hello_ns: None,
            flight_ns: None,
            client_ns: None,
            server_wait_ns: None,
            to_server_ns: None,
            to_client_ns: None,
            hello_bytes: 0,
            hello_datagrams: 0,
            flight_bytes: 0,
            limited_ns: Nanos::ZERO,
            probes: 0,
            probes_ns: Nanos::ZERO,
            early_packets: 0,
            early_accepted: None,
            request_ns: None,
            answer_ns: None,
            client_datagrams: 0,
            server_datagrams: 0,
            client_bytes: 0,
            server_bytes: 0,
            client_first_size: 0,
            client_size: 0,
            client_size_datagrams: 0,
            server_first_size: 0,
            server_size: 0,
            server_size_datagrams: 0,
            client_ect: 0,
            client_ce: 0,
            server_ect: 0,
            server_ce: 0,
            spin: Spin::default(),
            spin_samples: 0,
            spin_min_ns: None,
            spin_median_ns: None,
            moves: 0,
            moved_to: String::new(),
            longest_pause_ns: Nanos::ZERO,
            idle_timeout_ns: None,
            packets: String::new(),
            withheld: None,
        }
    }
}

columns! {
    QuicConnection: "quic_connections", "quic_connection", blank = Self::blank();
    number = number, "its number, from 1 in the order of first packets";
    client_address = |c| c.client.ip(), set |c, v| set_address(&mut c.client, v), "IP address of who sent the first packet";
    client_port = |c| c.client.port(), set |c, v| set_port(&mut c.client, v), "its port";
    server_address = |c| c.server.ip(), set |c, v| set_address(&mut c.server, v), "IP address of who answered, or was asked";
    server_port = |c| c.server.port(), set |c, v| set_port(&mut c.server, v), "its port";
    name = name, null "the client named none, or its hello could not be read", "the server's name that the client asked for (SNI), in small letters";
    version = version, "the version of its handshake";
    first_version = first_version, "the version of the client's first packet";
    offered_protocols = offered_protocols, "the application protocols that the client offers (ALPN), separated by blanks; which one was chosen is encrypted";
    cipher = cipher, null "the server's hello is not in the capture, or could not be read", "the cipher suite that the server chose, by its number";
    outcome = outcome, "what became of the handshake";
    error = error, null "it was not closed, or that is encrypted", "the error with which it was closed in an Initial packet";
    closed_by = closed_by, null "as `error`", "the side that closed it";
    server_versions = server_versions, "the versions that the server named instead of the client's (version negotiation), separated by commas";
    retried = retried, "the server had the client show first that its address is its own (Retry)";
    original_id = original_id, "the connection ID that the client chose for its first packet, in hexadecimal digits";
    client_id = client_id, "the client's own connection ID; it may have none";
    server_id = server_id, null "the server did not answer", "the server's own connection ID during the handshake";
    start_ns = start_ns, "the first packet, nanoseconds on the capture's clock";
    duration_ns = duration_ns, "from there to the last packet";
    took_ns = took_ns, null "its end is not in the capture", "from there until the handshake was over: the client's last packet of it before its first protected one";
    negotiation_ns = negotiation_ns, "from the first packet to the first one of another version, where the server named others";
    retry_ns = retry_ns, "from there to the client's packet with the token, where the server sent a Retry";
    hello_ns = hello_ns, null "the server's hello is not in the capture", "from there to the server's hello";
    flight_ns = flight_ns, null "as `took_ns`", "from there to the last packet of the server's flight: its certificate, mostly";
    client_ns = client_ns, null "as `took_ns`", "from there to the client's last word";
    server_wait_ns = server_wait_ns, null "nothing shows a round trip to the server apart from its hello", "what of `hello_ns` the server was waited for, at least";
    to_server_ns = to_server_ns, null "no packet shows it", "the shortest round trip between capture and server: by a Retry, a version negotiation, an ACK of an Initial packet, or the spin bit";
    to_client_ns = to_client_ns, null "no packet shows it", "the shortest round trip between capture and client: by an ACK of an Initial packet, or the spin bit";
    hello_bytes = hello_bytes, "bytes of the client's TLS hello";
    hello_datagrams = hello_datagrams, "datagrams that it came in";
    flight_bytes = flight_bytes, "bytes of the server's datagrams up to the end of its flight";
    limited_ns = limited_ns, "how long the server was held because it may send three times what it had received, at most, before the client's address is confirmed (RFC 9000, section 8.1)";
    probes = probes, "times that the client sent its hello again before there was an answer (probe time-outs)";
    probes_ns = probes_ns, "from the client's first packet to the last of these";
    early_packets = early_packets, "packets of the client before it had an answer (0-RTT)";
    early_accepted = early_accepted, null "there are none, or the answer is encrypted", "false where the server's hello shows that it refused them: it did not go on with the earlier session";
    request_ns = request_ns, null "there is none", "the client's first protected packet after the handshake, on the capture's clock";
    answer_ns = answer_ns, null "there is none", "the server's first protected packet after that; it may carry what the transport says and no answer";
    client_datagrams = client_datagrams, "datagrams of the client";
    server_datagrams = server_datagrams, "datagrams of the server";
    client_bytes = client_bytes, "payload bytes of the client's datagrams";
    server_bytes = server_bytes, "payload bytes of the server's datagrams";
    client_first_size = client_first_size, "payload bytes of the client's largest datagram until the handshake was over";
    client_size = client_size, "payload bytes of the client's largest datagram: above `client_first_size` where it tried the path for larger ones (DPLPMTUD, RFC 8899)";
    client_size_datagrams = client_size_datagrams, "how many of its datagrams had that size";
    server_first_size = server_first_size, "payload bytes of the server's largest datagram until the handshake was over";
    server_size = server_size, "payload bytes of the server's largest datagram";
    server_size_datagrams = server_size_datagrams, "how many of its datagrams had that size";
    client_ect = client_ect, "datagrams of the client marked as capable of ECN";
    client_ce = client_ce, "datagrams of the client marked as having met congestion, where the capture is";
    server_ect = server_ect, "datagrams of the server marked as capable of ECN";
    server_ce = server_ce, "datagrams of the server marked as having met congestion, where the capture is";
    spin = spin, "whether the spin bit shows round trips";
    spin_samples = spin_samples, "round trips that it showed";
    spin_min_ns = spin_min_ns, null "it does not spin", "the shortest of them: a pause of the applications makes one longer";
    spin_median_ns = spin_median_ns, null "it does not spin", "their median";
    moves = moves, "times that the client's address changed under the server's connection ID";
    moved_to = moved_to, "the addresses that it had afterwards, 16 at most, separated by blanks";
    longest_pause_ns = longest_pause_ns, "the longest time without a packet of either side";
    idle_timeout_ns = idle_timeout_ns, null "it names none, or its hello could not be read", "after so long without a packet the client gives the connection up, by its hello";
    packets = packets, "numbers of its packets, separated by blanks: the first, those of a version negotiation or a Retry, the server's hello, the end of its flight, the client's last word, what closed it";
    withheld = withheld, null "nothing is", "why something of it is not known";
}

kinds! {
    /// What kind of finding on QUIC it is. Each has the file of its name in
    /// `diagnose/src/quic/findings/`.
    QuicFindingKind:
    Unanswered = "quic_unanswered", "QUIC that was not answered",
        "the client sent its hello again for a second or more, and nothing came back; or for less, and nothing came back for a second or more after the last time, or until it went on with TCP, in a capture that holds other packets to this client; a TCP connection of the same client to the same server that followed is what it fell back to";
    Unreachable = "quic_unreachable", "QUIC that was refused by ICMP",
        "ICMP said that nobody listens at the server, or that it may not be reached";
    Failed = "quic_failed", "a QUIC handshake that failed",
        "one side closed the connection with an error, in an Initial packet";
    Protocol = "quic_protocol", "a server that takes none of the client's application protocols over QUIC",
        "the server closed the connection with the alert `no_application_protocol` (RFC 7301, section 3.2; RFC 9001, section 8.1), in an Initial packet";
    Probes = "quic_probes", "a lost beginning of QUIC",
        "the client sent its hello again before the server answered (probe time-outs), and the server's first answer does not acknowledge the first one, or is not its first one";
    Version = "quic_version", "a round trip more because of the version",
        "the server did not speak the client's version and named others, and the client began again";
    Retry = "quic_retry", "a round trip more because of a Retry",
        "the server sent a Retry, and the client came back with its token";
    Limit = "quic_limit", "a server held by the anti-amplification limit",
        "the server had sent three times what it had received, and went on with its flight only when another packet of the client came";
    Server = "quic_server", "a server that takes long for its QUIC hello",
        "the server was waited for 50 ms or more beyond a round trip, and as long as that or longer";
    Pause = "quic_pause", "a server that takes long for its first answer over QUIC",
        "after the handshake, and before the server had sent 8 KiB, nothing passed for 100 ms or more, and for six round trips or more, until the server went on with a datagram of 100 bytes or more";
    Hello = "quic_hello", "a hello in several datagrams, one of which came late",
        "the client's hello needs more than one datagram, and the last new piece came 5 ms or more after the first";
    Moved = "quic_moved", "a client whose address changed",
        "packets for the server's connection ID came from another address or port";
}

/// A conclusion on QUIC.
pub type QuicFinding = Conclusion<QuicFindingKind>;

columns! {
    QuicFinding: "quic_findings", "quic_finding", blank = Self::new(QuicFindingKind::Unanswered);
    finding = kind, "its kind, which [analyze.md](analyze.md#quic) describes";
    connection = shown_by, "the QUIC connection that shows it most clearly, by its number";
    at_ns = at_ns, "when it first showed, nanoseconds on the capture's clock";
    count = count, "connections concerned";
    cost_ns = cost_ns, "what the clients waited for it; what two connections of a client waited at the same time counts once";
    text = text, "what was found, for people";
    next_step = next, "what to do, for people";
    packets = packets, "numbers of the packets that show it, at most 24, separated by blanks";
}
