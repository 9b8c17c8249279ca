//! Why something that the agent sends on or writes did not arrive.

use std::borrow::Cow;
use std::io;

/// A failure: its type, of which there are few, and all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// As OpenTelemetry's `error.type`: a word, or the status of an answer.
    pub kind: Cow<'static, str>,
    /// For people.
    pub why: String,
}

impl Failure {
    /// Of this type.
    pub fn new(kind: &'static str, why: impl Into<String>) -> Self {
        Self { kind: kind.into(), why: why.into() }
    }

    /// The kernel's.
    pub fn io(error: &io::Error, why: impl ToString) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "storage_full",
            io::ErrorKind::PermissionDenied => "permission_denied",
            io::ErrorKind::ReadOnlyFilesystem => "read_only",
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "not_found",
            io::ErrorKind::ConnectionRefused => "connection_refused",
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                "connection_reset"
            }
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "unreachable",
            io::ErrorKind::TimedOut => "timeout",
            _ => "io",
        };
        Self::new(kind, why.to_string())
    }

    /// Of the writing of runs.
    pub fn store(error: &store::Error) -> Self {
        match error {
            store::Error::Create { why, .. } | store::Error::Write { why, .. } | store::Error::Keep { why, .. } => {
                Self::io(why, error)
            }
            other => Self::new("run", other.to_string()),
        }
    }

    /// Of a request without an answer.
    pub fn request(error: &ureq::Error) -> Self {
        match error {
            ureq::Error::Io(why) => Self::io(why, error),
            ureq::Error::Timeout(_) => Self::new("timeout", error.to_string()),
            ureq::Error::HostNotFound => Self::new("host_not_found", error.to_string()),
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => Self::new("tls", error.to_string()),
            other => Self::new("request", other.to_string()),
        }
    }

    /// Of an answer with a status that is none of success, and the beginning of what it says.
    pub fn status(status: u16, body: &str) -> Self {
        // Stores answer in XML; its message is what people need.
        let within =
            |tag: &str| body.split_once(&format!("<{tag}>"))?.1.split_once(&format!("</{tag}>")).map(|of| of.0);
        let said = match (within("Code"), within("Message")) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(one), None) | (None, Some(one)) => one.to_owned(),
            (None, None) => body.lines().next().unwrap_or_default().trim().to_owned(),
        };
        // A collector may answer in protocol buffers.
        let said: String =
            said.chars().filter(|c| !c.is_control() && *c != char::REPLACEMENT_CHARACTER).take(200).collect();
        let colon = if said.is_empty() { "" } else { ": " };
        Self { kind: status.to_string().into(), why: format!("the answer is {status}{colon}{said}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_its_type_and_what_was_said_of_it() {
        let full = store::Error::Keep { path: "/a".into(), why: io::ErrorKind::StorageFull.into() };
        let full = Failure::store(&full);
        assert!(full.kind == "storage_full" && full.why.contains("free some space"), "{full:?}");
        let xml = "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>Not you</Message></Error>";
        let denied = Failure::status(403, xml);
        assert_eq!((&*denied.kind, denied.why.as_str()), ("403", "the answer is 403: AccessDenied: Not you"));
        assert_eq!(Failure::status(502, "").why, "the answer is 502");
        assert_eq!(Failure::status(400, "\u{8}\u{1}bad\nmore").why, "the answer is 400: bad");
        let refused = ureq::Error::Io(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(Failure::request(&refused).kind, "connection_refused");
        assert_eq!(Failure::request(&ureq::Error::HostNotFound).kind, "host_not_found");
    }
}
