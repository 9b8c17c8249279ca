//! Everything that was told, in bounded memory.

use std::collections::HashMap;
use std::net::SocketAddr;

use model::{Connection, ConnectionId, ConnectionTotals, Event, Instant, Monotonic, Owner, Send};
use stats::Precision;

use crate::{Aggregate, Datagrams, Packets, Receives, Requests, Slowest};

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections with figures of their own; the least active beyond it are counted together. Each takes 290 KiB at
    /// the very most and some 50 KiB as a rule.
    pub connections: usize,
    /// The slowest sends, whole.
    pub slowest: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 500, slowest: 5 }
    }
}

/// A connection with the figures of its sends.
#[derive(Clone, Debug)]
pub struct ConnectionSummary {
    /// The connection.
    pub connection: Connection,
    /// The figures of its sends.
    pub sends: Aggregate,
    /// What the kernel counted, when it was followed no more.
    pub totals: Option<ConnectionTotals>,
    last: u64,
}

/// Connections beyond the limit, together.
#[derive(Clone, Debug)]
pub struct Others {
    /// How many.
    pub connections: u64,
    /// The figures of their sends.
    pub sends: Aggregate,
}

/// What a trace has told so far.
#[derive(Clone, Debug)]
pub struct Summary {
    limits: Limits,
    total: Aggregate,
    connections: HashMap<ConnectionId, ConnectionSummary>,
    others: Others,
    slowest: Slowest,
    receives: Receives,
    requests: Requests,
    events: u64,
    first: Option<Instant<Monotonic>>,
    packets: Packets,
    datagrams: Datagrams,
}

impl Summary {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            total: Aggregate::new(Precision::Fine),
            connections: HashMap::new(),
            others: Others { connections: 0, sends: Aggregate::new(Precision::Coarse) },
            slowest: Slowest::new(limits.slowest),
            receives: Receives::new(limits.slowest),
            requests: Requests::new(limits.slowest),
            events: 0,
            first: None,
            packets: Packets::default(),
            datagrams: Datagrams::default(),
        }
    }

    /// Adds what a tracer told.
    pub fn event(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Connection(connection) => self.open(connection),
            Event::Send(send) => self.send(send),
            Event::Receive(receive) => {
                let ends = self.ends(receive.connection);
                self.receives.add(receive, ends);
                self.own_up(receive.connection, receive.reader);
            }
            Event::Request(request) => {
                let ends = self.ends(request.connection);
                self.requests.add(request, ends);
            }
            Event::Packet(packet) => self.packets.add(packet),
            Event::Datagram(datagram) => self.datagrams.add(datagram),
            Event::Closed { connection, totals } => {
                if let Some(c) = self.connections.get_mut(connection) {
                    c.totals = Some(*totals);
                }
            }
        }
    }

    fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        self.connections.get(&id).map(|c| (c.connection.local, c.connection.remote))
    }

    /// A connection picked up in softirq has no owner until somebody writes to it or reads from it.
    fn own_up(&mut self, id: ConnectionId, owner: Owner) {
        if let Some(c) = self.connections.get_mut(&id)
            && c.connection.owner.pid == 0
        {
            c.connection.owner = owner;
        }
    }

    fn open(&mut self, connection: &Connection) {
        if self.connections.len() >= self.limits.connections.max(1) && !self.connections.contains_key(&connection.id) {
            // Closed ones go first, then those with the fewest sends, then those that have been silent longest.
            let least = self.connections.values().min_by_key(|c| (c.totals.is_none(), c.sends.sends, c.last));
            if let Some(id) = least.map(|c| c.connection.id)
                && let Some(folded) = self.connections.remove(&id)
            {
                self.others.connections += 1;
                self.others.sends.merge(&folded.sends);
            }
        }
        let last = self.events;
        self.connections.entry(connection.id).and_modify(|c| c.connection = connection.clone()).or_insert_with(|| {
            ConnectionSummary {
                connection: connection.clone(),
                sends: Aggregate::new(Precision::Coarse),
                totals: None,
                last,
            }
        });
    }

    fn send(&mut self, send: &Send) {
        self.total.add(send);
        self.first = Some(self.first.map_or(send.stamps.send, |first| first.min(send.stamps.send)));
        match self.connections.get_mut(&send.connection) {
            Some(c) => {
                c.sends.add(send);
                c.last = self.events;
                // As in `own_up`.
                if c.connection.owner.pid == 0 {
                    c.connection.owner = send.owner;
                }
                let ends = (c.connection.local, c.connection.remote);
                self.slowest.offer(send, || Some(ends));
            }
            None => {
                self.others.sends.add(send);
                self.slowest.offer(send, || None);
            }
        }
    }

    /// The packets of TCP.
    pub fn packets(&self) -> &Packets {
        &self.packets
    }

    /// The datagrams of UDP.
    pub fn datagrams(&self) -> &Datagrams {
        &self.datagrams
    }

    /// All sends together.
    pub fn total(&self) -> &Aggregate {
        &self.total
    }

    /// The connections with figures of their own, those with the most sends first.
    pub fn connections(&self) -> Vec<&ConnectionSummary> {
        let mut all: Vec<_> = self.connections.values().collect();
        all.sort_by_key(|c| (std::cmp::Reverse((c.sends.sends, c.sends.bytes)), c.connection.id));
        all
    }

    /// Connections that were folded together because there were too many.
    pub fn others(&self) -> &Others {
        &self.others
    }

    /// How many connections were followed.
    pub fn connection_count(&self) -> u64 {
        self.connections.len() as u64 + self.others.connections
    }

    /// The slowest sends.
    pub fn slowest(&self) -> &Slowest {
        &self.slowest
    }

    /// What was received.
    pub fn receives(&self) -> &Receives {
        &self.receives
    }

    /// Requests and answers.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// When the first send was made.
    pub fn first_send(&self) -> Option<Instant<Monotonic>> {
        self.first
    }
}
