//! What can go wrong while receiving.

use std::io;

use crate::{Stamps, Technique};

/// Why frames cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such interface in this network namespace.
    #[error("there is no interface {0}: `ip link` lists them")]
    NoInterface(String),
    /// An option has a value that cannot be.
    #[error("{option} of {value} cannot be: {reason}")]
    Option {
        /// Which.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        reason: String,
    },
    /// The filter is not in libpcap's language, or names what the link type does not have.
    #[error("the filter {expression:?} is refused by libpcap: {reason}")]
    Filter {
        /// The filter.
        expression: String,
        /// libpcap's reason.
        reason: String,
    },
    /// The technique cannot give these timestamps.
    #[error("{technique} does not give {} timestamps on {interface}: {reason}", .stamps.name())]
    Stamps {
        /// The technique.
        technique: Technique,
        /// What was asked for.
        stamps: Stamps,
        /// The interface.
        interface: String,
        /// Why not.
        reason: String,
    },
    /// Two taps stamp by two clocks that cannot be compared.
    #[error(
        "the taps stamp by two clocks, and that of {interface} cannot be compared with the other: {reason}; use software timestamps, or two \
         ports with one clock"
    )]
    Clocks {
        /// The interface.
        interface: String,
        /// Why not.
        reason: String,
    },
    /// The technique does not work on this interface or kernel.
    #[error("{technique} does not work on {interface}: {reason}")]
    Technique {
        /// The technique.
        technique: Technique,
        /// The interface.
        interface: String,
        /// Why not, and what works instead.
        reason: String,
    },
    /// A way to send does not work on this interface or kernel.
    #[error("{way} cannot send on {interface}: {reason}")]
    Sending {
        /// The way.
        way: &'static str,
        /// The interface.
        interface: String,
        /// Why not.
        reason: String,
    },
    /// Opening takes a right that the caller has not.
    #[error("{what} takes {needs}: run as root, or give the program these capabilities")]
    NotPermitted {
        /// What was to be done: a technique's name, or sending.
        what: &'static str,
        /// The capabilities.
        needs: &'static str,
    },
    /// The interface went down or away while frames were received.
    #[error("the interface {0} went down or away")]
    InterfaceGone(String),
    /// A step that the machine refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl Error {
    /// Whether the caller asked for what cannot be, rather than the machine failing while it
    /// receives.
    pub const fn is_wrong_use(&self) -> bool {
        !matches!(self, Self::InterfaceGone(_) | Self::System { .. })
    }

    /// For `map_err`: a step that failed.
    pub(crate) const fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// For `map_err`: a step that the timestamping library makes.
    pub(crate) fn stamping(what: &'static str) -> impl FnOnce(timestamping::Error) -> Self {
        move |error| match error {
            timestamping::Error::System { source, .. } => Self::System { what, source },
            other => Self::System { what, source: io::Error::other(other) },
        }
    }

    /// For `map_err`: a step that takes a capability.
    pub(crate) fn privileged(
        name: &'static str,
        needs: &'static str,
        what: &'static str,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { what: name, needs },
            _ => Self::System { what, source },
        }
    }
}
