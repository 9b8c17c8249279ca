//! TLS of a capture: each handshake in clear view, and what was found.

use std::net::{IpAddr, SocketAddr};

use crate::conclusion::Conclusion;
use crate::conversation::Side;
use crate::kinds::kinds;
use crate::table::{NO_END, set_address, set_port};
use crate::{Nanos, columns, words};

/// What became of a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It came to its end.
    Done,
    /// One side ended it, with an alert or without.
    Failed,
    /// The capture does not show it.
    #[default]
    NotKnown,
}

words! {
    Outcome: Done = "done", Failed = "failed", NotKnown = "not_known";
}

impl Outcome {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::NotKnown => "not known",
        }
    }
}

/// A handshake of TLS. Its parts follow one another and add up to `took_ns`, and so do the waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The number of its connection; 0 where that was not followed.
    pub connection: u64,
    /// Who sent the client's hello.
    pub client: SocketAddr,
    /// Who answered.
    pub server: SocketAddr,
    /// The server's name that the client asked for (SNI).
    pub name: Option<String>,
    /// Its connection began with it, so that the name is the server's.
    pub direct: bool,
    /// The version chosen.
    pub version: Option<String>,
    /// The versions offered.
    pub offered_versions: String,
    /// The application protocol chosen.
    pub protocol: Option<String>,
    /// The application protocols offered.
    pub offered_protocols: String,
    /// The cipher suite chosen.
    pub cipher: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
    /// The alert that ended it.
    pub alert: Option<String>,
    /// The side that ended it.
    pub ended_by: Option<Side>,
    /// The client wanted to go on with an earlier session.
    pub resumption_offered: bool,
    /// The server went on with it.
    pub resumed: Option<bool>,
    /// The client offered data before the handshake was over (0-RTT).
    pub early_data: bool,
    /// The client's hello has an encrypted one in it, or pretends to.
    pub encrypted_hello: bool,
    /// The server asked for another hello.
    pub retried: bool,
    /// The first packet.
    pub start_ns: Nanos,
    /// From there until the handshake was over.
    pub took_ns: Option<Nanos>,
    /// To the second hello of the client, where the server asked for one.
    pub retry_ns: Nanos,
    /// To the server's hello.
    pub hello_ns: Option<Nanos>,
    /// To the last byte of the server's flight.
    pub flight_ns: Option<Nanos>,
    /// To the client's answer.
    pub client_ns: Option<Nanos>,
    /// To the end.
    pub finish_ns: Option<Nanos>,
    /// What of it the server was waited for.
    pub server_wait_ns: Option<Nanos>,
    /// What of it the client was waited for.
    pub client_wait_ns: Option<Nanos>,
    /// What of it the path took.
    pub path_wait_ns: Option<Nanos>,
    /// Bytes of the client's hello.
    pub hello_bytes: u64,
    /// Bytes of the server's flight.
    pub flight_bytes: u64,
    /// The flight stopped for a round trip because it was larger than the window.
    pub flight_cut: bool,
    /// The first data of the client's application.
    pub request_ns: Option<Nanos>,
    /// The first data of the server's application after that.
    pub answer_ns: Option<Nanos>,
    /// Its packets.
    pub packets: String,
    /// Why something of it is not known.
    pub withheld: Option<String>,
}

impl Handshake {
    /// The name with the server's address; none where a proxy may stand between.
    pub fn named(&self) -> Option<(&str, [IpAddr; 1])> {
        self.name.as_deref().filter(|_| self.direct).map(|name| (name, [self.server.ip()]))
    }

    /// One of which nothing is known.
    pub fn blank() -> Self {
        Self {
            connection: 0,
            client: NO_END,
            server: NO_END,
            name: None,
            direct: false,
            version: None,
            offered_versions: String::new(),
            protocol: None,
            offered_protocols: String::new(),
            cipher: None,
            outcome: Outcome::default(),
            alert: None,
            ended_by: None,
            resumption_offered: false,
            resumed: None,
            early_data: false,
            encrypted_hello: false,
            retried: false,
            start_ns: Nanos::ZERO,
            took_ns: None,
            retry_ns: Nanos::ZERO,
            hello_ns: None,
            flight_ns: None,
            client_ns: None,
            finish_ns: None,
            server_wait_ns: None,
            client_wait_ns: None,
            path_wait_ns: None,
            hello_bytes: 0,
            flight_bytes: 0,
            flight_cut: false,
            request_ns: None,
            answer_ns: None,
            packets: String::new(),
            withheld: None,
        }
    }
}

columns! {
    Handshake: "tls_handshakes", "tls_handshake", blank = Self::blank();
    connection = connection, "the number of its connection; 0 where that was not followed";
    client_address = |h| h.client.ip(), set |h, v| set_address(&mut h.client, v), "IP address of who sent the client's hello";
    client_port = |h| h.client.port(), set |h, v| set_port(&mut h.client, v), "its port";
    server_address = |h| h.server.ip(), set |h, v| set_address(&mut h.server, v), "IP address of who answered, or was asked";
    server_port = |h| h.server.port(), set |h, v| set_port(&mut h.server, v), "its port";
    name = name, null "the client named none, or it is not in the capture", "the server's name that the client asked for (SNI), in small letters";
    direct = direct, "its connection began with it, so that the name is that of the server, and not of one behind a proxy";
    version = version, null "the server's hello is not in the capture", "the version that the server chose";
    offered_versions = offered_versions, "the versions that the client offers, separated by commas";
    protocol = protocol, null "none was chosen, or TLS 1.3 encrypts it", "the application protocol that the server chose (ALPN)";
    offered_protocols = offered_protocols, "those that the client offers, separated by blanks";
    cipher = cipher, null "as `version`", "the cipher suite that the server chose, by its number";
    outcome = outcome, "what became of it";
    alert = alert, null "there is none, or it is encrypted", "the alert that ended it";
    ended_by = ended_by, null "it came to its end, or that is not known", "the side that ended it before its end";
    resumption_offered = resumption_offered, "the client wanted to go on with an earlier session";
    resumed = resumed, null "as `version`", "the server went on with it";
    early_data = early_data, "the client offered data before the handshake was over (0-RTT)";
    encrypted_hello = encrypted_hello, "the client's hello has an encrypted one in it, or pretends to: the name may be that of a front";
    retried = retried, "the server asked for another hello (HelloRetryRequest)";
    start_ns = start_ns, "the first packet of the client's hello, or of the server's where that is not in the capture";
    took_ns = took_ns, null "its end is not in the capture", "from there until the handshake was over: the last of the two sides' `Finished`";
    retry_ns = retry_ns, "from the first packet to the client's second hello, where the server asked for one";
    hello_ns = hello_ns, null "the client's or the server's hello is not in the capture", "from there to the server's hello";
    flight_ns = flight_ns, null "as `took_ns`", "from there to the last byte of the server's flight: its certificate, mostly";
    client_ns = client_ns, null "as `took_ns`", "from there to the client's answer";
    finish_ns = finish_ns, null "as `took_ns`", "from there to the end: up to TLS 1.2, the server's last word";
    server_wait_ns = server_wait_ns, null "its end or the round trips of its connection's handshake are not in the capture", "what of all this the server was waited for";
    client_wait_ns = client_wait_ns, null "as `server_wait_ns`", "what of it the client was waited for";
    path_wait_ns = path_wait_ns, null "as `server_wait_ns`", "what of it the path took: round trips and transmission";
    hello_bytes = hello_bytes, "bytes of the client's hello";
    flight_bytes = flight_bytes, "bytes of the server's flight";
    flight_cut = flight_cut, "the flight stopped for a round trip because it was larger than the server's first window";
    request_ns = request_ns, null "there is none", "the first data of the client's application, on the capture's clock";
    answer_ns = answer_ns, null "there is none", "the first data of the server's application after that";
    packets = packets, "numbers of its packets, separated by blanks: both hellos, the end of the flight, the client's answer, the end";
    withheld = withheld, null "nothing is", "why something of it is not known";
}

kinds! {
    /// What kind of finding on TLS it is. Each has the file of its name in
    /// `diagnose/src/tls/findings/`.
    TlsFindingKind:
    Failed = "tls_failed", "a TLS handshake that failed",
        "one side ended the handshake, with an alert or by closing the connection";
    Protocol = "tls_protocol", "a server that takes none of the client's application protocols",
        "the server ended the handshake with the alert `no_application_protocol` (RFC 7301, section 3.2)";
    Server = "tls_server", "a server that takes long for its TLS handshake",
        "the server was waited for 50 ms or more, and as long as the path or longer";
    Client = "tls_client", "a client that takes long for its TLS handshake",
        "the client was waited for 50 ms or more, and as long as the path or longer";
    Retry = "tls_retry", "a round trip more because of a HelloRetryRequest",
        "the server asked for another hello, with a key of a group that it takes";
    Flight = "tls_flight", "a certificate too large for the first window",
        "the server's flight stopped for a round trip after as many segments as a first window lets go (two to four, or ten and more), with at least one more to come, and nothing was lost";
    Version = "tls_version", "a round trip more because of an old version",
        "the server chose TLS 1.2 or older, while the client offered TLS 1.3, and a round trip is 5 ms or more";
    NotResumed = "tls_not_resumed", "a session that the server did not go on with",
        "the client offered to go on with an earlier session of TLS 1.2 or older, which saves a round trip, and the server began a new one; a round trip is 5 ms or more";
}

/// A conclusion on TLS.
pub type TlsFinding = Conclusion<TlsFindingKind>;

columns! {
    TlsFinding: "tls_findings", "tls_finding", blank = Self::new(TlsFindingKind::Failed);
    finding = kind, "its kind, which [analyze.md](analyze.md#tls) describes";
    connection = shown_by, "the connection that shows it most clearly";
    at_ns = at_ns, "when it first showed, nanoseconds on the capture's clock";
    count = count, "handshakes concerned";
    cost_ns = cost_ns, "what the clients waited for it; what two handshakes of a client waited at the same time counts once";
    text = text, "what was found, for people";
    next_step = next, "what to do, for people";
    packets = packets, "numbers of the packets that show it, at most 24, separated by blanks";
}
