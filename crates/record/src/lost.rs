//! Everything a trace did not see, or could not time, as counters.

use std::ops::{Add, AddAssign};

use crate::columns;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident: $words:literal,)*) => {
        /// What was missed, and what has no stamp. Every counter is exact, and every send is either delivered as a
        /// [`crate::Send`] or in one of these.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        // A run of an earlier version has no counter of what it did not count.
        #[serde(default)]
        pub struct Lost {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Lost {
            /// Each counter's key, its words for people, and its value.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($field), $words, self.$field)),*].into_iter()
            }
        }

        columns! {
            Lost: "lost", "lost", blank = Lost::default();
            $($field = $field, $words;)*
        }

        impl Add for Lost {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self { $($field: self.$field.saturating_add(other.$field)),* }
            }
        }
    };
}

counters! {
    /// Finished sends that found the ring buffer full.
    ring_buffer: "finished sends that found the ring buffer full",
    /// Sends made while every slot of their connection was taken: they were not timed.
    slots_full: "sends made while all slots of their connection were taken",
    /// Connections in the target that found no room to be followed in.
    connections_full: "connections that found no room to be followed in",
    /// Sends merged into the packet of a later send; that send's record says how many.
    merged: "sends merged into a later send's packet, without their own stamps",
    /// Sends still unacknowledged when tracing ended.
    unfinished: "sends still unacknowledged when tracing ended",
    /// Sends of connections that were closed or reset before their ACK was seen.
    closed_unacked: "sends of connections that ended before their ACK was seen",
    /// Acknowledged sends without a `sched` stamp.
    no_sched: "acknowledged sends without a sched stamp",
    /// Acknowledged sends without a `driver` stamp.
    no_driver: "acknowledged sends without a driver stamp",
    /// Sends with an inferred `sched` or `driver` stage, because their packet gave no stamp: its error is reported.
    inferred: "sends with a stage inferred from neighbouring packets, as their packet had no stamp",
    /// Stamps of a NIC that came when the send's record had been handed on.
    nic_late: "NIC stamps that came after the send was acknowledged and handed on",
    /// Stamps of a NIC with a clock that could not be read, or was set in that time.
    nic_unread: "NIC stamps by a clock that could not be read, or that was set meanwhile",
    /// Sends with an `ack` stamp that never came, though later bytes were acknowledged.
    no_ack: "sends without an ack stamp, though later bytes were acknowledged",
    /// Stages that came after the send's ACK: a retransmission that was not needed.
    after_ack: "stages that came after the send was acknowledged",
    /// Stages repeated by a retransmission; the first time is kept.
    repeated: "stages repeated by a retransmission or a second qdisc",
    /// Legs with an earlier time at the later stage.
    disorder: "legs with stages in an impossible order",
    /// Sends that left the write queue before the kernel could stamp them (before commit 838eb9687691). A lower bound: the kernel says
    /// nothing of such a send, so it shows only in that bytes were written, and several between two callbacks count as one.
    unstamped: "sends, at least, gone from the write queue before the kernel could stamp them",
    /// Sends skipped because of `--max-rate`.
    over_rate: "sends skipped by --max-rate",
    /// Sampling windows that were never opened, as the machine was too busy: the share that was seen is smaller for it.
    windows_missed: "sampling windows that were not opened, as the machine was too busy",
    /// Receives that found the ring buffer full.
    receive_ring_buffer: "receives that found the ring buffer full",
    /// Received segments that came while every slot of their connection was taken.
    receive_slots_full: "received segments that came while all slots of their connection were taken",
    /// Connections without room to follow their received bytes.
    receive_connections_full: "connections without room to follow their received bytes",
    /// Recursion misses: runs of a program of the receiving side that the kernel skipped, as the program was already running on that CPU.
    receive_left_out: "recursion misses of the receiving side's programs",
    /// Received bytes that sampling skipped.
    receive_unsampled_bytes: "received bytes that sampling skipped",
    /// Bytes that were read and had come before tracing began.
    receive_unseen_bytes: "bytes read that had come before tracing began",
    /// Bytes without a report of their arrival, because the kernel skipped the programs. They are delivered as receives that have no
    /// stage but `read`; where no program read them, they are counted here alone.
    receive_untold_bytes: "received bytes without a report of their arrival",
    /// Received segments that were not read when their socket was closed.
    receive_never_read: "received segments that the application never read",
    /// Received segments that were not yet read when tracing ended.
    receive_unfinished: "received segments not yet read when tracing ended",
    /// Segments that came before bytes that precede them; they are delivered as receives all the same.
    receive_out_of_order: "segments received before bytes that precede them",
    /// Segments with bytes that had all been received before.
    receive_duplicate: "received segments with bytes that were there already",
    /// Receives without a `driver_rx` stamp.
    receive_no_driver_rx: "receives without a driver_rx stamp",
    /// Receives without a `tcp_rx` stamp.
    receive_no_tcp_rx: "receives without a tcp_rx stamp",
    /// Receives that were read without a `ready` stamp.
    receive_no_ready: "receives without a ready stamp",
    /// Legs of receives with an earlier time at the later stage.
    receive_disorder: "legs of receives with stages in an impossible order",
    /// Requests with a stage that has no stamp, or with stamps in an impossible order: they have no parts.
    request_incomplete: "requests without parts, as a stamp of theirs is missing or out of order",
    /// Receives at a client before its first request, or answers at a server to none.
    request_unsolicited: "sends and receives that belong to no request",
    /// TCP packets with a record that found the ring buffer full.
    packet_ring_buffer: "packets with a record that found the ring buffer full",
    /// Packets and datagrams that found no room to be followed through the packet scheduler.
    packet_no_room: "packets and datagrams that found no room on their way to the driver",
    /// ACKs with a record that found the ring buffer full: what they acknowledged shows a later time, or none.
    packet_acks: "ACKs with a record that found the ring buffer full",
    /// Packets that no ACK was seen for when tracing ended, or that were too many to wait for it.
    packet_unacked: "packets without an ack stamp that had one coming",
    /// Packets and datagrams that were still in the packet scheduler when tracing ended.
    packet_unfinished: "packets and datagrams not yet with the driver when tracing ended",
    /// Stages of packets and datagrams in an impossible order.
    packet_disorder: "legs of packets and datagrams with stages in an impossible order",
    /// Datagrams with a record that found the ring buffer full.
    datagram_ring_buffer: "datagrams with a record that found the ring buffer full",
    /// Reads of datagrams with a record that found the ring buffer full: those datagrams show no `read`.
    datagram_reads: "reads of datagrams with a record that found the ring buffer full",
    /// Received datagrams without a `read` stamp, though they were not dropped.
    datagram_no_read: "datagrams with a read that was not seen",
}

impl AddAssign for Lost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_each_by_itself() {
        let a = Lost { merged: 2, ring_buffer: u64::MAX, ..Lost::default() };
        let mut b = Lost { merged: 3, ring_buffer: 1, unstamped: 4, ..Lost::default() };
        b += a;
        assert_eq!(b, Lost { merged: 5, ring_buffer: u64::MAX, unstamped: 4, ..Lost::default() });
        assert_eq!(b.entries().filter(|e| e.2 > 0).count(), 3);
    }
}
