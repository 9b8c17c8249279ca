//! Stages, where a timestamp is taken, and legs, the time between two of them.

use std::fmt;

use crate::leg::legs;

/// A place where a timestamp is taken. The kernel's names are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The call that writes the bytes begins.
    Call,
    /// The application's bytes are in TCP's write queue.
    Send,
    /// The packet enters the packet scheduler (qdisc).
    Sched,
    /// The packet is handed to the driver.
    Driver,
    /// The NIC put the packet on the wire, by its hardware clock.
    Nic,
    /// The last byte was cumulatively acknowledged.
    Ack,
}

impl Stage {
    /// All stages of a send, in the order a byte passes them.
    pub const ALL: [Self; 6] = [Self::Call, Self::Send, Self::Sched, Self::Driver, Self::Nic, Self::Ack];

    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Send => "send",
            Self::Sched => "sched",
            Self::Driver => "driver",
            Self::Nic => "nic",
            Self::Ack => "ack",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

legs! {
    /// The time between two stages of a send.
    Leg:
    /// `call` → `send`: copying, and asleep for room in the send buffer. It comes before the total.
    Call = "call", "in the call that writes, before TCP has the bytes", Beside;
    /// `send` → `sched`: waiting in TCP.
    Tcp = "tcp", "waiting in TCP", Adds;
    /// `sched` → `driver`: waiting in the packet scheduler.
    Qdisc = "qdisc", "waiting in the packet scheduler", Adds;
    /// `driver` → `nic`: waiting in the driver's and the NIC's queues.
    Nic = "nic", "waiting in driver and NIC", Adds, within Network;
    /// `nic` (or `driver`, where the NIC gives no stamp) → `ack`: wire, peer, and the ACK's way
    /// back.
    Network = "network", "wire, peer, and the ACK's way back", Adds;
    /// `send` → `ack`.
    Total = "total", "from send to ACK", Total;
}

impl Leg {
    /// The legs that add up to the total.
    pub const ADDITIVE: [Self; 4] = [Self::Tcp, Self::Qdisc, Self::Nic, Self::Network];
}
