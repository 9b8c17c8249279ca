//! Requests and answers, recognised by the order of what is sent and received on a connection.
//!
//! **Does:** joins the sends and receives of a connection to exchanges. The bytes that the client
//! writes until the first byte of an answer arrives are a request, and what arrives until it writes
//! again is the answer; seen from the server likewise. Where both ends of a connection are among
//! the events, the two views of one exchange are joined by their addresses and by sequence numbers.
//! Both ends of such a connection are on this host, so their stamps are on one `CLOCK_MONOTONIC`.
//!
//! A request that a program answers is joined with those that it made itself for it, where all that
//! the program does is among the events ([`Requests::joining_programs`]).
//!
//! Labels come from elsewhere: what packets say at their beginning is an event, and is joined to
//! the exchange that begins with that very byte.
//!
//! **Does not:** read any protocol. Requests that are sent before the answer to the one before has
//! begun are one request here, and an answer that overlaps the next request is cut at that request;
//! both are said to overlap and are not divided.
//!
//! **Guarantees:** pure; bounded memory for each followed connection; every send and receive is in
//! an exchange, or counted.

mod exchange;
mod heads;
mod threads;
mod upstream;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use record::{
    Basis, Components, Connection, ConnectionId, Event, Head, Instant, Join, Lost, Moments, Monotonic, Nanos, Opening,
    Request, Role, SeqNumber, Upstream,
};

use exchange::Exchange;
use heads::Heads;
use threads::Threads;
use upstream::{Asked, Division, Programs, Served};

/// How long after the end of its connection an exchange is kept open: a program may still read.
const AFTER_CLOSE: Nanos = Nanos::from_secs(1);
/// Finished exchanges of a server that are kept for their clients' ends.
const REMEMBERED: usize = 64;
/// Connections that have ended and are kept for the same reason.
const CLOSED: usize = 1024;
/// Connections with beginnings of packets that are not announced yet: an accepted one is announced
/// when its request is read. One that no process of the target uses never is.
const UNANNOUNCED: usize = 1024;

#[derive(Debug)]
struct Side {
    ends: (SocketAddr, SocketAddr),
    /// `None`: not known, and what it sends and receives is no request.
    role: Option<Role>,
    least: Option<Nanos>,
    /// When it was accepted, where that was seen.
    accepted: Option<Instant<Monotonic>>,
    /// It has ended.
    closed: bool,
    /// When the SYN was sent and when the connection was established, until its first exchange has
    /// taken it.
    set_up: Option<(Instant<Monotonic>, Instant<Monotonic>)>,
    open: Option<Exchange>,
    /// By the ends of request and answer.
    finished: VecDeque<((SeqNumber, SeqNumber), Moments)>,
    heads: Heads,
}

impl Side {
    /// With its role, where that is known.
    fn known(&mut self) -> Option<(&mut Self, Role)> {
        let role = self.role?;
        Some((self, role))
    }
}

/// Joins events to requests.
#[derive(Debug, Default)]
pub struct Requests {
    sides: HashMap<ConnectionId, Side>,
    by_ends: HashMap<(SocketAddr, SocketAddr), ConnectionId>,
    closed: VecDeque<(ConnectionId, Option<Instant<Monotonic>>)>,
    /// Beginnings of packets of connections that are not announced yet, and those connections in
    /// the order in which they came.
    unannounced: HashMap<ConnectionId, Heads>,
    order: VecDeque<ConnectionId>,
    /// Whether a request is to have a label.
    labels: bool,
    /// Whose requests are joined with those that they make themselves, where any are.
    programs: Option<Programs>,
    /// Events that were missed up to now.
    missed: u64,
    incomplete: u64,
    unsolicited: u64,
    unlabelled: u64,
}

/// Linux draws the ports of clients from here on, unless it is set otherwise
/// (net.ipv4.ip_local_port_range).
pub const CLIENT_PORTS: u16 = 32_768;

/// Who asks: whoever connected, which the kernel shows of most connections that were found. Of the
/// others the end with a port below those of clients is the server; where that does not decide, the
/// role is not known.
fn role(connection: &Connection) -> Option<Role> {
    let local = connection.local.port() >= CLIENT_PORTS;
    let remote = connection.remote.port() >= CLIENT_PORTS;
    match (connection.opening, connection.accepted) {
        (Opening::Connected, _) | (Opening::Found, Some(false)) => Some(Role::Client),
        (Opening::Accepted, _) | (Opening::Found, Some(true)) => Some(Role::Server),
        (Opening::Found, None) if local == remote => None,
        (Opening::Found, None) if local => Some(Role::Client),
        (Opening::Found, None) => Some(Role::Server),
    }
}

impl Requests {
    /// Joins requests that are to have a label; those that get none are counted.
    pub fn with_labels() -> Self {
        Self { labels: true, ..Self::default() }
    }

    /// The same, and joins those that a program answers with those that it makes itself for them.
    /// All connections of each program have to be among the events, and all that it sends and
    /// receives on them.
    pub fn joining_programs(self) -> Self {
        Self { programs: Some(Programs::default()), ..self }
    }

    /// Whether programs are joined.
    pub fn joins_programs(&self) -> bool {
        self.programs.is_some()
    }

    /// So much was missed up to now: where that is more than before, requests that a program had
    /// open meanwhile are not joined with its own.
    pub fn missed(&mut self, lost: &Lost, now: Instant<Monotonic>) {
        let missed = lost.missed_of_requests();
        if let Some(programs) = self.programs.as_mut().filter(|_| missed > self.missed) {
            programs.missed(now);
        }
        self.missed = missed;
    }

    /// Takes an event in; passes on the request that it ends, if it ends one.
    pub fn event(&mut self, event: &Event, each: &mut dyn FnMut(Request)) {
        match event {
            Event::Connection(connection) => self.connection(connection),
            Event::SetUp(connect) => {
                let side = connect.connection.and_then(|id| self.sides.get_mut(&id));
                if let (Some(side), Opening::Connected) = (side, connect.opening) {
                    side.set_up = connect.stamps.syn.zip(connect.stamps.established);
                }
            }
            Event::Send(send) => {
                let Some((side, role)) = self.sides.get_mut(&send.connection).and_then(Side::known) else {
                    self.unsolicited += 1;
                    return self.programs.iter_mut().for_each(|programs| programs.blind(send.owner.pid));
                };
                let began = send.stamps.call.unwrap_or(send.stamps.send);
                let next = role == Role::Client
                    && side.open.as_ref().is_some_and(|e| {
                        e.received.pieces > 0 && e.moments.arrived.is_none_or(|arrived| began >= arrived)
                    });
                let overlaps = role == Role::Client && side.open.as_mut().is_some_and(|e| e.note_overlap(send));
                if next {
                    self.end(send.connection, each);
                }
                let Some(side) = self.sides.get_mut(&send.connection) else { return };
                if let Some(now) = exchange::round_trip(send) {
                    side.least = Some(side.least.map_or(now, |least| least.min(now)));
                }
                let accepted = side.accepted;
                match (&mut side.open, role) {
                    (Some(open), _) => open.add_send(send),
                    (None, Role::Client) => {
                        let open = side.open.insert(Exchange::default());
                        open.add_send(send);
                        if overlaps {
                            open.set_overlapping();
                        }
                    }
                    (None, Role::Server) => {
                        self.unsolicited += 1;
                        // The request came before the trace, or there is none.
                        let (connection, ended) = (send.connection, Some(send.stamps.send));
                        let threads = Threads::of(send.thread);
                        let unseen = Served { connection, threads, began: accepted, read: None, ended };
                        return self
                            .programs
                            .iter_mut()
                            .for_each(|programs| programs.served_unseen(send.owner.pid, unseen));
                    }
                }
                if let Some(programs) = &mut self.programs {
                    programs.open(send.owner.pid, send.connection, role == Role::Client);
                }
            }
            Event::Receive(receive) => {
                let Some((side, role)) = self.sides.get_mut(&receive.connection).and_then(Side::known) else {
                    self.unsolicited += 1;
                    return self.programs.iter_mut().for_each(|programs| programs.blind(receive.reader.pid));
                };
                let came = receive.stamps.arrived().or(receive.stamps.read);
                let next = role == Role::Server
                    && side
                        .open
                        .as_ref()
                        .is_some_and(|e| e.sent.pieces > 0 && e.moments.sent.is_none_or(|sent| came >= Some(sent)));
                if next {
                    self.end(receive.connection, each);
                }
                let Some(side) = self.sides.get_mut(&receive.connection) else { return };
                match (&mut side.open, role) {
                    (Some(open), _) => open.add_receive(receive),
                    (None, Role::Server) => side.open.insert(Exchange::default()).add_receive(receive),
                    (None, Role::Client) => {
                        self.unsolicited += 1;
                        return;
                    }
                }
                // What was not read is nothing that its program has open.
                if let Some(programs) = self.programs.as_mut().filter(|_| receive.stamps.read.is_some()) {
                    programs.open(receive.reader.pid, receive.connection, role == Role::Client);
                }
            }
            Event::Closed { connection, .. } => {
                self.sides.entry(*connection).and_modify(|side| side.closed = true);
                self.closed.push_back((*connection, None));
                if self.closed.len() > CLOSED {
                    self.forget(each);
                }
            }
            Event::Head(head) => self.head(head),
            _ => {}
        }
    }

    fn head(&mut self, head: &Head) {
        let id = head.connection;
        if let Some(side) = self.sides.get_mut(&id) {
            side.heads.add(head);
            return;
        }
        if !self.unannounced.contains_key(&id) {
            self.order.push_back(id);
            if self.order.len() > UNANNOUNCED
                && let Some(oldest) = self.order.pop_front()
            {
                self.unannounced.remove(&oldest);
            }
        }
        self.unannounced.entry(id).or_default().add(head);
    }

    /// To be called now and then with the time: ends the exchanges of connections that are over.
    pub fn tick(&mut self, now: Instant<Monotonic>, each: &mut dyn FnMut(Request)) {
        let mut over = Vec::new();
        for (id, since) in &mut self.closed {
            match since {
                None => *since = Some(now),
                Some(since) if now.since(*since).is_ok_and(|age| age >= AFTER_CLOSE) => over.push(*id),
                Some(_) => {}
            }
        }
        // Their ends stay known, for the other end of the same connection.
        for id in over {
            self.end(id, each);
        }
    }

    /// Ends every exchange that is open.
    pub fn finish(&mut self, each: &mut dyn FnMut(Request)) {
        let mut open: Vec<_> = self.sides.iter().filter(|(_, side)| side.open.is_some()).map(|(id, _)| *id).collect();
        // Clients first would do as well: an exchange is found by its other end whether open or
        // ended. The order is for the reader.
        open.sort_by_key(|id| self.sides[id].open.as_ref().and_then(|e| e.moments.sent.min(e.moments.arrived)));
        for id in open {
            self.end(id, each);
        }
    }

    /// Requests that are not divided into components, those without the label that they were to
    /// have, and events that belong to none; all other counters are zero.
    pub fn lost(&self) -> Lost {
        Lost {
            request_incomplete: self.incomplete,
            request_unsolicited: self.unsolicited,
            request_unlabelled: self.unlabelled,
            ..Lost::default()
        }
    }

    fn connection(&mut self, connection: &Connection) {
        let ends = (connection.local, connection.remote);
        let heads = self.unannounced.remove(&connection.id).unwrap_or_default();
        self.order.retain(|&id| id != connection.id);
        let role = role(connection);
        let accepted = (connection.opening == Opening::Accepted).then_some(connection.since);
        let (least, set_up, open, finished) = (None, None, None, VecDeque::new());
        let side = Side { ends, role, least, accepted, closed: false, set_up, open, finished, heads };
        self.by_ends.insert(ends, connection.id);
        self.sides.insert(connection.id, side);
    }

    /// Lets the connection go that ended first.
    fn forget(&mut self, each: &mut dyn FnMut(Request)) {
        let Some((id, _)) = self.closed.pop_front() else { return };
        self.end(id, each);
        if let Some(side) = self.sides.remove(&id)
            && self.by_ends.get(&side.ends) == Some(&id)
        {
            self.by_ends.remove(&side.ends);
        }
    }

    fn end(&mut self, id: ConnectionId, each: &mut dyn FnMut(Request)) {
        let Some(side) = self.sides.get_mut(&id) else { return };
        let Some(mut exchange) = side.open.take() else { return };
        let (role, least, ends) = (side.role.unwrap_or(Role::Client), side.least, side.ends);
        if let (Role::Client, Some((syn, established))) = (role, side.set_up.take()) {
            exchange.connected(syn, established);
        }
        let (request, answer) = match role {
            Role::Client => (exchange.sent, exchange.received),
            Role::Server => (exchange.received, exchange.sent),
        };
        let http = side.heads.take(role, &request, &answer);
        self.unlabelled += u64::from(self.labels && http.method.is_none());
        let key = (request.end_seq(), answer.end_seq());
        let peer = match role {
            Role::Server => {
                side.finished.push_back((key, exchange.moments));
                if side.finished.len() > REMEMBERED {
                    side.finished.pop_front();
                }
                None
            }
            Role::Client => self.other_end(ends, key),
        };
        let mut found = exchange.components(role, least, peer.as_ref());
        self.incomplete += u64::from(found.is_none());
        let upstream = match role {
            Role::Client => {
                let asked = self.asked(&exchange, ends, found.map(|found| found.0).as_ref());
                self.programs.iter_mut().for_each(|programs| programs.asked(id, asked));
                None
            }
            Role::Server => self.upstream(id, &exchange, found.as_mut().map(|found| &mut found.0)),
        };
        let basis = match role {
            Role::Client => Basis::LeastRoundTrip,
            Role::Server => Basis::Server,
        };
        each(Request {
            connection: id,
            role,
            owner: exchange.owner,
            request,
            answer,
            moments: exchange.moments,
            overlapping: Some(exchange.overlaps(role)),
            basis: found.map_or(basis, |f| f.1),
            components: found.map(|f| f.0),
            http,
            upstream,
        });
    }

    /// What a program asked for an exchange that it has answered; the time that it waited for that
    /// is then no more of its own work.
    fn upstream(
        &mut self,
        id: ConnectionId,
        exchange: &Exchange,
        components: Option<&mut Components>,
    ) -> Option<Upstream> {
        let this = answered(id, exchange);
        let (mut served, mut own) = (Vec::new(), Vec::new());
        for other in self.programs.as_ref()?.open_of(exchange.owner.pid).filter(|other| *other != id) {
            let Some((side, open)) = self.sides.get(&other).and_then(|side| Some((side, side.open.as_ref()?))) else {
                continue;
            };
            match side.role {
                Some(Role::Client) => {
                    let key = (open.sent.end_seq(), open.received.end_seq());
                    let found = open.components(Role::Client, side.least, self.other_end(side.ends, key).as_ref());
                    own.push(self.asked(open, side.ends, found.map(|found| found.0).as_ref()));
                }
                _ => {
                    let mut other = answered(other, open);
                    // The program may go on with its answer until the connection ends, or another
                    // request comes; but what it wrote last before this one began is over.
                    other.ended = other.ended.filter(|ended| side.closed || Some(*ended) < this.began);
                    served.push(other);
                }
            }
        }
        let application = components.as_ref().map(|components| components.application);
        let (upstream, waited) = self.programs.as_mut()?.served(this, application, (&served, &own))?;
        if let Some(components) = components.filter(|_| upstream.join == Join::Joined) {
            components.application = components.application.saturating_sub(waited);
            components.upstream = Some(waited);
        }
        Some(upstream)
    }

    /// An exchange that a program began, on a connection with these ends.
    fn asked(&self, exchange: &Exchange, ends: (SocketAddr, SocketAddr), components: Option<&Components>) -> Asked {
        let m = &exchange.moments;
        Asked {
            remote: ends.1,
            threads: exchange.threads,
            began: m.connecting.or(m.sent),
            written: m.written,
            ready: m.ready,
            ended: m.read,
            overlapping: exchange.overlaps(Role::Client),
            both_ends: self.by_ends.contains_key(&(ends.1, ends.0)),
            division: components.map(Division::new),
        }
    }

    /// The same exchange, seen from the other end.
    fn other_end(&self, ends: (SocketAddr, SocketAddr), key: (SeqNumber, SeqNumber)) -> Option<Moments> {
        let side = self.sides.get(self.by_ends.get(&(ends.1, ends.0))?)?;
        let of = |e: &Exchange| (e.received.end_seq(), e.sent.end_seq());
        let open = side.open.as_ref().filter(|e| of(e) == key).map(|e| e.moments);
        open.or_else(|| side.finished.iter().rev().find(|(ended, _)| *ended == key).map(|(_, moments)| *moments))
    }
}

/// An exchange that a program answers. As long as it has written nothing, the answer is to come.
fn answered(connection: ConnectionId, exchange: &Exchange) -> Served {
    let Moments { read, written, .. } = exchange.moments;
    Served { connection, threads: exchange.threads, began: exchange.first_read, read, ended: written }
}

#[cfg(test)]
mod tests;
