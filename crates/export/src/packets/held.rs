//! Packets that wait for what belongs to them: the record of their send, of their receive or of
//! their datagram, and on the loopback interface their arrival.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use record::{
    CarriedSend, ConnectionId, CopyDropped, Datagram, DatagramStamps, Direction, Instant, Monotonic, Nanos, Owner,
    PacketCopy, Receive, Send, SeqNumber,
};

use super::Traced;
use super::fragments::Pieces;

/// For how long a packet waits at most for the records that it belongs to.
const PATIENCE: Nanos = Nanos::from_millis(1_000);
/// For how long a packet on the loopback interface waits for its arrival.
const ACROSS: Nanos = Nanos::from_millis(50);
/// For how long it is remembered what a packet was called, which may still arrive.
const UNDER_WAY: Nanos = Nanos::from_millis(10_000);
/// How many such packets are remembered.
const MOST_UNDER_WAY: usize = 65_536;
/// How many packets before a drop are looked at for the one that it is of: it comes right after it.
const LOOKED_BACK: usize = 4_096;
/// How many connections are remembered for what was acknowledged on them.
const CONNECTIONS: usize = 65_536;
/// How many packets of a socket are looked at for the one that a receive or a datagram is of.
const LOOKED_AT: usize = 256;
/// How far the copy of a datagram and its nearest stage can lie apart: both are taken in one run of
/// the kernel, which may be interrupted.
const NEAR: Nanos = Nanos::from_millis(1);

/// A packet with what belongs to it.
pub(super) struct Carried {
    pub copy: Box<PacketCopy>,
    /// Who made the send that it carries.
    pub send: Option<Sender>,
    /// The same packet as the socket got it that it went to, on this host.
    pub twin: Option<Box<PacketCopy>>,
    /// The record of the bytes that it brought.
    pub received: Option<Receive>,
    /// What it is called: the same as it is sent and as it arrives on this host.
    pub id: u64,
    /// A record of what it carries may still come,
    waits: bool,
    /// and one of its being read, as it arrived.
    waits_for_read: bool,
    /// When the datagram was whole that it is a fragment of.
    whole_at: Option<Instant<Monotonic>>,
    /// Its fragments stand for it.
    pub is_replaced: bool,
}

/// Who made a send.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub owner: Owner,
    pub thread: Option<u32>,
}

impl Carried {
    /// The packet as it arrived on this host.
    fn arrival(&mut self) -> Option<&mut PacketCopy> {
        match self.copy.direction {
            Direction::Received => Some(&mut self.copy),
            Direction::Sent => self.twin.as_deref_mut(),
        }
    }
}

/// Which packets leave.
#[derive(Clone, Copy)]
pub(super) enum Ready {
    /// Those that wait for nothing at this moment, or have waited for too long.
    At(Instant<Monotonic>),
    /// All but so many.
    AllBut(usize),
}

/// What is kept of a connection, or of a socket of UDP.
#[derive(Default)]
struct Stream {
    /// Sends with a record so far.
    sends: u64,
    /// Up to where they reach.
    until: Option<SeqNumber>,
    /// Its packets that wait, by their numbers: those that are sent for the first time, in order,
    first: VecDeque<u64>,
    /// others,
    again: Vec<u64>,
    /// and those that arrived; of UDP, all of them.
    arrived: VecDeque<u64>,
}

impl Stream {
    fn waits(&self) -> bool {
        !self.first.is_empty() || !self.again.is_empty() || !self.arrived.is_empty()
    }
}

/// The packets that are held, in the order in which they came.
pub(super) struct Held {
    traced: Traced,
    packets: VecDeque<Carried>,
    /// The number of the first of them.
    base: u64,
    streams: HashMap<ConnectionId, Stream>,
    under_way: UnderWay,
    pieces: Pieces,
}

/// Packets that were sent and have not arrived on this host. They are known by a hash of their
/// bytes: payload can be long, and they are many.
#[derive(Default)]
struct UnderWay {
    /// Their numbers by their hashes.
    by_hash: HashMap<u64, VecDeque<u64>>,
    /// All of them with the time that they were sent at, those among them that have arrived since.
    all: VecDeque<(Instant<Monotonic>, u64, u64)>,
}

impl UnderWay {
    fn departs(&mut self, copy: &PacketCopy, number: u64) {
        while let Some(&(at, oldest, hash)) = self.all.front()
            && (self.all.len() >= MOST_UNDER_WAY || copy.at.since(at).is_ok_and(|age| age > UNDER_WAY))
        {
            self.all.pop_front();
            self.take(hash, |numbers| numbers.retain(|&number| number != oldest));
        }
        let hash = hash(&copy.bytes);
        self.by_hash.entry(hash).or_default().push_back(number);
        self.all.push_back((copy.at, number, hash));
    }

    /// The number of the packet that was sent and that this one is, where there is one.
    fn arrives(&mut self, copy: &PacketCopy) -> Option<u64> {
        self.take(hash(&copy.bytes), VecDeque::pop_front)?
    }

    fn take<T>(&mut self, hash: u64, take: impl FnOnce(&mut VecDeque<u64>) -> T) -> Option<T> {
        let numbers = self.by_hash.get_mut(&hash)?;
        let taken = take(numbers);
        if numbers.is_empty() {
            self.by_hash.remove(&hash);
        }
        Some(taken)
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl Held {
    pub fn new(traced: Traced) -> Self {
        Self {
            traced,
            packets: VecDeque::new(),
            base: 0,
            streams: HashMap::new(),
            under_way: UnderWay::default(),
            pieces: Pieces::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Holds a packet; the fragments of a datagram take its place.
    pub fn push(&mut self, copy: &PacketCopy) {
        match (copy.fragment, copy.direction) {
            (Some(_), Direction::Received) => self.pieces.arrives(copy),
            (Some(_), Direction::Sent) => {
                let last = self.packets.iter_mut().rev().take(LOOKED_BACK);
                let cut = last.filter(|of| of.copy.is_cut && of.copy.socket == copy.socket);
                match self.pieces.leaves(copy, cut) {
                    Some(piece) => self.hold(&piece, None),
                    None => self.hold(copy, None),
                }
            }
            (None, Direction::Received) => match self.pieces.whole(copy) {
                Some(pieces) => pieces.iter().for_each(|piece| self.hold(piece, Some(copy.at))),
                None => self.hold(copy, None),
            },
            (None, Direction::Sent) => self.hold(copy, None),
        }
    }

    fn hold(&mut self, copy: &PacketCopy, whole_at: Option<Instant<Monotonic>>) {
        let number = self.base + self.packets.len() as u64;
        let sent = copy.direction == Direction::Sent;
        let departed = if sent { None } else { self.under_way.arrives(copy) };
        let waits_for_read = !sent && self.has_records(copy, self.traced.receives);
        if let Some(departed) = departed
            && let Some(carried) = at(&mut self.packets, self.base, departed)
            && is_loopback(copy)
            && carried.copy.interface == copy.interface
            && !carried.is_replaced
        {
            carried.copy.missed += copy.missed;
            carried.twin = Some(Box::new(PacketCopy { missed: 0, ..copy.clone() }));
            carried.waits_for_read = waits_for_read;
            carried.whole_at = whole_at;
            if waits_for_read {
                self.streams.entry(copy.socket).or_default().arrived.push_back(departed);
            }
            return;
        }
        if sent {
            self.under_way.departs(copy, number);
        }
        let carries = sent && self.has_records(copy, true);
        let mut waits = carries;
        if carries {
            let stream = self.streams.entry(copy.socket).or_default();
            if !copy.is_tcp() {
                stream.arrived.push_back(number);
            } else if stream.until.is_some_and(|until| end_of(copy).distance_from(until) <= 0) {
                waits = false;
            } else if copy.again.is_some() {
                stream.again.push(number);
            } else {
                stream.first.push_back(number);
            }
        }
        if waits_for_read {
            self.streams.entry(copy.socket).or_default().arrived.push_back(number);
        }
        self.packets.push_back(Carried {
            copy: Box::new(copy.clone()),
            send: None,
            twin: None,
            received: None,
            // Numbers begin with 1: 0 is none.
            id: departed.unwrap_or(number) + 1,
            waits,
            waits_for_read,
            whole_at,
            is_replaced: false,
        });
    }

    /// Whether a record of what a packet carries may come; of TCP there are some if `traced`.
    fn has_records(&self, copy: &PacketCopy, traced: bool) -> bool {
        let is_later = copy.fragment.is_some_and(|of| of.offset > 0);
        if copy.is_tcp() { traced && copy.payload > 0 } else { copy.is_udp() && self.traced.datagrams && !is_later }
    }

    /// The record of a send has come.
    pub fn sent(&mut self, send: &Send) {
        if self.streams.len() > CONNECTIONS {
            self.streams.retain(|_, stream| stream.waits());
        }
        let stream = self.streams.entry(send.connection).or_default();
        stream.sends += 1;
        let (first, until) = (send.first_seq, send.first_seq.add(send.bytes));
        stream.until = Some(stream.until.filter(|u| u.distance_from(until) > 0).unwrap_or(until));
        let (packets, base, number) = (&mut self.packets, self.base, stream.sends);
        // What it has to do with a packet: whether its bytes are in it, and whether later ones are.
        let mut join = |packet: u64| -> Option<bool> {
            let carried = at(packets, base, packet)?;
            let (from, end) = (carried.copy.first_seq, end_of(&carried.copy));
            if from.distance_from(until) >= 0 {
                return Some(false);
            }
            if end.distance_from(first) > 0 {
                match &mut carried.copy.carried {
                    Some(of) => of.sends += 1,
                    none => {
                        *none = Some(CarriedSend {
                            number,
                            sends: 1,
                            first_seq: first,
                            bytes: send.bytes,
                            wait: send.wait.map(|wait| (wait.reason(), wait.by_reason())),
                        });
                        carried.send = Some(Sender { owner: send.owner, thread: send.thread });
                        let stages = &mut carried.copy.stages;
                        stages.send = Some(send.stamps.send);
                        (stages.sched, stages.driver) = (send.stamps.sched, send.stamps.driver);
                        (stages.nic, stages.ack) = (send.stamps.nic.as_ref().map(|stamp| stamp.at), send.stamps.ack);
                    }
                }
            }
            carried.waits = end.distance_from(until) > 0;
            Some(!carried.waits)
        };
        while let Some(&packet) = stream.first.front() {
            match join(packet) {
                None | Some(true) => drop(stream.first.pop_front()),
                Some(false) => break,
            }
        }
        stream.again.retain(|&packet| join(packet) == Some(false));
    }

    /// The record of received bytes has come.
    pub fn received(&mut self, receive: &Receive) {
        let Some(stream) = self.streams.get_mut(&receive.connection) else { return };
        let (last, until) = (receive.last_seq(), receive.first_seq.add(receive.bytes));
        let mut looked_at = 0;
        let (packets, base) = (&mut self.packets, self.base);
        stream.arrived.retain(|&number| {
            looked_at += 1;
            if looked_at > LOOKED_AT {
                return true;
            }
            let Some(carried) = at(packets, base, number) else { return false };
            let Some(arrival) = carried.arrival() else { return false };
            let (from, end) = (arrival.first_seq, end_of(arrival));
            let is_it = last.distance_from(from) >= 0 && end.distance_from(last) > 0;
            if is_it {
                let stages = &mut arrival.stages;
                let stamps = &receive.stamps;
                (stages.driver_rx, stages.tcp_rx) = (stamps.driver_rx, stamps.tcp_rx);
                (stages.ready, stages.read) = (stamps.ready, stamps.read);
                carried.received = Some(*receive);
            }
            // What had come before is read with it, and has no record of its own.
            carried.waits_for_read = end.distance_from(until) > 0;
            carried.waits_for_read
        });
    }

    /// The record of a datagram has come: the copy is the one that was taken at its time.
    pub fn datagram(&mut self, datagram: &Datagram) {
        let Some(stream) = self.streams.get_mut(&datagram.socket) else { return };
        let near = match datagram.stamps {
            DatagramStamps::Sent { sched, .. } => sched,
            DatagramStamps::Received { udp_rx, .. } => udp_rx,
        };
        let Some(near) = near.or_else(|| datagram.first()) else { return };
        let (packets, base) = (&mut self.packets, self.base);
        let direction = datagram.direction();
        let mut nearest: Option<(usize, Nanos)> = None;
        for (place, &number) in stream.arrived.iter().enumerate().take(LOOKED_AT) {
            let Some(carried) = at(packets, base, number).filter(|carried| !carried.is_replaced) else { continue };
            let whole_at = carried.whole_at.filter(|_| direction == Direction::Received);
            let Some(copy) = of_datagram(carried, datagram.socket, direction) else { continue };
            let copied = whole_at.unwrap_or(copy.at);
            let apart = near.since(copied).or_else(|_| copied.since(near)).unwrap_or(NEAR);
            let bytes = copy.fragment.map_or(copy.payload, |of| of.datagram);
            let is_like = bytes == datagram.bytes && copy.remote == datagram.remote;
            if is_like && apart < nearest.map_or(NEAR, |of| of.1) {
                nearest = Some((place, apart));
            }
        }
        if direction == Direction::Sent {
            stream.sends += 1;
        }
        let Some(number) = nearest.and_then(|(place, _)| stream.arrived.remove(place)) else { return };
        let Some(carried) = at(packets, base, number) else { return };
        match direction {
            Direction::Sent => carried.waits = false,
            Direction::Received => carried.waits_for_read = false,
        }
        let Some(copy) = of_datagram(carried, datagram.socket, direction) else { return };
        let stages = &mut copy.stages;
        match datagram.stamps {
            DatagramStamps::Sent { send, sched, driver } => {
                (stages.send, stages.sched, stages.driver) = (send, sched, driver);
                let (number, bytes) = (stream.sends, datagram.bytes);
                copy.carried =
                    Some(CarriedSend { number, sends: 1, first_seq: SeqNumber::default(), bytes, wait: None });
            }
            DatagramStamps::Received { driver_rx, udp_rx, ready, read } => {
                (stages.driver_rx, stages.tcp_rx, stages.ready, stages.read) = (driver_rx, udp_rx, ready, read);
            }
        }
        if copy.dropped.is_none() {
            copy.dropped.clone_from(&datagram.dropped);
        }
    }

    /// A packet was dropped: the one that the kernel called so last, and that is still held. A
    /// packet of the loopback interface is the same on its way out and in.
    pub fn dropped(&mut self, of: &CopyDropped) {
        let is_it =
            |copy: &PacketCopy| copy.socket == of.socket && copy.buffer == of.buffer && copy.at <= of.dropped.at;
        let last = self.packets.iter_mut().rev().take(LOOKED_BACK);
        let mut found = last.filter(|carried| is_it(&carried.copy) || carried.twin.as_deref().is_some_and(is_it));
        if let Some(carried) = found.next() {
            carried.copy.dropped = Some(of.dropped.clone());
        }
    }

    /// No more sends of a connection will come.
    pub fn over(&mut self, connection: ConnectionId) {
        let Some(stream) = self.streams.get_mut(&connection) else { return };
        for number in stream.first.drain(..).chain(stream.again.drain(..)) {
            if let Some(carried) = at(&mut self.packets, self.base, number) {
                carried.waits = false;
            }
        }
        // Its program may still read.
        if !stream.waits() {
            self.streams.remove(&connection);
        }
    }

    /// The next packet that leaves.
    pub fn next(&mut self, which: Ready) -> Option<Carried> {
        loop {
            let front = self.packets.front()?;
            let leaves = match which {
                Ready::AllBut(most) => self.packets.len() > most,
                Ready::At(now) => {
                    let age = now.since(front.copy.at).unwrap_or(Nanos::ZERO);
                    let waits = front.waits || front.waits_for_read;
                    // A datagram that is cut up is soon in pieces.
                    let waits_for_more = waits_for_arrival(front) || front.copy.is_cut;
                    age >= PATIENCE || (!waits && (!waits_for_more || age >= ACROSS))
                }
            };
            if !leaves && !front.is_replaced {
                return None;
            }
            let carried = self.packets.pop_front()?;
            self.base += 1;
            if !carried.is_replaced {
                return Some(carried);
            }
        }
    }
}

/// The packet as the socket of a datagram sent or got it.
fn of_datagram(carried: &mut Carried, socket: ConnectionId, direction: Direction) -> Option<&mut PacketCopy> {
    let copy = match direction {
        Direction::Sent => Some(&mut *carried.copy),
        Direction::Received => carried.arrival(),
    };
    copy.filter(|copy| copy.socket == socket && copy.direction == direction)
}

fn waits_for_arrival(carried: &Carried) -> bool {
    carried.twin.is_none() && carried.copy.direction == Direction::Sent && is_loopback(&carried.copy)
}

/// Whether it is on the loopback interface, where what is sent arrives as the same packet.
fn is_loopback(copy: &PacketCopy) -> bool {
    copy.interface.name == "lo"
}

fn at(packets: &mut VecDeque<Carried>, base: u64, number: u64) -> Option<&mut Carried> {
    packets.get_mut(usize::try_from(number.checked_sub(base)?).ok()?)
}

/// Where the bytes of a packet end: a FIN is none.
fn end_of(copy: &PacketCopy) -> SeqNumber {
    copy.first_seq.add(u32::from(copy.flags.syn())).add(copy.payload)
}
