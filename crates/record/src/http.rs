//! What packets say at their beginning (`trace --http`): the first line of a message of HTTP/1, or
//! which protocol a connection carries.

use std::fmt;

use crate::{ConnectionId, Direction, SeqNumber, TraceContext, words};

/// A method of HTTP (RFC 9110, section 9; RFC 5789).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
}

words! {
    Method: Get = "GET", Head = "HEAD", Post = "POST", Put = "PUT", Delete = "DELETE", Connect = "CONNECT", Options = "OPTIONS",
    Trace = "TRACE", Patch = "PATCH";
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a request was seen to be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// It begins with the request line of HTTP/1.
    Http1,
    /// It begins with a request line that is not whole in its packet, or is too long.
    Http1Cut,
    /// The preface of HTTP/2 was seen on its connection.
    Http2,
    /// An earlier answer on its connection was `101 Switching Protocols`.
    Upgraded,
    /// A ClientHello of TLS was seen on its connection.
    Tls,
    /// The same, and it offered HTTP/2. Which protocol was chosen is encrypted.
    TlsH2Offered,
    /// It begins with messages of PostgreSQL that execute one statement.
    Postgresql,
    /// The same with several statements, none of which waits for the answer to the one before.
    PostgresqlPipeline,
}

words! {
    Protocol: Http1 = "http1", Http1Cut = "http1_cut", Http2 = "http2", Upgraded = "upgraded", Tls = "tls", TlsH2Offered = "tls_h2_offered",
    Postgresql = "postgresql", PostgresqlPipeline = "postgresql_pipeline";
}

/// What was read of a request and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http {
    /// The method; `None` where the request line was not read whole.
    pub method: Option<Method>,
    /// The path without its query, with `%XX` for what is no visible character of ASCII; of
    /// CONNECT, the host and port. Together with the method.
    pub path: Option<String>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// The trace that its header `traceparent` names.
    pub trace: Option<TraceContext>,
    /// What the request was seen to be of; `None` where nothing was recognised, or nothing looked
    /// for.
    pub protocol: Option<Protocol>,
}

impl Http {
    /// Method and path.
    pub fn label(&self) -> Option<Label> {
        Some(Label { method: self.method?, path: self.path.clone()? })
    }
}

/// Method and path of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// The method.
    pub method: Method,
    /// The path, as [`Http::path`].
    pub path: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// What the beginning of a packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// A request of HTTP/1.
    Request(Label),
    /// The same, without the end of its first line.
    Cut,
    /// The header `traceparent` of a request of HTTP/1, which begins with the same byte.
    Trace(TraceContext),
    /// An answer of HTTP/1, with this status.
    Answer(u16),
    /// The preface of HTTP/2.
    Http2,
    /// A ClientHello of TLS.
    Tls {
        /// Whether it offers HTTP/2, where it was read so far.
        h2: Option<bool>,
        /// The name of the server that it asks for (SNI), in small letters.
        server: Option<String>,
    },
    /// Messages of PostgreSQL that execute so many statements, at least.
    Statements(u32),
}

/// The beginning of a packet that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its connection.
    pub connection: ConnectionId,
    /// Which way it went.
    pub direction: Direction,
    /// The sequence number of its first byte.
    pub first_seq: SeqNumber,
    /// What it says.
    pub says: Says,
}
