//! What can go wrong, in words that say what, where and what to do.

use std::io;
use std::net::SocketAddr;

use crate::limits::Refusal;

/// Bytes of a peer that are not what the protocol allows at that place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the message does.
    #[error("{what} is cut short: {have} of {need} bytes")]
    Truncated {
        /// Which message.
        what: &'static str,
        /// How many bytes it should have.
        need: usize,
        /// How many there are.
        have: usize,
    },
    /// The bytes are all there and break the format.
    #[error("{what} is malformed: {why}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// In which way.
        why: String,
    },
    /// Well formed, and nothing that this side can do.
    #[error("{what} asks for something unsupported: {found}")]
    Unsupported {
        /// Which message.
        what: &'static str,
        /// What was found.
        found: String,
    },
    /// TLS did not come about.
    #[error("the TLS handshake failed: {why}")]
    Handshake {
        /// At which side and why.
        why: String,
    },
    /// A length field that announces more than this side is willing to hold.
    #[error("{what} announces {length} bytes, more than the {limit} allowed")]
    TooLong {
        /// Which message.
        what: &'static str,
        /// The announced length in bytes.
        length: usize,
        /// The bound in bytes.
        limit: usize,
    },
}

/// Why a workload, or a server of workloads, could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration contradicts itself or is out of range.
    #[error("{0}")]
    Config(String),
    /// The server cannot be reached.
    #[error("cannot connect to {peer}: {source}; is `wirelapse serve` or `iperf3 -s` running there, on that port?")]
    Connect {
        /// The address tried.
        peer: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The server can be reached at none of its addresses.
    #[error(
        "cannot connect to any address of the server: {}; is `wirelapse serve` or `iperf3 -s` running there, on that port?",
        each(tried)
    )]
    Unreachable {
        /// The addresses tried, each with the kernel's answer.
        tried: Vec<(SocketAddr, io::Error)>,
    },
    /// The TLS handshake failed, or the certificate file is of no use.
    #[error("TLS with {peer}: {why}")]
    Tls {
        /// The server.
        peer: SocketAddr,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A server of responsiveness does not do what its draft asks of it.
    #[error("{url}: {why}")]
    Http {
        /// What was asked for.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// The server's own address cannot be used.
    #[error("cannot listen on {address}: {source}; {}", listen_advice(source))]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel would not set a socket option.
    #[error("cannot set {option} to {value}: {source}{}", option_advice(option, source))]
    SocketOption {
        /// Its name.
        option: &'static str,
        /// The value asked for.
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The server will not do this; it says why.
    #[error("the server at {peer} refuses: {refusal}")]
    Refused {
        /// The server.
        peer: SocketAddr,
        /// Its reason.
        refusal: Refusal,
    },
    /// An iperf3 server is occupied by another client, or a server of ours is full.
    #[error("the server at {peer} is busy with another client; try again when it is done")]
    Busy {
        /// The server.
        peer: SocketAddr,
    },
    /// An iperf3 server ended the test with an error.
    #[error("the iperf3 server at {peer} reports error {code} of its list (errno {errno}){}", iperf3_words(*code))]
    Iperf3 {
        /// The server.
        peer: SocketAddr,
        /// iperf3's number for it.
        code: u32,
        /// The errno it sent along.
        errno: u32,
    },
    /// The server ended, or what leads to it, while the workload ran.
    #[error("the server at {peer} went away in the middle of the test")]
    Ended {
        /// The server.
        peer: SocketAddr,
    },
    /// The caller broke it off before there was anything to report.
    #[error("stopped before the test had begun")]
    Stopped,
    /// The peer closed the connection, or was silent for too long.
    #[error("{peer} went away while {during}")]
    Gone {
        /// The peer.
        peer: SocketAddr,
        /// What was being done.
        during: &'static str,
    },
    /// The peer sent something that the protocol does not allow.
    #[error("{peer}: {source}")]
    Wire {
        /// The peer.
        peer: SocketAddr,
        /// What was wrong.
        source: WireError,
    },
    /// A file of results cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What was wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// Whether the caller asked for something impossible (exit status 2), as opposed to a failure
    /// while running (1).
    pub fn is_wrong_use(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::Listen { .. }
                | Self::SocketOption { .. }
                | Self::Refused { .. }
                | Self::File { .. }
                | Self::Iperf3 { code: IPERF3_WANTS_LOGIN, .. }
        )
    }

    /// What went wrong in a handshake, from the error of the write that carried it out.
    pub(crate) fn tls(peer: SocketAddr, error: &io::Error) -> Self {
        use rustls::{CertificateError, Error as Tls};
        let advice = match error.get_ref().and_then(|e| e.downcast_ref()) {
            Some(Tls::InvalidCertificate(CertificateError::Other(_))) => {
                "; a certificate that may sign others (CA:TRUE) is not taken for a server's own (docs/traffic.md has a recipe)"
            }
            Some(Tls::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                "; --tls-ca names the certificates that are trusted"
            }
            Some(_) => "",
            None => "; the server may have no certificate (`serve --tls-cert`)",
        };
        Self::Tls { peer, why: format!("{error}{advice}") }
    }

    /// Whether it is that something did not come to its end in the time it had.
    pub fn is_out_of_time(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }

    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

fn each(tried: &[(SocketAddr, io::Error)]) -> String {
    tried.iter().map(|(peer, source)| format!("{peer}: {source}")).collect::<Vec<_>>().join(", ")
}

fn listen_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has that port: give another with --listen ADDR:PORT, or port 0 for any free one"
        }
        io::ErrorKind::AddrNotAvailable => "no interface here has that address (see `ip address`)",
        io::ErrorKind::PermissionDenied => "ports below 1024 need root: give a higher one with --listen ADDR:PORT",
        _ => "give another address with --listen ADDR:PORT",
    }
}

fn option_advice(option: &str, source: &io::Error) -> &'static str {
    match option {
        "TCP_CONGESTION" if source.kind() == io::ErrorKind::PermissionDenied => {
            "; root, or the sysctl net.ipv4.tcp_allowed_congestion_control, allows it"
        }
        "TCP_CONGESTION" => "; the kernel's list is in /proc/sys/net/ipv4/tcp_available_congestion_control",
        "CPU affinity" => "; the usable CPUs are in /sys/devices/system/cpu/online",
        _ => "",
    }
}

/// `IEAUTHTEST` of iperf3: the test is not authorized.
const IPERF3_WANTS_LOGIN: u32 = 142;

/// The numbers that a refusal of a stock server is likely to carry.
fn iperf3_words(code: u32) -> &'static str {
    match code {
        5 | 37 => ": the duration is over its limit",
        6 => ": too many parallel streams",
        7 => ": the block size is over its limit",
        27 => ": the rate is over its limit",
        IPERF3_WANTS_LOGIN => {
            ": it wants a login, or another one: --username, --rsa-public-key-path, the password in IPERF3_PASSWORD, a clock like its own, \
             and for iperf3 before 3.17 --use-pkcs1-padding"
        }
        37.. => "",
        _ => ": a parameter is outside its limits",
    }
}

/// Whether a call on a socket that failed may simply be tried again: its time limit lapsed, or a
/// signal came.
pub(crate) fn may_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
