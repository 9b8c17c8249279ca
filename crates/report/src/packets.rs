//! The figures of packets and datagrams, in bounded memory.

use std::collections::BTreeMap;

use model::{Datagram, DatagramLeg, Direction, DropReason, Dropped, Packet};
use stats::{Distribution, Precision};

use crate::LegStats;

/// Drops by direction and by the kernel's reason.
pub type Drops = BTreeMap<(&'static str, DropReason), u64>;

fn no_times() -> LegStats {
    LegStats::new(Precision::Fine)
}

fn count(drops: &mut Drops, direction: Direction, dropped: &Dropped) {
    *drops.entry((direction.name(), dropped.reason.clone())).or_default() += 1;
}

fn add(stats: &mut LegStats, time: Result<Option<model::Nanos>, model::Disorder>) {
    match time {
        Ok(Some(time)) => stats.times.record(time.0),
        Ok(None) => stats.missing += 1,
        Err(_) => stats.disorder += 1,
    }
}

/// The figures of packets of TCP.
#[derive(Clone, Debug)]
pub struct Packets {
    /// Packets that were sent, dropped ones among them.
    pub packets: u64,
    /// Segments that they became on the wire.
    pub segments: u64,
    /// Their payload in bytes.
    pub bytes: u64,
    /// With the headers of each segment.
    pub wire_bytes: u64,
    /// Packets of more than one segment.
    pub gso_packets: u64,
    /// Packets that were sent again.
    pub retransmissions: u64,
    /// Segments of those.
    pub retransmitted_segments: u64,
    /// The time between neighbours of a connection at the driver.
    pub gaps: Distribution,
    /// `sched` to `driver`.
    pub qdisc: LegStats,
    /// `driver` to `ack`, of packets that have sequence numbers of their own.
    pub network: LegStats,
    /// What was thrown away, sent and received.
    pub drops: Drops,
}

impl Default for Packets {
    fn default() -> Self {
        Self {
            packets: 0,
            segments: 0,
            bytes: 0,
            wire_bytes: 0,
            gso_packets: 0,
            retransmissions: 0,
            retransmitted_segments: 0,
            gaps: Distribution::new(Precision::Fine),
            qdisc: no_times(),
            network: no_times(),
            drops: Drops::new(),
        }
    }
}

impl Packets {
    /// Adds a packet.
    pub fn add(&mut self, packet: &Packet) {
        if let Some(dropped) = &packet.dropped {
            count(&mut self.drops, packet.direction, dropped);
        }
        if packet.direction == Direction::Received {
            return;
        }
        let segments = u64::from(packet.segments);
        self.packets += 1;
        self.segments += segments;
        self.bytes += u64::from(packet.bytes);
        self.wire_bytes += packet.wire_bytes();
        self.gso_packets += u64::from(segments > 1);
        self.retransmissions += u64::from(packet.retransmission);
        self.retransmitted_segments += if packet.retransmission { segments } else { 0 };
        if let Some(gap) = packet.gap {
            self.gaps.record(gap.0);
        }
        add(&mut self.qdisc, packet.qdisc());
        if packet.end_seq() != packet.first_seq {
            add(&mut self.network, packet.network());
        }
    }

    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        self.packets == 0 && self.drops.is_empty()
    }
}

/// The figures of datagrams of UDP.
#[derive(Clone, Debug)]
pub struct Datagrams {
    /// Datagrams that were sent; one with UDP GSO counts once.
    pub sent: u64,
    /// What they were on the wire.
    pub sent_segments: u64,
    /// Their payload in bytes.
    pub sent_bytes: u64,
    /// Datagrams that were received, dropped ones among them; one with UDP GRO counts once.
    pub received: u64,
    /// What they were on the wire.
    pub received_segments: u64,
    /// Their payload in bytes.
    pub received_bytes: u64,
    legs: [LegStats; DatagramLeg::ALL.len()],
    /// What was thrown away.
    pub drops: Drops,
}

impl Default for Datagrams {
    fn default() -> Self {
        Self {
            sent: 0,
            sent_segments: 0,
            sent_bytes: 0,
            received: 0,
            received_segments: 0,
            received_bytes: 0,
            legs: DatagramLeg::ALL.map(|_| no_times()),
            drops: Drops::new(),
        }
    }
}

impl Datagrams {
    /// Adds a datagram.
    pub fn add(&mut self, datagram: &Datagram) {
        let direction = datagram.direction();
        let (n, segments, bytes) = match direction {
            Direction::Sent => (&mut self.sent, &mut self.sent_segments, &mut self.sent_bytes),
            Direction::Received => (&mut self.received, &mut self.received_segments, &mut self.received_bytes),
        };
        *n += 1;
        *segments += u64::from(datagram.segments);
        *bytes += u64::from(datagram.bytes);
        for (leg, stats) in DatagramLeg::ALL.into_iter().zip(&mut self.legs) {
            if direction_of(leg) == direction {
                add(stats, datagram.leg(leg));
            }
        }
        if let Some(dropped) = &datagram.dropped {
            count(&mut self.drops, direction, dropped);
        }
    }

    /// The figures of a leg.
    pub fn leg(&self, leg: DatagramLeg) -> &LegStats {
        let at = DatagramLeg::ALL.iter().position(|&l| l == leg).unwrap_or(0);
        &self.legs[at]
    }

    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        self.sent + self.received == 0
    }
}

const fn direction_of(leg: DatagramLeg) -> Direction {
    match leg {
        DatagramLeg::Udp | DatagramLeg::Qdisc => Direction::Sent,
        DatagramLeg::Softirq | DatagramLeg::Socket => Direction::Received,
    }
}
