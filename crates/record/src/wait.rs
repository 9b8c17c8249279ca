//! Why bytes waited in TCP's write queue.

use std::fmt;

use crate::{Nanos, words};

/// What kept the head of TCP's write queue from leaving: the first test in the kernel's
/// `tcp_write_xmit()` that fails.
///
/// `docs/waiting.md` says how each is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum WaitReason {
    /// Nothing: the bytes left within the call that wrote them.
    SentAtOnce = 0,
    /// The congestion window was full.
    CongestionWindow = 1,
    /// The peer's receive window was full.
    ReceiveWindow = 2,
    /// The send buffer was full, so the application itself had to wait within `send()`.
    SendBuffer = 3,
    /// TCP's own pacing timer had not run out.
    Pacing = 4,
    /// Nagle's algorithm: a part-filled segment waits for the ACK of what is in flight.
    Nagle = 5,
    /// `TCP_CORK` or `MSG_MORE`: the application asked to wait for more.
    Cork = 6,
    /// Autocorking: an earlier packet of this socket is still in the qdisc or the NIC.
    Autocork = 7,
    /// TCP small queues: too many bytes of this socket are already in the qdisc or the NIC.
    SmallQueue = 8,
    /// A lost segment was repaired first, or this one had to be retransmitted.
    Retransmission = 9,
    /// None of the tests explains it. Counted rather than guessed.
    Unknown = 10,
}

words! {
    WaitReason: SentAtOnce = "sent_at_once", CongestionWindow = "congestion_window", ReceiveWindow = "receive_window",
    SendBuffer = "send_buffer", Pacing = "pacing", Nagle = "nagle", Cork = "cork", Autocork = "autocork",
    SmallQueue = "small_queue", Retransmission = "retransmission", Unknown = "unknown";
}

impl WaitReason {
    /// The reason with this number, as a BPF record has it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// The words used for people: `congestion window`, `Nagle's rule`, ….
impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SentAtOnce => "sent at once",
            Self::CongestionWindow => "congestion window",
            Self::ReceiveWindow => "receive window",
            Self::SendBuffer => "send buffer",
            Self::Pacing => "pacing",
            Self::Nagle => "Nagle's algorithm",
            Self::Cork => "cork",
            Self::Autocork => "autocork",
            Self::SmallQueue => "small-queue limit",
            Self::Retransmission => "retransmission",
            Self::Unknown => "unknown",
        })
    }
}

/// Why the `tcp` leg of one send took as long as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What held the bytes back for the largest part of the leg.
    pub reason: WaitReason,
    /// How much of the leg that reason accounts for.
    pub by_reason: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_reasons_agree() {
        for (i, reason) in WaitReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
            assert_eq!(WaitReason::from_number(i as u8), Some(reason));
        }
        assert_eq!(WaitReason::from_number(11), None);
    }
}
