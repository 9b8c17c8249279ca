//! Everything a trace did not see, or could not time, as counters.

use std::ops::{Add, AddAssign};

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident: $words:literal,)*) => {
        /// What was lost, and what has no stamp of its own. Every counter is exact, and every send is either delivered as a
        /// [`crate::Send`] or in one of these.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        // What an older run does not have was not counted there.
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
    /// Sends merged into the packet of a later send; that send's record tells how many.
    merged: "sends merged into a later send's packet, without stamps of their own",
    /// Sends still unacknowledged when tracing ended.
    unfinished: "sends still unacknowledged when tracing ended",
    /// Sends whose connection was closed or reset before their ACK was seen.
    closed_unacked: "sends whose connection ended before their ACK was seen",
    /// Acknowledged sends without a `sched` stamp.
    no_sched: "acknowledged sends without a sched stamp",
    /// Acknowledged sends without a `driver` stamp.
    no_driver: "acknowledged sends without a driver stamp",
    /// Sends with a `sched` or `driver` stamp that was found between two others, because their packet gave none: its error is told.
    inferred: "sends with a stage timed between the packets around theirs, which had no stamp itself",
    /// Stamps of a NIC that came when the send's record had been handed on.
    nic_late: "NIC stamps that came after the send was acknowledged and handed on",
    /// Stamps of a NIC whose clock could not be read, or was set meanwhile.
    nic_unread: "NIC stamps by a clock that could not be read, or that was set meanwhile",
    /// Sends whose `ack` stamp never came, though later bytes were acknowledged.
    no_ack: "sends without an ack stamp, though later bytes were acknowledged",
    /// Stages that came after the send's ACK: a retransmission that was not needed.
    after_ack: "stages that came after the send was acknowledged",
    /// Stages repeated by a retransmission; the first time is kept.
    repeated: "stages repeated by a retransmission or a second qdisc",
    /// Legs whose later stage bore the earlier time.
    disorder: "legs whose stages came in an impossible order",
    /// Sends that left the write queue before the kernel could stamp them (before commit 838eb9687691).
    unstamped: "sends gone from the write queue before the kernel could stamp them",
    /// Sends passed over because of `--max-rate`.
    over_rate: "sends passed over by --max-rate",
    /// Sampling windows that were never opened, as the machine was too busy: the share that was seen is smaller for it.
    windows_missed: "sampling windows that were not opened, as the machine was too busy",
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
