//! What can go wrong, each by its name.

use std::fmt;
use std::io;

use crate::Flags;

/// A Linux version, as in "since 6.13".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// The first number.
    pub major: u16,
    /// The second number.
    pub minor: u16,
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Something of this library that not every kernel, driver or socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// A bit of the `SO_TIMESTAMPING` socket option.
    Flag(Flags),
    /// The control message that sets a send's own id.
    TsOptId,
    /// The control message that sets a send's own stages.
    PerSend,
    /// `SO_MEMINFO`: among other figures a socket's drops.
    MemInfo,
    /// Reading a NIC's clock together with the system's.
    PtpSysOffset,
}

impl Feature {
    /// The name the kernel's headers give it.
    pub fn name(self) -> String {
        match self {
            Self::Flag(flag) => {
                let unnamed = flag.difference(Flags::all()).bits();
                if unnamed != 0 {
                    return format!("bit {unnamed:#x} of SO_TIMESTAMPING");
                }
                let names: Vec<_> = flag.iter_names().map(|(name, _)| format!("SOF_TIMESTAMPING_{name}")).collect();
                names.join(" | ")
            }
            Self::TsOptId => "SCM_TS_OPT_ID".into(),
            Self::PerSend => "SO_TIMESTAMPING as a control message".into(),
            Self::MemInfo => "SO_MEMINFO".into(),
            Self::PtpSysOffset => "PTP_SYS_OFFSET".into(),
        }
    }

    /// The kernel version that brought it.
    pub fn since(self) -> KernelVersion {
        let (major, minor) = match self {
            Self::Flag(flag) => return flag.since(),
            Self::TsOptId => (6, 13),
            Self::PerSend => (4, 6),
            Self::MemInfo => (4, 12),
            Self::PtpSysOffset => (3, 8),
        };
        KernelVersion { major, minor }
    }
}

/// What kind of socket a request was made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketKind {
    /// `SOCK_STREAM` with TCP.
    Tcp,
    /// `SOCK_DGRAM` with UDP or UDP-Lite.
    Udp,
    /// `SOCK_DGRAM` with ICMP: a ping socket.
    Ping,
    /// `SOCK_RAW` of IPv4 or IPv6.
    Raw,
    /// `AF_PACKET`.
    Packet,
    /// Anything else: Unix, CAN, Bluetooth, ….
    Other,
}

impl fmt::Display for SocketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Ping => "ping",
            Self::Raw => "raw",
            Self::Packet => "packet",
            Self::Other => "other",
        })
    }
}

/// Why a call of this library failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The running kernel refuses an option; found by trying it by itself.
    #[error("this kernel has no {}: it came with Linux {}; leave it out, or ask for it with Request::lenient()", .feature.name(), .feature.since())]
    Unsupported {
        /// What it has not got.
        feature: Feature,
    },
    /// Byte ids need a connection to count from.
    #[error("a TCP socket that is not connected cannot count bytes: connect or accept first, then ask for timestamps")]
    NotConnected,
    /// A socket of this type cannot do this.
    #[error("a {kind} socket cannot do this: {what}")]
    WrongSocket {
        /// What the socket is.
        kind: SocketKind,
        /// What was asked of it.
        what: &'static str,
    },
    /// The options contradict each other.
    #[error("these options do not go together: {0}")]
    Contradiction(&'static str),
    /// There is no interface of this name, or it has gone.
    #[error("no network interface named {0:?}")]
    NoInterface(String),
    /// The interface cannot do this in hardware or its driver does not know how.
    #[error("interface {interface}: {what}")]
    NotByInterface {
        /// Which interface.
        interface: String,
        /// What it cannot do.
        what: &'static str,
    },
    /// The process may not do this.
    #[error("{what}: not permitted; {remedy}")]
    NotPermitted {
        /// What was tried.
        what: &'static str,
        /// What would make it permitted.
        remedy: &'static str,
    },
    /// A message from the kernel that cannot be read.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// Another failure of a system call.
    #[error("{call}: {source}")]
    System {
        /// The system call, with its option.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// The failure of `call` that `errno` holds at this moment.
    pub(crate) fn last(call: &'static str) -> Self {
        Self::System { call, source: io::Error::last_os_error() }
    }

    /// The kind of the kernel's error, where a system call failed.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::System { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    /// The kernel's error number, where a system call failed.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Why bytes from the kernel cannot be read. What is well-formed but unknown is no error: it is
/// passed on as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The bytes end within something.
    #[error(
        "{what} is cut short at byte {offset}: {need} bytes needed, {have} there; give the queue a larger control buffer"
    )]
    Truncated {
        /// What is cut short.
        what: &'static str,
        /// Where it begins, in bytes from the start of what was parsed.
        offset: usize,
        /// How many bytes it needs.
        need: usize,
        /// How many there are.
        have: usize,
    },
    /// The bytes contradict the format.
    #[error("{what} is malformed at byte {offset}: {why}")]
    Malformed {
        /// What is malformed.
        what: &'static str,
        /// Where it begins.
        offset: usize,
        /// In which way.
        why: &'static str,
    },
}
