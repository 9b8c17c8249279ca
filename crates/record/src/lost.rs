//! Everything a trace did not see, or could not time, as counters.

use std::ops::{Add, AddAssign, Sub};

use crate::columns;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident: $loss:ident $words:literal,)*) => {
        /// What was missed, and what has no stamp. Every counter is exact, and every send is either
        /// delivered as a [`crate::Send`] or in one of these.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Lost {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Lost {
            /// Each counter's key, its words for people, and its value.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($field), $words, self.$field)),*].into_iter()
            }

            /// Each counter's key, what it says of what it counts, and its value.
            pub fn kinds(&self) -> impl Iterator<Item = (&'static str, Loss, u64)> {
                [$((stringify!($field), Loss::$loss, self.$field)),*].into_iter()
            }

            /// What was counted since `earlier`, an earlier state of the same counters.
            pub fn since(self, earlier: Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field)),* }
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

        impl Sub for Lost {
            type Output = Self;
            fn sub(self, earlier: Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field)),* }
            }
        }
    };
}

/// What a counter of [`Lost`] says of what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It has no record, or only a part of it: it was missed.
    Missed,
    /// It has a record without some of its times.
    Untimed,
    /// Nothing of it is missing: it happened, or was not asked for.
    Noted,
}

counters! {
    /// Finished sends that found the ring buffer full.
    ring_buffer: Missed "finished sends that found the ring buffer full",
    /// Sends made while every slot of their connection was taken: they were not timed.
    slots_full: Missed "sends made while all slots of their connection, or of the pool that connections share, were taken",
    /// Connections in the target that found no room to be followed in.
    connections_full: Missed "connections that found no room to be followed in",
    /// Connections of a cgroup that came into the target while tracing, begun before the tracer
    /// knew of it. What they wrote by then is in the coverage, as not observed.
    connections_late: Missed "connections begun in a new cgroup before it was known to be of the target",
    /// Processes that the target started while 16,384 of its processes were there, or while the
    /// kernel had no memory: nothing that they do is seen.
    processes_full: Missed "processes of the target that found no room to be followed in",
    /// Beginnings and ends of connections that found the ring buffer full. The coverage includes
    /// them.
    connection_records: Missed "beginnings and ends of connections that found the ring buffer full",
    /// Sends still unacknowledged when tracing ended.
    unfinished: Noted "sends still unacknowledged when tracing ended",
    /// Sends of connections that were closed or reset before their ACK was seen.
    closed_unacked: Untimed "sends of connections that ended before their ACK was seen",
    /// Acknowledged sends without a `sched` stamp.
    no_sched: Untimed "acknowledged sends without a sched stamp",
    /// Acknowledged sends without a `driver` stamp.
    no_driver: Untimed "acknowledged sends without a driver stamp",
    /// Sends with an inferred `sched`, `driver` or `ack` stage, because their packet gave no stamp:
    /// its error is reported.
    inferred: Noted "sends with an inferred stage, as their packet had no stamp",
    /// Stamps of a NIC that came when the send's record had been handed on.
    nic_late: Untimed "NIC stamps that came after the send was acknowledged and handed on",
    /// Stamps of a NIC with a clock that could not be read, or was set in that time.
    nic_unread: Untimed "NIC stamps by a clock that could not be read, or that was set meanwhile",
    /// Stages that came after the send's ACK: a retransmission that was not needed.
    after_ack: Noted "stages that came after the send was acknowledged",
    /// Stages repeated by a retransmission; the first time is kept.
    repeated: Noted "stages repeated by a retransmission or a second qdisc",
    /// Legs with an earlier time at the later stage.
    disorder: Untimed "legs with stages in an impossible order",
    /// Sends that left the write queue before the kernel could stamp them (before commit
    /// 838eb9687691). A lower bound: the kernel says nothing of such a send, so it shows only in
    /// that bytes were written, and several between two callbacks count as one.
    unstamped: Missed "sends, at least, gone from the write queue before the kernel could stamp them",
    /// Sends by tracepoints that the kernel ran no program for: it skips a program that is running
    /// on that CPU already. A lower bound, as for `unstamped`: such a send shows only in the bytes
    /// that were written, and several in a row count as one.
    left_out: Missed "sends, at least, that the kernel ran no program for",
    /// Stretches that sampling was to look at and that found no room, as more connections were
    /// looked at than there are places for.
    stretches_full: Missed "stretches of connections that were to be sampled and found no room",
    /// Connections whose reasons for waiting differ from the kernel's own clocks of them by more
    /// than a tenth of the time in which they had anything to send.
    reasons_differ: Noted "connections with reasons for waiting that differ from the kernel's own clocks by more than a tenth",
    /// Sends skipped because of `--max-rate`.
    over_rate: Noted "sends skipped by --max-rate",
    /// Receives that found the ring buffer full.
    receive_ring_buffer: Missed "receives that found the ring buffer full",
    /// Received segments that came while every slot of their connection was taken.
    receive_slots_full: Missed "received segments that came while all slots of their connection were taken",
    /// Connections without room to follow their received bytes.
    receive_connections_full: Missed "connections without room to follow their received bytes",
    /// Recursion misses: runs of a program of the receiving side that the kernel skipped, as the
    /// program was already running on that CPU.
    receive_left_out: Untimed "recursion misses of the receiving side's programs",
    /// Bytes of receives that were read and found the ring buffer full, and of segments that came
    /// while every slot was taken.
    receive_missed_bytes: Missed "received bytes that are in no record, as the ring buffer or the slots were full",
    /// Received bytes that sampling skipped.
    receive_unsampled_bytes: Noted "received bytes that sampling skipped",
    /// Bytes that were read and had come before tracing began.
    receive_unseen_bytes: Noted "bytes read that had come before tracing began",
    /// Bytes without a report of their arrival, because the kernel skipped the programs. They are
    /// delivered as receives that have no stage but `read`; where no program read them, they are
    /// counted here alone.
    receive_untold_bytes: Untimed "received bytes without a report of their arrival",
    /// Received segments that were not read when their socket was closed.
    receive_never_read: Noted "received segments that the application never read",
    /// Received segments that were not yet read when tracing ended.
    receive_unfinished: Noted "received segments not yet read when tracing ended",
    /// Segments that came before bytes that precede them; they are delivered as receives all the
    /// same.
    receive_out_of_order: Noted "segments received before bytes that precede them",
    /// Segments with bytes that had all been received before.
    receive_duplicate: Noted "received segments with bytes that were there already",
    /// Receives that were read without a `driver_rx` stamp.
    receive_no_driver_rx: Untimed "receives without a driver_rx stamp",
    /// Receives that were read without a `tcp_rx` stamp.
    receive_no_tcp_rx: Untimed "receives without a tcp_rx stamp",
    /// Receives that were read without a `ready` stamp.
    receive_no_ready: Untimed "receives without a ready stamp",
    /// Legs of receives with an earlier time at the later stage.
    receive_disorder: Untimed "legs of receives with stages in an impossible order",
    /// Requests with a stage that has no stamp, or with stamps in an impossible order: they are not
    /// divided into components.
    request_incomplete: Untimed "requests that are not divided into components: a stamp is missing, or two are in an impossible order, or it overlaps another",
    /// Receives at a client before its first request, or answers at a server to none.
    request_unsolicited: Noted "sends and receives that belong to no request",
    /// Beginnings of packets, with `--http`, that found the ring buffer full.
    http_ring_buffer: Missed "beginnings of packets (--http) that found the ring buffer full",
    /// Packets, with `--packets`, that found the ring buffer full.
    copy_ring_buffer: Missed "packets (--packets) that found the ring buffer full",
    /// Requests without a label, with `--http`: the request line is not whole in the packet that it
    /// begins in, or that packet has other bytes before it, was not seen, or is of something else
    /// than HTTP/1.
    request_unlabelled: Untimed "requests without method and path (--http)",
    /// Attempts to set up a connection with a record that found the ring buffer full.
    connect_ring_buffer: Missed "attempts to connect with a record that found the ring buffer full",
    /// Received SYNs that there was no room for: their connections have no time of the SYN.
    connect_requests_full: Untimed "received SYNs that there was no room for",
    /// SYNs and ACKs that listeners of the target dropped, mostly because their accept queue was
    /// full. Such an attempt shows at the end that connects.
    connect_listen_drops: Noted "SYNs and ACKs that listeners of the target dropped (accept queue full, or no memory)",
    /// TCP packets with a record that found the ring buffer full.
    packet_ring_buffer: Missed "packets with a record that found the ring buffer full",
    /// Packets and datagrams that found no room to be followed through the packet scheduler.
    packet_no_room: Missed "packets and datagrams that found no room on their way to the driver",
    /// Recursion misses of the programs that see packets and datagrams: runs that the kernel
    /// skipped, as the program was already running on that CPU. A packet that was skipped so has no
    /// record, or lacks a stage.
    packet_left_out: Untimed "recursion misses of the programs that see packets and datagrams",
    /// TCP segments that left without a record, as the kernel ran no program for them: what the
    /// kernel itself counts of their connections' segments (`segs_out`) beyond those that were
    /// seen.
    packet_unseen: Missed "segments sent that the kernel ran no program for",
    /// ACKs with a record that found the ring buffer full: what they acknowledged shows a later
    /// time, or none.
    packet_acks: Untimed "ACKs with a record that found the ring buffer full",
    /// Packets that no ACK was seen for when tracing ended, or that were too many to wait for it.
    packet_unacked: Untimed "packets without an ack stamp that had one coming",
    /// Packets and datagrams that were not seen to reach the driver: still in the packet scheduler
    /// when tracing ended, or replaced by another of the same bytes or the same place in memory.
    /// They have a record.
    packet_unfinished: Untimed "packets and datagrams not seen to reach the driver",
    /// Stages of packets and datagrams in an impossible order.
    packet_disorder: Untimed "legs of packets and datagrams with stages in an impossible order",
    /// Datagrams with a record that found the ring buffer full.
    datagram_ring_buffer: Missed "datagrams with a record that found the ring buffer full",
    /// Reads of datagrams with a record that found the ring buffer full: those datagrams show no
    /// `read`.
    datagram_reads: Untimed "reads of datagrams with a record that found the ring buffer full",
    /// Received datagrams without a `read` stamp, though they were not dropped.
    datagram_no_read: Untimed "datagrams with a read that was not seen",
    /// Messages of DNS with a record that found the ring buffer full: the question has no row, or
    /// seems to have no answer.
    dns_ring_buffer: Missed "DNS messages with a record that found the ring buffer full",
    /// Questions beyond those that are kept until they are over, and messages of programs beyond
    /// those that are followed.
    dns_full: Missed "DNS messages beyond the questions that are kept at the same time",
    /// Bytes to or from a port of DNS that are no message of it, or not the beginning of one.
    dns_unread: Noted "datagrams and pieces of streams on DNS ports that could not be read as DNS",
    /// Answers to no question that was seen, or to one that was over.
    dns_without_question: Noted "DNS answers to no question that waited for one",
}

impl Lost {
    /// Sends that were made while their connection was watched and have no record: how many, by
    /// why.
    pub fn unrecorded_sends(&self) -> [(u64, &'static str); 5] {
        [
            (self.ring_buffer, "the ring buffer was full"),
            (self.slots_full, "all slots of their connection, or of the pool, were taken"),
            (self.over_rate, "of --max-rate"),
            (self.unstamped, "the kernel could not stamp them"),
            (self.left_out, "the kernel ran no program for them"),
        ]
    }

    /// The same of each kind of record, by its name in the singular. Receives without a slot
    /// and packets that were not seen are counted in segments.
    pub fn unrecorded_by_kind(&self) -> [(&'static str, Vec<(u64, &'static str)>); 7] {
        let full = "the ring buffer was full";
        [
            ("send", self.unrecorded_sends().to_vec()),
            (
                "receive",
                vec![
                    (self.receive_ring_buffer, full),
                    (self.receive_slots_full, "all slots of their connection were taken"),
                ],
            ),
            (
                "packet",
                vec![(self.packet_ring_buffer, full), (self.packet_unseen, "the kernel ran no program for them")],
            ),
            ("datagram", vec![(self.datagram_ring_buffer, full)]),
            ("copied packet", vec![(self.copy_ring_buffer, full)]),
            ("connection attempt", vec![(self.connect_ring_buffer, full)]),
            ("DNS message", vec![(self.dns_ring_buffer, full), (self.dns_full, "too many questions were open")]),
        ]
    }

    /// What was missed that a request or its answer can have been in: while it grows, requests may
    /// have been under way that are in no record.
    pub fn missed_of_requests(&self) -> u64 {
        let sent = self.unrecorded_sends().map(|(n, _)| n);
        let received = [self.receive_ring_buffer, self.receive_slots_full, self.receive_connections_full];
        let connections = [self.connections_full, self.connections_late, self.processes_full, self.connection_records];
        let all = sent.into_iter().chain(received).chain(connections);
        all.fold(self.receive_missed_bytes, |sum, n| sum.saturating_add(n))
    }

    /// Everything that was watched and has no record, of all kinds.
    pub fn unrecorded(&self) -> u64 {
        let causes = self.unrecorded_by_kind().into_iter().flat_map(|(_, causes)| causes);
        causes.fold(0, |sum, (n, _)| sum.saturating_add(n))
    }
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
    fn what_has_no_record_is_neither_what_has_no_stamp_nor_what_was_noted() {
        let noted = Lost { inferred: 5, no_sched: 6, receive_unsampled_bytes: 7, repeated: 8, ..Lost::default() };
        assert_eq!(noted.unrecorded(), 0);
        let missed = Lost {
            ring_buffer: 1,
            receive_slots_full: 2,
            packet_unseen: 4,
            datagram_ring_buffer: 8,
            connect_ring_buffer: 16,
            ..noted
        };
        assert_eq!(missed.unrecorded(), 31);
        assert_eq!(Lost { ring_buffer: u64::MAX, ..missed }.unrecorded(), u64::MAX);
        // Neither packets nor datagrams hold requests that are not in sends and receives.
        assert_eq!((missed.missed_of_requests(), noted.missed_of_requests()), (3, 0));
    }

    #[test]
    fn what_has_no_record_counts_as_missed_and_what_was_noted_does_not() {
        let all = Lost { inferred: 1, repeated: 1, no_sched: 1, ring_buffer: 1, slots_full: 1, ..Lost::default() };
        let of = |loss: Loss| -> Vec<&str> { all.kinds().filter(|e| e.1 == loss && e.2 > 0).map(|e| e.0).collect() };
        assert_eq!(of(Loss::Missed), ["ring_buffer", "slots_full"]);
        assert_eq!(of(Loss::Untimed), ["no_sched"]);
        assert_eq!(of(Loss::Noted), ["inferred", "repeated"]);
        // What is said to have no record is missed.
        let every = |of: u64| Lost { ring_buffer: of, slots_full: of, unstamped: of, left_out: of, ..Lost::default() };
        let missed = every(1).kinds().filter(|e| e.1 == Loss::Missed).map(|e| e.2).sum::<u64>();
        assert_eq!(missed, every(1).unrecorded());
    }

    #[test]
    fn counters_add_up_each_by_itself() {
        let a = Lost { inferred: 2, ring_buffer: u64::MAX, ..Lost::default() };
        let mut b = Lost { inferred: 3, ring_buffer: 1, unstamped: 4, ..Lost::default() };
        b += a;
        assert_eq!(b, Lost { inferred: 5, ring_buffer: u64::MAX, unstamped: 4, ..Lost::default() });
        assert_eq!(b.entries().filter(|e| e.2 > 0).count(), 3);
    }
}
