//! Two hosts' traces of the same connections, put together.
//!
//! **Does:** finds the connections that both traced, by their addresses and ports, or, where NAT
//! has changed those, by the sequence numbers and sizes of what was asked and answered. Reconciles
//! the two clocks from the traffic ([`Clocks`]) and divides each request as where both ends were
//! traced on one host, and the network's time by direction.
//!
//! **Does not:** read runs. A NAT that rewrites sequence numbers too leaves nothing to find its
//! connections by.
//!
//! **Guarantees:** pure; no negative time; the components of a request add up to its whole.

mod clocks;
mod figures;

use std::collections::HashMap;

use record::{Basis, Components, Connection, ConnectionId, Instant, Message, Monotonic, Nanos, Peer, Request, Role};

pub use clocks::{Ahead, Clocks, Crossing, Drift};
pub use figures::{Clock, Figure, Found, Hosts, Piece, Slow, gather};

/// What one host traced.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its connections.
    pub connections: Vec<Connection>,
    /// Its requests, of both roles.
    pub requests: Vec<Request>,
}

/// By what a connection's two ends were found to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// Addresses, ports and sequence numbers.
    Addresses,
    /// Sequence numbers and sizes: the addresses differ.
    SequenceNumbers,
}

/// A request that both hosts saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// As the client has it, with the components of both ends. Durations of the peer are by the
    /// peer's clock.
    pub request: Request,
    /// The server's id of the connection.
    pub at_server: ConnectionId,
    /// From the client's driver to the server.
    pub there: Nanos,
    /// From the server's driver to the client.
    pub back: Nanos,
    /// The bound on the error of `there` and of `back`; their sum, and all else, does not have it.
    pub error: Nanos,
}

/// Both hosts' traces, joined.
#[derive(Clone, Debug)]
pub struct Join {
    /// In the order of the client's run.
    pub joined: Vec<Joined>,
    /// The server's clock by the client's; `None` where nothing was joined.
    pub clocks: Option<Clocks>,
    /// Connections of the client's that the server's run has too.
    pub connections: Vec<(ConnectionId, ConnectionId, FoundBy)>,
    /// Requests that the client made.
    pub asked: u64,
    /// Of those, on connections that were found in both runs.
    pub shared: u64,
    /// Of those, seen by both hosts and not divided: a stamp is missing or out of order.
    pub undivided: u64,
}

/// What identifies an exchange at both ends: it survives NAT.
type Key = (u32, u64, u32, u64);

fn key(request: &Request) -> Key {
    let of = |message: &Message| (message.first_seq.0, message.bytes);
    let ((asked, bytes), (answered, more)) = (of(&request.request), of(&request.answer));
    (asked, bytes, answered, more)
}

/// Joins the requests of a client with those of its server.
pub fn join(client: &Host, server: &Host) -> Join {
    let asked: Vec<&Request> = client.requests.iter().filter(|r| r.role == Role::Client).collect();
    let mut answered: HashMap<Key, Vec<&Request>> = HashMap::new();
    for request in server.requests.iter().filter(|r| r.role == Role::Server) {
        answered.entry(key(request)).or_default().push(request);
    }
    let connections = connections(client, server, &asked, &answered);
    let peers: HashMap<ConnectionId, ConnectionId> = connections.iter().map(|&(a, b, _)| (a, b)).collect();
    let mut pairs = Vec::new();
    let mut shared = 0;
    for request in &asked {
        let Some(&at_server) = peers.get(&request.connection) else { continue };
        shared += 1;
        let other = answered.get(&key(request)).and_then(|all| all.iter().find(|r| r.connection == at_server));
        pairs.extend(other.map(|other| (*request, *other)));
    }
    let crossings: Vec<Crossing> = pairs.iter().flat_map(|(a, b)| crossings(a, b)).collect();
    let clocks = Clocks::of(&crossings);
    let joined: Vec<Joined> = match &clocks {
        Some(clocks) => pairs.iter().filter_map(|(a, b)| divided(a, b, clocks)).collect(),
        None => Vec::new(),
    };
    let undivided = (pairs.len() - joined.len()) as u64;
    Join { joined, clocks, connections, asked: asked.len() as u64, shared, undivided }
}

/// Which of the server's connections each of the client's is: the one with the most exchanges in
/// common, among those with the same addresses and ports where there are any.
fn connections(
    client: &Host,
    server: &Host,
    asked: &[&Request],
    answered: &HashMap<Key, Vec<&Request>>,
) -> Vec<(ConnectionId, ConnectionId, FoundBy)> {
    let ends: HashMap<ConnectionId, _> = server.connections.iter().map(|c| (c.id, (c.remote, c.local))).collect();
    let mut votes: HashMap<ConnectionId, HashMap<ConnectionId, u64>> = HashMap::new();
    for request in asked {
        for other in answered.get(&key(request)).into_iter().flatten() {
            *votes.entry(request.connection).or_default().entry(other.connection).or_default() += 1;
        }
    }
    let mut found = Vec::new();
    for connection in &client.connections {
        let Some(votes) = votes.get(&connection.id) else { continue };
        let own = (connection.local, connection.remote);
        let same = |id: &ConnectionId| ends.get(id) == Some(&own);
        let most = votes.iter().max_by_key(|(id, n)| (same(id), **n, std::cmp::Reverse(id.0)));
        let Some((&at_server, &n)) = most else { continue };
        let by = if same(&at_server) { FoundBy::Addresses } else { FoundBy::SequenceNumbers };
        // Two that fit equally well are not distinguished.
        let alike = votes.iter().filter(|(id, m)| **m == n && same(id) == same(&at_server)).count();
        if alike == 1 {
            found.push((connection.id, at_server, by));
        }
    }
    found
}

/// The last byte of the request on its way there, and that of the answer on its way back.
fn crossings(client: &Request, server: &Request) -> impl Iterator<Item = Crossing> + use<> {
    let of = |left: Option<Instant<Monotonic>>, arrived: Option<Instant<Monotonic>>, there| {
        left.zip(arrived).map(|(left, arrived)| Crossing { left, arrived, there })
    };
    let (a, b) = (&client.moments, &server.moments);
    [of(a.left, b.last_arrived, true), of(b.left, a.last_arrived, false)].into_iter().flatten()
}

/// The request with the components of both ends; `None` where a stamp is missing or out of order.
fn divided(client: &Request, server: &Request, clocks: &Clocks) -> Option<Joined> {
    let between = |from: Option<Instant<Monotonic>>, to: Option<Instant<Monotonic>>| to?.since(from?).ok();
    let (a, b) = (&client.moments, &server.moments);
    let own = client.components?;
    let away = between(a.left, a.arrived)?;
    let receive = between(b.last_arrived, b.ready)?;
    let application = between(b.ready, b.sent)?;
    let send = between(b.sent, b.first_left)?;
    // By the peer's clock, which may run faster by less than a thousandth.
    let peer = receive + application + send;
    if peer.0 > away.0 + away.0 / 1_000 + 1_000 {
        return None;
    }
    // What its clock runs faster is no time of the request.
    let application = application.saturating_sub(peer.saturating_sub(away));
    let network = away.saturating_sub(peer);
    let left = a.left?;
    let known = clocks.ahead(left);
    let there = i128::from(b.last_arrived?.as_nanos()) - i128::from(left.as_nanos()) - known.by;
    let there = Nanos(u64::try_from(there.max(0)).ok()?.min(network.0));
    let components = Components {
        network: Some(network),
        peer_application: Some(application),
        peer: Some(Peer { receive, send }),
        ..own
    };
    let request = Request { components: Some(components), basis: Basis::BothEnds, ..client.clone() };
    let error = Nanos(known.error.0.min(network.0));
    Some(Joined { request, at_server: server.connection, there, back: network.saturating_sub(there), error })
}

#[cfg(test)]
mod tests;
