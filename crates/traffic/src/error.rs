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
    /// The server's own address cannot be used.
    #[error("cannot listen on {address}: {source}; {}", listen_advice(source))]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel would not set a socket option.
    #[error("cannot set {option} to {value}: {source}{}", option_advice(option))]
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
    /// A file of results cannot be read or written.
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
    /// Whether the caller asked for something impossible (exit status 2), as opposed to a failure while running (1).
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

    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
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

fn option_advice(option: &str) -> &'static str {
    match option {
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
            ": it wants a login (its --rsa-private-key-path and --authorized-users-path), which is not spoken here: give another \
             server, or one started without them"
        }
        37.. => "",
        _ => ": a parameter is outside its limits",
    }
}
