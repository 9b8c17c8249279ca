//! The figures of packets and datagrams, in bounded memory.

use crate::kind::TimedKind;
use std::collections::BTreeMap;

use record::{Datagram, DatagramLeg, Direction, DropReason, Dropped, Packet};

use crate::attribution::Attribution;
use crate::figures::TimedFigures;
use crate::{LegFigures, Limits};

/// Drops by direction and by the kernel's reason.
pub type Drops = BTreeMap<(Direction, DropReason), u64>;

fn count(drops: &mut Drops, direction: Direction, dropped: Option<&Dropped>) {
    if let Some(dropped) = dropped {
        *drops.entry((direction, dropped.reason.clone())).or_default() += 1;
    }
}

/// The figures of packets of TCP.
#[derive(Clone, Debug)]
pub struct PacketFigures {
    /// Packets that entered the packet scheduler, dropped ones among them.
    pub records: TimedFigures<Packet>,
    /// Segments that they became on the wire.
    pub segments: u64,
    /// With the headers of each segment.
    pub wire_bytes: u64,
    /// Packets of more than one segment.
    pub gso_packets: u64,
    /// Retransmitted packets.
    pub retransmissions: u64,
    /// Segments of those.
    pub retransmitted_segments: u64,
    /// What was dropped, sent and received.
    pub drops: Drops,
}

impl PacketFigures {
    /// Nothing yet.
    pub fn new(limits: &Limits) -> Self {
        Self {
            records: TimedFigures::new(TimedKind::Packets, limits.slowest, limits.connections),
            segments: 0,
            wire_bytes: 0,
            gso_packets: 0,
            retransmissions: 0,
            retransmitted_segments: 0,
            drops: Drops::new(),
        }
    }

    /// Adds a packet of a connection of which this is known.
    pub fn add(&mut self, packet: &Packet, known: Attribution) {
        count(&mut self.drops, packet.direction, packet.dropped.as_ref());
        // Received, dropped before the packet scheduler, or a segment of a packet that was cut up
        // and counted before.
        if packet.sched.is_none() {
            return;
        }
        let segments = u64::from(packet.segments);
        self.records.add(packet, known);
        self.segments += segments;
        self.wire_bytes += packet.wire_bytes();
        self.gso_packets += u64::from(segments > 1);
        self.retransmissions += u64::from(packet.retransmission);
        self.retransmitted_segments += if packet.retransmission { segments } else { 0 };
    }

    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        self.records.n == 0 && self.drops.is_empty()
    }
}

/// The figures of datagrams of UDP.
#[derive(Clone, Debug)]
pub struct DatagramFigures {
    /// Datagrams that were sent; one with UDP GSO counts once.
    pub sent: TimedFigures<Datagram>,
    /// What they were on the wire.
    pub sent_segments: u64,
    /// Datagrams that were received, dropped ones among them; one with UDP GRO counts once.
    pub received: TimedFigures<Datagram>,
    /// What they were on the wire.
    pub received_segments: u64,
    /// What was dropped.
    pub drops: Drops,
}

impl DatagramFigures {
    /// Nothing yet.
    pub fn new(limits: &Limits) -> Self {
        let records = |kind| TimedFigures::new(kind, limits.slowest, limits.connections);
        Self {
            sent: records(TimedKind::DatagramsSent),
            sent_segments: 0,
            received: records(TimedKind::DatagramsReceived),
            received_segments: 0,
            drops: Drops::new(),
        }
    }

    /// Adds a datagram.
    pub fn add(&mut self, datagram: &Datagram) {
        let direction = datagram.direction();
        let (records, segments) = match direction {
            Direction::Sent => (&mut self.sent, &mut self.sent_segments),
            Direction::Received => (&mut self.received, &mut self.received_segments),
        };
        records.add(datagram, Attribution::default());
        *segments += u64::from(datagram.segments);
        count(&mut self.drops, direction, datagram.dropped.as_ref());
    }

    /// The figures of a leg.
    pub fn leg(&self, leg: DatagramLeg) -> &LegFigures {
        match leg {
            DatagramLeg::Udp => self.sent.leg(0),
            DatagramLeg::Qdisc => self.sent.leg(1),
            DatagramLeg::Softirq => self.received.leg(0),
            DatagramLeg::Socket => self.received.leg(1),
        }
    }

    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        self.sent.n + self.received.n == 0
    }
}
