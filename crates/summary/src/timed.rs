//! The times of one record.

use std::net::SocketAddr;

use record::{
    Component, ConnectionId, Datagram, DatagramLeg, DatagramStamps, Disorder, Instant, Leg, Monotonic, Nanos, Owner,
    Packet, PacketLeg, Receive, ReceiveLeg, Request, Role, Send,
};

use crate::kind::{LEGS, TimedKind};

/// A record with legs.
pub trait Timed: Clone {
    /// Its kind.
    fn kind(&self) -> TimedKind;

    /// How long a leg of [`TimedKind::legs`] took, by its number: `Ok(None)` where a stage of it
    /// gave no stamp.
    ///
    /// # Errors
    /// [`Disorder`] where the later stage has the earlier time.
    fn time(&self, leg: usize) -> Result<Option<Nanos>, Disorder>;

    /// The same of all legs, and of one that was not over when it was last seen how long it had
    /// taken by then. Legs in an impossible order have no time.
    fn times_so_far(&self) -> [Option<u64>; LEGS] {
        self.times()
    }

    /// When it began, where a stamp says so.
    fn began(&self) -> Option<Instant<Monotonic>>;

    /// Its connection or socket.
    fn flow(&self) -> ConnectionId;

    /// Its ends, where the record itself has them.
    fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        None
    }

    /// Its process, where the record itself names it.
    fn owner(&self) -> Option<Owner>;

    /// Its payload.
    fn bytes(&self) -> u64;

    /// What [`TimedKind::counted`] counts.
    fn counts(&self) -> [u64; 2] {
        [0; 2]
    }

    /// All legs, nanoseconds: missing ones and those in an impossible order alike have none.
    fn times(&self) -> [Option<u64>; LEGS] {
        let mut times = [None; LEGS];
        let n = self.kind().legs().len();
        times[..n].iter_mut().enumerate().for_each(|(i, time)| *time = self.time(i).ok().flatten().map(|t| t.0));
        times
    }

    /// Whether the legs that are there add up to the total: then nothing of it is unaccounted for.
    fn is_whole(&self) -> bool {
        let (kind, times) = (self.kind(), self.times());
        let sum: u128 = kind.adding().filter_map(|(i, _)| times[i]).map(u128::from).sum();
        kind.adding().any(|(i, _)| times[i].is_some()) && times[kind.total()].map(u128::from) == Some(sum)
    }
}

impl Timed for Send {
    fn kind(&self) -> TimedKind {
        TimedKind::Sends
    }

    fn time(&self, leg: usize) -> Result<Option<Nanos>, Disorder> {
        Leg::ALL.get(leg).map_or(Ok(None), |leg| self.awaited(*leg))
    }

    fn times_so_far(&self) -> [Option<u64>; LEGS] {
        let mut times = self.times();
        times.iter_mut().zip(Leg::ALL).for_each(|(time, leg)| *time = time.or(self.so_far(leg).map(|t| t.0)));
        times
    }

    fn began(&self) -> Option<Instant<Monotonic>> {
        Some(self.stamps.send)
    }

    fn flow(&self) -> ConnectionId {
        self.connection
    }

    fn owner(&self) -> Option<Owner> {
        Some(self.owner)
    }

    fn bytes(&self) -> u64 {
        self.bytes.into()
    }

    fn counts(&self) -> [u64; 2] {
        [u64::from(self.retransmissions > 0), 0]
    }
}

impl Timed for Receive {
    fn kind(&self) -> TimedKind {
        TimedKind::Receives
    }

    fn time(&self, leg: usize) -> Result<Option<Nanos>, Disorder> {
        ReceiveLeg::ALL.get(leg).map_or(Ok(None), |leg| self.leg(*leg))
    }

    fn began(&self) -> Option<Instant<Monotonic>> {
        self.stamps.arrived()
    }

    fn flow(&self) -> ConnectionId {
        self.connection
    }

    fn owner(&self) -> Option<Owner> {
        Some(self.reader).filter(|reader| reader.pid != 0)
    }

    fn bytes(&self) -> u64 {
        self.bytes.into()
    }

    fn counts(&self) -> [u64; 2] {
        [self.out_of_order.into(), self.stamps.read.is_none().into()]
    }
}

impl Timed for Request {
    fn kind(&self) -> TimedKind {
        match self.role {
            Role::Client => TimedKind::AtClient,
            Role::Server => TimedKind::AtServer,
        }
    }

    /// One without known components has no total either: its stamps are missing, or in an
    /// impossible order.
    fn time(&self, leg: usize) -> Result<Option<Nanos>, Disorder> {
        let Some((components, whole)) = self.components.as_ref().zip(self.whole()) else { return Ok(None) };
        Ok(Component::ALL.get(leg).map_or(Some(whole), |component| components.get(*component)))
    }

    fn began(&self) -> Option<Instant<Monotonic>> {
        Request::began(self)
    }

    fn flow(&self) -> ConnectionId {
        self.connection
    }

    fn owner(&self) -> Option<Owner> {
        Some(self.owner).filter(|owner| owner.pid != 0)
    }

    fn bytes(&self) -> u64 {
        self.request.bytes.saturating_add(self.answer.bytes)
    }

    fn counts(&self) -> [u64; 2] {
        [self.time(Component::ALL.len()).is_ok_and(|whole| whole.is_none()).into(), 0]
    }
}

impl Timed for Packet {
    fn kind(&self) -> TimedKind {
        TimedKind::Packets
    }

    fn time(&self, leg: usize) -> Result<Option<Nanos>, Disorder> {
        // One that takes no sequence number is never acknowledged: usually an ACK.
        let numbered = self.end_seq() != self.first_seq;
        match PacketLeg::ALL.get(leg) {
            Some(PacketLeg::Qdisc) => self.qdisc(),
            Some(PacketLeg::Network) if numbered => self.network(),
            Some(PacketLeg::Total) if numbered => match (self.sched, self.ack) {
                (Some(sched), Some(ack)) => ack.since(sched).map(Some),
                _ => Ok(None),
            },
            Some(PacketLeg::Gap) => Ok(self.gap),
            _ => Ok(None),
        }
    }

    fn began(&self) -> Option<Instant<Monotonic>> {
        self.sched.or(self.driver).or(self.dropped.as_ref().map(|d| d.at))
    }

    fn flow(&self) -> ConnectionId {
        self.connection
    }

    fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        Some((self.local, self.remote))
    }

    fn owner(&self) -> Option<Owner> {
        None
    }

    fn bytes(&self) -> u64 {
        self.bytes.into()
    }

    fn counts(&self) -> [u64; 2] {
        [self.retransmission.into(), self.dropped.is_some().into()]
    }
}

impl Timed for Datagram {
    fn kind(&self) -> TimedKind {
        match self.stamps {
            DatagramStamps::Sent { .. } => TimedKind::DatagramsSent,
            DatagramStamps::Received { .. } => TimedKind::DatagramsReceived,
        }
    }

    fn time(&self, leg: usize) -> Result<Option<Nanos>, Disorder> {
        let (legs, ends) = match self.stamps {
            // The total is from the first stage that there is, as of received bytes.
            DatagramStamps::Sent { send, sched, driver } => {
                ([DatagramLeg::Udp, DatagramLeg::Qdisc], (send.or(sched), driver))
            }
            DatagramStamps::Received { driver_rx, ready, read, .. } => {
                ([DatagramLeg::Softirq, DatagramLeg::Socket], (driver_rx.or(ready), read))
            }
        };
        match (legs.get(leg), ends) {
            (Some(leg), _) => self.leg(*leg),
            (None, (Some(from), Some(to))) => to.since(from).map(Some),
            _ => Ok(None),
        }
    }

    fn began(&self) -> Option<Instant<Monotonic>> {
        self.first()
    }

    fn flow(&self) -> ConnectionId {
        self.socket
    }

    fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        Some((self.local, self.remote))
    }

    fn owner(&self) -> Option<Owner> {
        Some(self.owner)
    }

    fn bytes(&self) -> u64 {
        self.bytes.into()
    }

    fn counts(&self) -> [u64; 2] {
        [self.dropped.is_some().into(), 0]
    }
}
