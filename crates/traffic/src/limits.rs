//! What a server lets a client ask for, and the words it refuses the rest with.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

/// The bounds of a server. Every one can be set; the defaults let a long measurement through and no
/// more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Connections open at once, of every kind; a thread each.
    pub connections: u32,
    /// Tests under way at once.
    pub sessions: u32,
    /// Threads that carry flows and answer transactions, of all tests together. Each connection has
    /// one more.
    pub threads: u32,
    /// Connections of one address (IPv6: of one /64) that have no test under way; the one that has
    /// waited longest is closed for the next.
    pub waiting_per_address: u32,
    /// Flows of one `stream`, per direction; connections of one `rr` are bounded by `connections`.
    pub flows: u32,
    /// Length of one test in seconds, its warm-up included.
    pub duration_s: u64,
    /// Bytes that one test may ask for.
    pub bytes: u64,
    /// Size of one write, request, response or datagram in bytes.
    pub message_bytes: u32,
    /// Socket buffer that a client may ask for, in bytes.
    pub socket_buffer_bytes: u32,
    /// Memory for message buffers of all tests together, in bytes.
    pub memory_bytes: u64,
    /// How long a new connection may take to say what it wants, in milliseconds.
    pub handshake_ms: u64,
    /// How long a connection may be silent in the middle of a test, in milliseconds.
    pub idle_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            sessions: 64,
            threads: 512,
            waiting_per_address: 128,
            flows: 128,
            duration_s: 3600,
            bytes: 1 << 44,
            message_bytes: 4 << 20,
            socket_buffer_bytes: 64 << 20,
            memory_bytes: 256 << 20,
            handshake_ms: 5_000,
            idle_ms: 60_000,
        }
    }
}

/// What was over its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bounded {
    /// Tests under way at once.
    Sessions,
    /// Threads of all tests together.
    Threads,
    /// Parallel flows.
    Flows,
    /// Seconds of one test.
    Duration,
    /// Bytes of one test.
    Bytes,
    /// Bytes of one message.
    Message,
    /// Bytes of a socket buffer.
    SocketBuffer,
    /// Bytes of buffer memory.
    Memory,
}

impl Bounded {
    /// The field of [`Limits`] that holds it, which is also the flag of `serve` that raises it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Sessions => "--max-sessions",
            Self::Threads => "--max-threads",
            Self::Flows => "--max-flows",
            Self::Duration => "--max-duration",
            Self::Bytes => "--max-bytes",
            Self::Message => "--max-message",
            Self::SocketBuffer => "--max-socket-buffer",
            Self::Memory => "--max-memory",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Sessions => "tests at the same time",
            Self::Threads => "threads of all tests together",
            Self::Flows => "flows",
            Self::Duration => "seconds",
            Self::Bytes => "bytes in one test",
            Self::Message => "bytes in one message",
            Self::SocketBuffer => "bytes of socket buffer",
            Self::Memory => "bytes of buffer memory",
        }
    }
}

/// Why a server will not do what a client asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// More than a bound allows.
    OverLimit {
        /// What of.
        what: Bounded,
        /// What the client asked for.
        asked: u64,
        /// What the server allows.
        limit: u64,
    },
    /// The server wants a token, and it was absent or another one.
    Token,
    /// The server wants a login of iperf3, and it was absent, not one of its users, or too old.
    Login,
    /// The server takes tests only within TLS.
    Tls,
    /// The request makes no sense, or its kind is unknown to this version of the server.
    Request {
        /// In which way.
        why: String,
    },
    /// The server's kernel would not do it.
    Kernel {
        /// What it was, and its answer.
        why: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverLimit { what, asked, limit } => {
                write!(f, "{asked} {} asked, {limit} allowed (`serve {}` sets that)", what.words(), what.flag())
            }
            Self::Token => f.write_str("it wants its token: give the one it was started with (--token)"),
            Self::Login => f.write_str(
                "it wants a login of one of its users: --username, --rsa-public-key-path, the password in IPERF3_PASSWORD, and a clock like its \
                 own",
            ),
            Self::Tls => f.write_str("it takes tests only within TLS: give its certificate (--tls-ca)"),
            Self::Request { why } => write!(f, "{why}"),
            Self::Kernel { why } => write!(f, "its kernel does not allow it: {why}"),
        }
    }
}

impl Limits {
    /// `Ok` where `asked` is within `limit`.
    ///
    /// # Errors
    /// [`Refusal::OverLimit`] otherwise.
    pub fn check(what: Bounded, asked: u64, limit: u64) -> Result<(), Refusal> {
        if asked <= limit { Ok(()) } else { Err(Refusal::OverLimit { what, asked, limit }) }
    }
}

/// How long a wrong token waits for its refusal: guessing is slow, and holds one of the address's
/// places meanwhile.
pub(crate) const WRONG_TOKEN: std::time::Duration = std::time::Duration::from_millis(500);

/// Compares two tokens in a time that shows at most whether they are of one length.
pub(crate) fn token_matches(wanted: Option<&str>, given: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return true };
    let Some(given) = given else { return false };
    wanted.as_bytes().ct_eq(given.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_match_only_when_equal() {
        assert!(token_matches(None, None));
        assert!(token_matches(None, Some("x")));
        assert!(token_matches(Some("abc"), Some("abc")));
        for wrong in [None, Some(""), Some("ab"), Some("abcd"), Some("abd")] {
            assert!(!token_matches(Some("abc"), wrong), "{wrong:?}");
        }
        assert!(!token_matches(Some(""), None));
    }

    #[test]
    fn a_refusal_names_the_flag_that_raises_the_limit() {
        let refusal = Limits::check(Bounded::Flows, 10_000, 128).unwrap_err();
        assert_eq!(refusal.to_string(), "10000 flows asked, 128 allowed (`serve --max-flows` sets that)");
        let json = serde_json::to_string(&refusal).unwrap();
        assert_eq!(json, r#"{"over_limit":{"what":"flows","asked":10000,"limit":128}}"#);
    }
}
