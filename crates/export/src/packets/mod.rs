//! Copies of packets with what belongs to them: their owner, the send that they carry, their
//! stages, their receiver on this host, and their drop.
//!
//! A packet comes before the records that it belongs to: of its send with the ACK, of its receive
//! when the program reads. So packets are held for a while, and leave in the order in which they
//! came. What is held is bounded.

mod fragments;
mod held;
mod owners;

use record::{CopyReceiver, Direction, Event, Instant, Monotonic, PacketCopy, Receive};

use held::{Carried, Held, Ready};
use owners::{Owned, Owners};

/// The most packets that are held.
const MOST: usize = 65_536;

/// Which records a trace makes beside those of sends: packets wait for them, too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traced {
    /// Of received bytes, until they are read.
    pub receives: bool,
    /// Of datagrams of UDP.
    pub datagrams: bool,
}

/// Joins copies with what belongs to them.
pub struct Packets {
    owners: Owners,
    held: Held,
}

impl Packets {
    /// Nothing is held yet.
    pub fn new(traced: Traced) -> Self {
        Self { owners: Owners::default(), held: Held::new(traced) }
    }

    /// Takes an event. Copies and their drops are held ([`holds`](Self::holds)); where too many
    /// are, the first of them leave.
    pub fn event(&mut self, event: &Event, leave: &mut dyn FnMut(Event)) {
        self.owners.event(event);
        match event {
            Event::Copy(copy) => {
                self.held.push(copy);
                if self.held.len() > MOST {
                    self.release(Ready::AllBut(MOST / 2), leave);
                }
            }
            Event::CopyDropped(of) => self.held.dropped(of),
            Event::Send(send) => self.held.sent(send),
            Event::Receive(receive) => self.held.received(receive),
            Event::Datagram(datagram) => self.held.datagram(datagram),
            Event::Closed { connection, .. } => self.held.over(*connection),
            _ => {}
        }
    }

    /// Whether an event comes out of this again, and later.
    pub fn holds(event: &Event) -> bool {
        matches!(event, Event::Copy(_) | Event::CopyDropped(_))
    }

    /// It is `now`: the packets that are whole leave, up to the first that is not.
    pub fn tick(&mut self, now: Instant<Monotonic>, leave: &mut dyn FnMut(Event)) {
        self.release(Ready::At(now), leave);
    }

    /// All packets leave.
    pub fn finish(&mut self, leave: &mut dyn FnMut(Event)) {
        self.release(Ready::AllBut(0), leave);
    }

    fn release(&mut self, which: Ready, leave: &mut dyn FnMut(Event)) {
        while let Some(carried) = self.held.next(which) {
            let (copy, arrival) = self.joined(carried);
            leave(Event::Copy(copy));
            if let Some(arrival) = arrival {
                leave(Event::Copy(arrival));
            }
        }
    }

    /// A packet with what is known of it, and its arrival by the loopback interface.
    fn joined(&self, carried: Carried) -> (Box<PacketCopy>, Option<Box<PacketCopy>>) {
        let Carried { mut copy, send, twin, received, id, .. } = carried;
        copy.id = id;
        let owned = self.owners.of(&copy, send.map(|send| send.owner));
        own(&mut copy, owned);
        if let Some(send) = send.filter(|send| send.owner.pid == copy.owner.pid) {
            copy.thread = send.thread;
        }
        read_by(&mut copy, received.as_ref());
        let arrival = twin.map(|mut twin| {
            twin.id = id;
            twin.is_arrival = true;
            let owned = self.owners.of(&twin, None);
            own(&mut twin, owned);
            read_by(&mut twin, received.as_ref());
            copy.receiver = Some(CopyReceiver {
                socket: twin.socket,
                at: twin.at,
                owner: twin.owner,
                known_by: twin.known_by,
                owner_since: twin.owner_since,
            });
            twin
        });
        (copy, arrival)
    }
}

fn own(copy: &mut PacketCopy, owned: Owned) {
    // Of another process than that of the socket it is not known when it began.
    if owned.owner.pid != copy.owner.pid {
        copy.owner_since = None;
    }
    (copy.socket, copy.owner, copy.known_by) = (owned.socket, owned.owner, owned.known_by);
}

/// The thread that read what a packet brought.
fn read_by(copy: &mut PacketCopy, receive: Option<&Receive>) {
    if copy.direction == Direction::Received
        && let Some(receive) = receive.filter(|receive| receive.reader.pid == copy.owner.pid)
    {
        copy.thread = receive.thread;
    }
}
