//! What the workloads are called.

use std::fmt;

use serde::{Serialize, Serializer};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Bulk transfer.
    Stream,
    /// Request and response on one connection.
    Rr,
    /// Request and response, a connection each.
    Crr,
    /// Datagrams at a rate.
    Udp,
    /// Datagrams that are sent back.
    Echo,
    /// Bulk transfer with probes before, beside and after it.
    PingUnderLoad,
    /// Round trips per minute, as the IETF draft on responsiveness has them.
    Responsiveness,
}

impl Workload {
    const ALL: [Self; 7] =
        [Self::Stream, Self::Rr, Self::Crr, Self::Udp, Self::Echo, Self::PingUnderLoad, Self::Responsiveness];

    /// What it is called: the command of that name runs it, except for what answers probes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Rr => "rr",
            Self::Crr => "crr",
            Self::Udp => "udp",
            Self::Echo => "udp echo",
            Self::PingUnderLoad => "ping-under-load",
            Self::Responsiveness => "responsiveness",
        }
    }

    /// The workload of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}
