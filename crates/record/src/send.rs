//! One application write, with its byte range, its stages and the connection's state.

use crate::{ConnectionId, Disorder, Instant, Leg, Monotonic, Nanos, Owner, SeqNumber, Stage, Timestamp, Wait};

/// One application write as TCP saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// The connection it was made on.
    pub connection: ConnectionId,
    /// Who made it.
    pub owner: Owner,
    /// The sequence number of its first byte.
    pub first_seq: SeqNumber,
    /// How many bytes it wrote. Its last byte, `first_seq + bytes − 1`, is the one that is timed.
    pub bytes: u32,
    /// When its last byte passed each stage.
    pub stamps: Stamps,
    /// Earlier sends whose last bytes lie in the same packet.
    pub merged: Merged,
    /// The connection's state when the send was made.
    pub state: SenderState,
    /// Why it waited in TCP; `None` where it never got out.
    pub wait: Option<Wait>,
    /// How often the packet with its last byte was sent again.
    pub retransmissions: u16,
}

/// When a byte passed each stage; `None` where the stage gave no stamp.
///
/// A stage that repeats (a retransmission, a second qdisc) keeps its first time. A time with an error is the earliest at which the
/// stage can have been passed, or for the NIC's the one its clock showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// In the write queue.
    pub send: Instant<Monotonic>,
    /// Into the packet scheduler.
    pub sched: Option<Instant<Monotonic>>,
    /// To the driver.
    pub driver: Option<Instant<Monotonic>>,
    /// The bound on the error of `sched`, to either side: zero for a stamp of this very packet; more where its packet gave none and
    /// the time was found between two that are known.
    pub sched_error: Nanos,
    /// The same of `driver`.
    pub driver_error: Nanos,
    /// On the wire, by the NIC, converted to this clock with the error that carries.
    pub nic: Option<Timestamp<Monotonic>>,
    /// Acknowledged.
    pub ack: Option<Instant<Monotonic>>,
}

/// Sends that were appended to a packet before a later send ended it. Only the last byte of the packet is stamped, so
/// they have no stages of their own and are counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// How many.
    pub sends: u32,
    /// Their bytes together.
    pub bytes: u32,
    /// When the first of them was made: its bytes waited since then.
    pub oldest: Option<Instant<Monotonic>>,
}

/// The sender's congestion state (the kernel's `icsk_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Congestion {
    /// Nothing amiss.
    #[default]
    Open = 0,
    /// Duplicate ACKs or SACKs are being watched.
    Disorder = 1,
    /// The window is being reduced, after ECN or a local drop.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// A retransmission timeout.
    Loss = 4,
}

impl Congestion {
    /// From the kernel's number.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Open,
            1 => Self::Disorder,
            2 => Self::Cwr,
            3 => Self::Recovery,
            4 => Self::Loss,
            _ => return None,
        })
    }
}

/// The state of the sending side of a connection at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderState {
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Segments in flight, by the kernel's reckoning (`tcp_packets_in_flight()`).
    pub in_flight: u32,
    /// Bytes sent and not yet acknowledged.
    pub unacked: u32,
    /// Bytes in the write queue that were not yet sent, this send's own among them.
    pub unsent: u32,
    /// The peer's receive window, bytes.
    pub peer_window: u32,
    /// Payload bytes a segment carries at most.
    pub mss: u32,
    /// Smoothed round-trip time.
    pub srtt: Nanos,
    /// Pacing rate, bytes a second; `u64::MAX` where there is none.
    pub pacing_rate: u64,
    /// Size of the send buffer, bytes of memory (not of payload).
    pub send_buffer: u32,
    /// Memory of it in use.
    pub send_buffer_used: u32,
    /// The congestion state.
    pub congestion: Congestion,
    /// TCP's own clock of having anything to send, since the connection began.
    pub busy: Nanos,
    /// Of `busy`, the time TCP says it was limited by the peer's window.
    pub receive_window_limited: Nanos,
    /// Of `busy`, the time TCP says it was limited by the send buffer.
    pub send_buffer_limited: Nanos,
}

impl Send {
    /// The sequence number of the byte that is timed: the kernel's `tskey`.
    pub fn last_seq(&self) -> SeqNumber {
        self.first_seq.add(self.bytes.wrapping_sub(1))
    }

    /// How long a leg took: `Ok(None)` where a stage of it gave no stamp.
    ///
    /// # Errors
    /// [`Disorder`] where the later stage bears the earlier time.
    pub fn leg(&self, leg: Leg) -> Result<Option<Nanos>, Disorder> {
        let between = |from: Stage, to: Stage| match (self.stamps.at(from), self.stamps.at(to)) {
            (Some(a), Some(b)) => b.since(a).map(Some),
            _ => Ok(None),
        };
        match leg {
            Leg::Tcp => between(Stage::Send, Stage::Sched),
            Leg::Qdisc => between(Stage::Sched, Stage::Driver),
            Leg::Nic => between(Stage::Driver, Stage::Nic),
            Leg::Network if self.stamps.nic.is_some() => between(Stage::Nic, Stage::Ack),
            Leg::Network => between(Stage::Driver, Stage::Ack),
            Leg::Total => between(Stage::Send, Stage::Ack),
        }
    }

    /// The bound on the error of a leg, to either side: of the stamps at both of its ends together. Zero where both are stamps of the
    /// packet itself by the kernel.
    pub fn leg_error(&self, leg: Leg) -> Nanos {
        let nic = self.stamps.nic.map(|nic| nic.error);
        match leg {
            Leg::Tcp => self.stamps.sched_error,
            Leg::Qdisc => self.stamps.sched_error + self.stamps.driver_error,
            Leg::Nic => self.stamps.driver_error + nic.unwrap_or_default(),
            Leg::Network => nic.unwrap_or(self.stamps.driver_error),
            Leg::Total => Nanos::ZERO,
        }
    }

    /// How long the first of the merged bytes waited in TCP: no shorter than the `tcp` leg.
    pub fn oldest_tcp_wait(&self) -> Option<Nanos> {
        self.stamps.sched?.since(self.merged.oldest?).ok()
    }
}

impl Stamps {
    /// A send that was just made.
    pub const fn sent_at(send: Instant<Monotonic>) -> Self {
        Self {
            send,
            sched: None,
            driver: None,
            sched_error: Nanos::ZERO,
            driver_error: Nanos::ZERO,
            nic: None,
            ack: None,
        }
    }

    /// When the byte passed `stage`.
    pub fn at(&self, stage: Stage) -> Option<Instant<Monotonic>> {
        match stage {
            Stage::Send => Some(self.send),
            Stage::Sched => self.sched,
            Stage::Driver => self.driver,
            Stage::Nic => self.nic.map(|t| t.at),
            Stage::Ack => self.ack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Instant<Monotonic> {
        Instant::from_nanos(ns)
    }

    fn send(stamps: Stamps) -> Send {
        Send {
            connection: ConnectionId(1),
            owner: Owner::default(),
            first_seq: SeqNumber(u32::MAX),
            bytes: 10,
            stamps,
            merged: Merged::default(),
            state: SenderState::default(),
            wait: None,
            retransmissions: 0,
        }
    }

    #[test]
    fn the_timed_byte_is_the_last_one_even_over_a_wrap() {
        assert_eq!(send(Stamps::sent_at(at(0))).last_seq(), SeqNumber(8));
    }

    #[test]
    fn a_missing_stage_gives_no_leg() {
        let s = send(Stamps { ack: Some(at(9)), ..Stamps::sent_at(at(1)) });
        assert_eq!(s.leg(Leg::Tcp), Ok(None));
        assert_eq!(s.leg(Leg::Total), Ok(Some(Nanos(8))));
    }

    proptest! {
        #[test]
        fn legs_add_up_to_the_total_or_say_why_not(t in prop::array::uniform4(0u64..1_000)) {
            let s = send(Stamps { sched: Some(at(t[1])), driver: Some(at(t[2])), ack: Some(at(t[3])), ..Stamps::sent_at(at(t[0])) });
            let parts: Result<Vec<_>, _> = Leg::PARTS.into_iter().map(|l| s.leg(l)).collect();
            if let Ok(parts) = parts {
                let sum: Nanos = parts.into_iter().flatten().sum();
                prop_assert_eq!(s.leg(Leg::Total), Ok(Some(sum)));
            }
        }
    }
}
