//! Packets that wait for what belongs to them: the record of their send, and on the loopback
//! interface their arrival.

use std::collections::{HashMap, VecDeque};

use record::{ConnectionId, CopyDropped, Direction, Dropped, Instant, Monotonic, Nanos, PacketCopy, Send, SeqNumber};

/// For how long a packet waits at most for the record of its send.
const PATIENCE: Nanos = Nanos::from_millis(1_000);
/// For how long a packet on the loopback interface waits for its arrival.
const ACROSS: Nanos = Nanos::from_millis(50);
/// How many packets before a drop are looked at for the one that it is of: it comes right after it.
const LOOKED_BACK: usize = 4_096;
/// How many connections are remembered for what was acknowledged on them.
const CONNECTIONS: usize = 65_536;

/// A packet with what belongs to it.
pub(super) struct Carried {
    pub copy: Box<PacketCopy>,
    /// The first send with bytes in it, its number, and how many sends have bytes in it.
    pub send: Option<(u64, u32, Box<Send>)>,
    /// The same packet as the socket got it that it went to, on this host.
    pub twin: Option<Box<PacketCopy>>,
    /// When and why it was dropped on this host, if it was.
    pub dropped: Option<Dropped>,
    /// What it is called: the same as it is sent and as it arrives on this host.
    pub id: u64,
    /// No more sends with bytes in it will come.
    whole: bool,
}

/// Which packets leave.
#[derive(Clone, Copy)]
pub(super) enum Ready {
    /// Those that wait for nothing at this moment, or have waited for too long.
    At(Instant<Monotonic>),
    /// All but so many.
    AllBut(usize),
}

/// What is kept of a connection.
#[derive(Default)]
struct Stream {
    /// Sends with a record so far.
    sends: u64,
    /// Up to where they reach.
    until: Option<SeqNumber>,
    /// Its packets that wait, by their numbers: those that are sent for the first time, in order,
    first: VecDeque<u64>,
    /// and others.
    again: Vec<u64>,
}

/// The packets that are held, in the order in which they came.
#[derive(Default)]
pub(super) struct Held {
    packets: VecDeque<Carried>,
    /// The number of the first of them.
    base: u64,
    streams: HashMap<ConnectionId, Stream>,
    /// Packets that were sent and have not arrived on this host, by their bytes.
    across: HashMap<Box<[u8]>, VecDeque<u64>>,
}

impl Held {
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    pub fn push(&mut self, copy: &PacketCopy) {
        let number = self.base + self.packets.len() as u64;
        let on_loopback = is_loopback(copy);
        let sent = copy.direction == Direction::Sent;
        let departed = if sent { None } else { self.departed(copy) };
        if let Some(departed) = departed
            && let Some(carried) = at(&mut self.packets, self.base, departed)
            && on_loopback
            && carried.copy.interface == copy.interface
        {
            carried.copy.missed += copy.missed;
            carried.twin = Some(Box::new(copy.clone()));
            return;
        }
        let id = departed.and_then(|departed| Some(at(&mut self.packets, self.base, departed)?.id));
        let id = id.unwrap_or(number + 1);
        if sent {
            self.across.entry(copy.bytes.clone()).or_default().push_back(number);
        }
        let carries = sent && copy.is_tcp() && copy.payload > 0;
        let mut whole = !carries;
        if carries {
            let stream = self.streams.entry(copy.socket).or_default();
            let end = end_of(copy);
            if stream.until.is_some_and(|until| end.distance_from(until) <= 0) {
                whole = true;
            } else if copy.again.is_some() {
                stream.again.push(number);
            } else {
                stream.first.push_back(number);
            }
        }
        self.packets.push_back(Carried {
            copy: Box::new(copy.clone()),
            send: None,
            twin: None,
            dropped: None,
            id,
            whole,
        });
    }

    /// The number of the packet that was sent and that this one is, where there is one.
    fn departed(&mut self, copy: &PacketCopy) -> Option<u64> {
        let numbers = self.across.get_mut(&copy.bytes)?;
        let number = numbers.pop_front()?;
        if numbers.is_empty() {
            self.across.remove(&copy.bytes);
        }
        Some(number)
    }

    /// The record of a send has come.
    pub fn sent(&mut self, send: &Send) {
        if self.streams.len() > CONNECTIONS {
            self.streams.retain(|_, stream| !stream.first.is_empty() || !stream.again.is_empty());
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
                match &mut carried.send {
                    Some((_, sends, _)) => *sends += 1,
                    none => *none = Some((number, 1, Box::new(*send))),
                }
            }
            carried.whole = end.distance_from(until) <= 0;
            Some(carried.whole)
        };
        while let Some(&packet) = stream.first.front() {
            match join(packet) {
                None | Some(true) => drop(stream.first.pop_front()),
                Some(false) => break,
            }
        }
        stream.again.retain(|&packet| join(packet) == Some(false));
    }

    /// A packet was dropped: the one that the kernel called so last, and that is still held. A
    /// packet of the loopback interface is the same on its way out and in.
    pub fn dropped(&mut self, of: &CopyDropped) {
        let is_it =
            |copy: &PacketCopy| copy.socket == of.socket && copy.buffer == of.buffer && copy.at <= of.dropped.at;
        let last = self.packets.iter_mut().rev().take(LOOKED_BACK);
        let mut found = last.filter(|carried| is_it(&carried.copy) || carried.twin.as_deref().is_some_and(is_it));
        if let Some(carried) = found.next() {
            carried.dropped = Some(of.dropped.clone());
        }
    }

    /// No more sends of a connection will come.
    pub fn over(&mut self, connection: ConnectionId) {
        let Some(stream) = self.streams.remove(&connection) else { return };
        for number in stream.first.into_iter().chain(stream.again) {
            if let Some(carried) = at(&mut self.packets, self.base, number) {
                carried.whole = true;
            }
        }
    }

    /// The next packet that leaves.
    pub fn next(&mut self, which: Ready) -> Option<Carried> {
        let front = self.packets.front()?;
        let leaves = match which {
            Ready::AllBut(most) => self.packets.len() > most,
            Ready::At(now) => {
                let age = now.since(front.copy.at).unwrap_or(Nanos::ZERO);
                age >= PATIENCE || (front.whole && (!waits_for_arrival(front) || age >= ACROSS))
            }
        };
        if !leaves {
            return None;
        }
        let carried = self.packets.pop_front()?;
        if carried.copy.direction == Direction::Sent
            && let Some(numbers) = self.across.get_mut(&carried.copy.bytes)
        {
            numbers.retain(|&number| number != self.base);
            if numbers.is_empty() {
                self.across.remove(&carried.copy.bytes);
            }
        }
        self.base += 1;
        Some(carried)
    }
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
