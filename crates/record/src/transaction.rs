//! Transactions of a capture: what a host did to reach a name, from the question for its addresses
//! to the last byte of the first answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::table::{NO_END, set_address, set_port};
use crate::{Nanos, columns, words};

/// How it is known that a connection is to a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The connection itself says it, in its TLS hello.
    #[default]
    Named,
    /// It is the only name for which the client was given this address.
    OnlyName,
    /// It is the latest of several such names.
    LatestName,
}

words! {
    Certainty: Named = "named", OnlyName = "only_name", LatestName = "latest_name";
}

impl Certainty {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Named => "named in its TLS hello",
            Self::OnlyName => "the only name with this address",
            Self::LatestName => "the latest of several names with this address",
        }
    }
}

/// A transaction. Its parts follow one another and add up to `took_ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its number, from 1 in the order of their beginnings.
    pub number: u64,
    /// The name.
    pub name: String,
    /// How it is known that the connection is to it.
    pub certainty: Certainty,
    /// Who wanted it.
    pub client: IpAddr,
    /// Who answered.
    pub server: SocketAddr,
    /// The number of the TCP connection; 0 where it is one of QUIC.
    pub connection: u64,
    /// The number of the QUIC connection.
    pub quic: Option<u64>,
    /// The lookup that the client waited for.
    pub lookup: Option<u64>,
    /// Questions of that lookup up to the one that was answered.
    pub tries: u64,
    /// Connections that the client tried for it before this one.
    pub earlier_attempts: u64,
    /// How many of them by QUIC.
    pub quic_attempts: u64,
    /// The first question, or the connection's first packet.
    pub start_ns: Nanos,
    /// From there to the last part that is known.
    pub took_ns: Nanos,
    /// The question of ARP or neighbour discovery that the lookup waited for.
    pub name_neighbour: Option<u64>,
    /// To the first question of DNS, where it waited for that.
    pub name_neighbour_ns: Option<Nanos>,
    /// To the answer with the address.
    pub name_ns: Nanos,
    /// To the first attempt to connect, or to what that waited for.
    pub pause_ns: Nanos,
    /// The question of ARP or neighbour discovery that the first attempt waited for.
    pub neighbour: Option<u64>,
    /// To the first attempt to connect, where it waited for that.
    pub neighbour_ns: Option<Nanos>,
    /// To the first packet of this connection.
    pub attempts_ns: Nanos,
    /// To the client's first data.
    pub connect_ns: Nanos,
    /// To the end of the TLS handshake, or of QUIC's.
    pub tls_ns: Nanos,
    /// To the request.
    pub request_ns: Nanos,
    /// To the first byte of the answer.
    pub wait_ns: Nanos,
    /// To its last byte.
    pub answer_ns: Nanos,
    /// Why it is not followed to the last byte of the answer.
    pub withheld: Option<String>,
}

impl Transaction {
    /// One of which nothing is known.
    pub fn blank() -> Self {
        Self {
            number: 0,
            name: String::new(),
            certainty: Certainty::default(),
            client: Ipv4Addr::UNSPECIFIED.into(),
            server: NO_END,
            connection: 0,
            quic: None,
            lookup: None,
            tries: 0,
            earlier_attempts: 0,
            quic_attempts: 0,
            start_ns: Nanos::ZERO,
            took_ns: Nanos::ZERO,
            name_neighbour: None,
            name_neighbour_ns: None,
            name_ns: Nanos::ZERO,
            pause_ns: Nanos::ZERO,
            neighbour: None,
            neighbour_ns: None,
            attempts_ns: Nanos::ZERO,
            connect_ns: Nanos::ZERO,
            tls_ns: Nanos::ZERO,
            request_ns: Nanos::ZERO,
            wait_ns: Nanos::ZERO,
            answer_ns: Nanos::ZERO,
            withheld: None,
        }
    }

    /// Its parts in order, each with what it is called.
    pub fn parts(&self) -> [(&'static str, Nanos); 10] {
        [
            ("ARP or ND before DNS", self.name_neighbour_ns.unwrap_or_default()),
            ("DNS", self.name_ns),
            ("pause before connecting", self.pause_ns),
            ("ARP or ND before connecting", self.neighbour_ns.unwrap_or_default()),
            ("other attempts", self.attempts_ns),
            ("connect", self.connect_ns),
            (if self.quic.is_some() { "QUIC" } else { "TLS" }, self.tls_ns),
            ("pause before the request", self.request_ns),
            ("wait for the answer", self.wait_ns),
            ("answer", self.answer_ns),
        ]
    }
}

columns! {
    Transaction: "name_transactions", "transaction", blank = Self::blank();
    transaction = number, "its number, from 1 in the order of their beginnings";
    name = name, "the name, in small letters";
    certainty = certainty, "how it is known that the connection is to it: its TLS hello (or that of QUIC) names it, it is the only name for which the client was given this address, or the latest of several";
    client = client, "IP address of who wanted it";
    server_address = |t| t.server.ip(), set |t, v| set_address(&mut t.server, v), "IP address of who answered";
    server_port = |t| t.server.port(), set |t, v| set_port(&mut t.server, v), "its port";
    connection = connection, "the number of the TCP connection; 0 where it is one of QUIC";
    quic_connection = quic, null "it is a TCP connection, or an earlier version wrote it", "the number of the QUIC connection";
    lookup = lookup, null "the client did not wait for one, as far as the capture shows", "the number of the lookup that it waited for";
    tries = tries, "questions of that lookup up to the one that was answered; 0 without a lookup";
    earlier_attempts = earlier_attempts, "connections that the client tried for it before this one, to the same or another address (RFC 8305), by QUIC or TCP";
    quic_attempts = quic_attempts, "how many of these were by QUIC: what the client fell back from";
    start_ns = start_ns, "the first question, or the first attempt to connect where there is none, or what that waited for (ARP, neighbour discovery), nanoseconds on the capture's clock";
    took_ns = took_ns, "from there to the last byte of the first answer, or as far as it is known";
    name_neighbour = name_neighbour, null "the lookup waited for none, or an earlier version wrote it", "the number of the question of ARP or neighbour discovery whose answer the first question of DNS waited for";
    name_neighbour_ns = name_neighbour_ns, null "as `name_neighbour`", "from that question to the first one of DNS";
    name_ns = name_ns, "from the first question of DNS to the answer with the address";
    pause_ns = pause_ns, "from there to the first attempt to connect, or to the question that this waited for";
    neighbour = neighbour, null "it waited for none, or an earlier version wrote it", "the number of the question of ARP or neighbour discovery whose answer the first attempt to connect waited for";
    neighbour_ns = neighbour_ns, null "as `neighbour`", "from that question to the first attempt to connect";
    attempts_ns = attempts_ns, "from there to the first packet of this connection";
    connect_ns = connect_ns, "from there to the client's first data";
    tls_ns = tls_ns, "from there to the end of the TLS handshake, or of QUIC's, which is both in one";
    request_ns = request_ns, "from there to the request: with TLS and QUIC its first packet, else the last one before the answer";
    wait_ns = wait_ns, "from there to the first byte of the answer; with QUIC, to the server's first protected packet";
    answer_ns = answer_ns, "from there to its last byte";
    withheld = withheld, null "it is followed to the last byte of the answer", "why it is not";
}
