//! Whose a packet is: what the kernel part says of its socket, and what events say since.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use record::{ConnectionId, Direction, Event, KnownBy, Opening, Owner, PacketCopy, SocketState};
use wire::{Frame, LinkType, Packet, Reassembly, dissect};

/// How many closed connections are remembered.
const CLOSED: usize = 16_384;

/// The owner of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    /// The socket, or the connection that it is one of.
    pub socket: ConnectionId,
    /// Whose it is; pid 0 where that is not known.
    pub owner: Owner,
    pub known_by: KnownBy,
}

#[derive(Clone, Copy)]
struct Known {
    owner: Owner,
    by: KnownBy,
    ends: (SocketAddr, SocketAddr),
}

/// Owners of connections.
#[derive(Default)]
pub(super) struct Owners {
    connections: HashMap<ConnectionId, Known>,
    /// By this host's end and the peer's: a listener's packets are of a connection to come.
    by_ends: HashMap<(SocketAddr, SocketAddr), ConnectionId>,
    closed: VecDeque<ConnectionId>,
}

impl Owners {
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Connection(c) => {
                let by = match c.opening {
                    Opening::Found => KnownBy::Held,
                    Opening::Connected => KnownBy::Connected,
                    // The owner of the listener has it too where nobody used it before its end.
                    Opening::Accepted if self.owned_by(c.id) == Some(c.owner.pid) => KnownBy::Listens,
                    Opening::Accepted => KnownBy::Used,
                };
                self.know(c.id, c.owner, by, (c.local, c.remote));
            }
            Event::SetUp(set_up) => {
                let Some(id) = set_up.connection else { return };
                let by = match set_up.opening {
                    Opening::Found => KnownBy::Held,
                    Opening::Connected => KnownBy::Connected,
                    Opening::Accepted if set_up.stamps.accepted.is_some() => KnownBy::Accepted,
                    Opening::Accepted => KnownBy::Listens,
                };
                self.know(id, set_up.owner, by, (set_up.local, set_up.remote));
            }
            Event::Closed { connection, .. } => {
                self.closed.push_back(*connection);
                if self.closed.len() > CLOSED
                    && let Some(first) = self.closed.pop_front()
                    && let Some(known) = self.connections.remove(&first)
                    && self.by_ends.get(&known.ends) == Some(&first)
                {
                    self.by_ends.remove(&known.ends);
                }
            }
            _ => {}
        }
    }

    /// The process that a connection is known to be of so far.
    fn owned_by(&self, id: ConnectionId) -> Option<u32> {
        self.connections.get(&id).map(|known| known.owner.pid)
    }

    /// Keeps the better of what is known already and this.
    fn know(&mut self, id: ConnectionId, owner: Owner, by: KnownBy, ends: (SocketAddr, SocketAddr)) {
        self.by_ends.insert(ends, id);
        let by = if owner.pid == 0 { KnownBy::Unknown } else { by };
        let better = self.connections.get(&id).is_none_or(|known| by > known.by);
        if better {
            self.connections.insert(id, Known { owner, by, ends });
        }
    }

    /// Whose a packet is, which carries bytes of a send that `sender` made.
    pub fn of(&self, copy: &PacketCopy, sender: Option<Owner>) -> Owned {
        let of_listener = matches!(copy.state, SocketState::Listener);
        let socket = match of_listener.then(|| self.connection_of(copy)).flatten() {
            Some(connection) => connection,
            None => copy.socket,
        };
        if let Some(owner) = sender.filter(|owner| owner.pid != 0) {
            return Owned { socket, owner, known_by: KnownBy::Sent };
        }
        if let Some(known) = self.connections.get(&socket).filter(|known| known.by != KnownBy::Unknown) {
            return Owned { socket, owner: known.owner, known_by: known.by };
        }
        let known_by = match copy.state {
            _ if copy.owner.pid == 0 => KnownBy::Unknown,
            SocketState::Udp { held: true } => KnownBy::Held,
            SocketState::Udp { held: false } => KnownBy::Made,
            SocketState::Opening => KnownBy::Connected,
            // A connection has what its listener had until it is used.
            SocketState::Listener | SocketState::Open => KnownBy::Listens,
            SocketState::Gone => KnownBy::Unknown,
        };
        let owner = if known_by == KnownBy::Unknown { Owner::default() } else { copy.owner };
        Owned { socket, owner, known_by }
    }

    /// The connection that a packet of a listener has become, where one has.
    fn connection_of(&self, copy: &PacketCopy) -> Option<ConnectionId> {
        let frame = Frame::new(1, record::Instant::from_nanos(0), LinkType::RAW, &copy.bytes);
        let Ok(Packet::Tcp(segment)) = dissect(&frame, &mut Reassembly::default()) else { return None };
        let ends = match copy.direction {
            Direction::Sent => (segment.source, segment.destination),
            Direction::Received => (segment.destination, segment.source),
        };
        self.by_ends.get(&ends).copied()
    }
}
