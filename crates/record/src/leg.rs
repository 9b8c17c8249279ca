//! What is said of a leg: its word, its meaning, and how it relates to the total of its record.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::words;

/// How a leg relates to the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegPlace {
    /// It adds to the total.
    Adds,
    /// The total itself.
    Total,
    /// It is no part of the total.
    Beside,
}

/// The name of a leg. Kinds of records share the names of legs that are the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LegName {
    /// In the call that writes.
    Call,
    /// In TCP.
    Tcp,
    /// From the call to the packet scheduler, of a datagram.
    Udp,
    /// In the packet scheduler.
    Qdisc,
    /// In driver and NIC.
    Nic,
    /// Beyond this host.
    Network,
    /// From the driver through the stack.
    Softirq,
    /// In the socket, until readable or read.
    Socket,
    /// Until the program had read.
    Wakeup,
    /// Between neighbours of a connection.
    Gap,
    /// Setting up the connection.
    Connect,
    /// In the traced program.
    Application,
    /// In this host's kernel.
    Kernel,
    /// In the peer's kernel, on the way in.
    PeerReceive,
    /// In the peer's program.
    PeerApplication,
    /// In the peer's kernel, on the way out.
    PeerSend,
    /// From the first byte of a message to its last.
    Transfer,
    /// In what the traced program asked others.
    Upstream,
    /// The total of what has legs.
    Total,
    /// The total of a request.
    Whole,
}

words! {
    LegName: Call = "call", Tcp = "tcp", Udp = "udp", Qdisc = "qdisc", Nic = "nic", Network = "network", Softirq = "softirq", Socket = "socket",
    Wakeup = "wakeup", Gap = "gap", Connect = "connect", Application = "application", Kernel = "kernel", PeerReceive = "peer_receive",
    PeerApplication = "peer_application", PeerSend = "peer_send", Transfer = "transfer", Upstream = "upstream",
    Total = "total", Whole = "whole";
}

impl fmt::Display for LegName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for LegName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// A leg of one kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedLeg {
    /// Its name.
    pub name: LegName,
    /// What it is, for legends.
    pub meaning: &'static str,
    /// How it relates to the total.
    pub place: LegPlace,
    /// The leg of the same record that has its time where a machine or a run gives no stamp for it,
    /// by its number.
    pub within: Option<usize>,
}

impl TimedLeg {
    /// A leg that adds to the total.
    pub const fn adds(name: LegName, meaning: &'static str) -> Self {
        Self { name, meaning, place: LegPlace::Adds, within: None }
    }

    /// The total.
    pub const fn total(name: LegName, meaning: &'static str) -> Self {
        Self { name, meaning, place: LegPlace::Total, within: None }
    }

    /// The same, with the leg that has its time where it gives none.
    pub const fn within(self, leg: usize) -> Self {
        Self { within: Some(leg), ..self }
    }
}

/// Declares the legs that a record has, in the order in which a byte passes them: an enumeration,
/// with the word of each, its meaning for legends, and its [`LegPlace`]. `within` names the leg
/// that has its time where it gives none.
macro_rules! legs {
    (
        $(#[$doc:meta])*
        $name:ident:
        $($(#[$leg_doc:meta])* $leg:ident = $word:literal, $meaning:literal, $place:ident $(, within $within:ident)?;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$leg_doc])* $leg,)*
        }

        impl $name {
            /// All legs, in their order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$leg),*];

            /// What is said of each of them.
            pub const TIMED: &'static [$crate::TimedLeg] = &[$($crate::TimedLeg {
                name: $crate::LegName::$leg,
                meaning: $meaning,
                place: $crate::LegPlace::$place,
                within: $crate::leg::legs!(@within $name $($within)?),
            }),*];

            /// The word used in output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$leg => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
    (@within $name:ident) => { None };
    (@within $name:ident $within:ident) => { Some($name::$within as usize) };
}

pub(crate) use legs;
