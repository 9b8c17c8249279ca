//! TLS of a capture: each handshake in clear view, how long each part of it took, and who was
//! waited for (RFC 8446, 5246).
//!
//! Segments that begin with a hello come one by one, and those of their connections until the first
//! answer that is encrypted ([`Tls::take`]). At the end, handshakes are put beside their
//! connections, which have the round trips, and findings are drawn.

mod analysis;
mod findings;
mod negotiation;
mod stream;

use std::collections::HashMap;
use std::net::SocketAddr;

use record::SeqNumber;
use record::conversation::Side;
use record::{columns, inside};
use wire::packet::tls::{hello_at, message};
use wire::{Carrier, Flags, Payload};

pub use analysis::Analysis;
pub(crate) use analysis::Beside;
pub(crate) use negotiation::Moment;
use negotiation::Negotiation;
use stream::Room;

/// Handshakes kept at most: 200 MB with their hellos. Further ones are counted.
const MOST: usize = 200_000;
/// Handshakes followed at the same time at most.
const OPEN: usize = 16_384;
/// Bytes held at most of segments that wait for a missing one.
const HELD: usize = 32 << 20;

/// Counts over all of TLS in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Handshakes found.
    pub handshakes: u64,
    /// Hellos of further ones.
    pub beyond_limit: u64,
}

columns! {
    Totals: "tls totals", "", blank = Self::default();
    handshakes = handshakes, "handshakes found";
    beyond_limit = beyond_limit, "hellos of handshakes beyond 200,000, or beyond 16,384 at the same time";
}
inside!(Totals);

impl Totals {
    /// What was not followed, in words.
    pub fn not_read(&self) -> Vec<String> {
        crate::unread::in_words(&[(self.beyond_limit, "TLS handshakes beyond the limit")])
    }
}

/// Follows TLS in a capture.
#[derive(Debug)]
pub struct Tls {
    most: usize,
    most_open: usize,
    all: Vec<Negotiation>,
    /// The latest of each client and server.
    by_ends: HashMap<(SocketAddr, SocketAddr), usize>,
    open: usize,
    room: Room,
    beyond_limit: u64,
}

impl Tls {
    /// One of so many that share a capture, which has seen nothing.
    pub fn new(shards: usize) -> Self {
        let share = |all: usize| all.div_ceil(shards.max(1));
        Self {
            most: share(MOST),
            most_open: share(OPEN),
            all: Vec::new(),
            by_ends: HashMap::new(),
            open: 0,
            room: Room(share(HELD)),
            beyond_limit: 0,
        }
    }

    /// Takes what TLS has to do with the next packet, in the order of the capture, and has the
    /// payload of its connection kept as long as it is followed.
    pub fn take(&mut self, payload: &mut Payload) {
        let Carrier::Segment { source, destination, seq, flags } = *payload.carrier() else { return };
        let now = Moment { at: payload.at().as_nanos(), packet: payload.number() };
        let found = [(source, destination, Side::Client), (destination, source, Side::Server)].into_iter();
        let mut found = found.filter_map(|(client, server, of)| Some((*self.by_ends.get(&(client, server))?, of)));
        let mut latest = found.next();
        if let Some((i, of)) = latest
            && self.all[i].is_open()
            && flags.contains(Flags::SYN)
            && !self.all[i].has_syn(of, seq, flags)
        {
            // Another connection on the same endpoints.
            self.close(i, payload);
            latest = None;
        }
        let latest = match latest {
            Some(found) if self.all[found.0].is_open() => Some(found),
            // What is retransmitted of one that is over.
            Some((_, Side::Server)) => None,
            Some((i, Side::Client)) if self.all[i].seq == seq => None,
            _ => self.begin((source, destination), seq, now, payload),
        };
        if let Some((i, of)) = latest {
            self.all[i].take(of, (seq, flags), payload.span(), now, &mut self.room);
            if !self.all[i].is_open() {
                self.left(payload);
            }
        }
    }

    /// A segment of a connection that is not followed: one begins where it is a hello.
    fn begin(
        &mut self,
        (source, destination): (SocketAddr, SocketAddr),
        seq: SeqNumber,
        now: Moment,
        payload: &mut Payload,
    ) -> Option<(usize, Side)> {
        let of = match hello_at(payload.span().data)? {
            message::CLIENT_HELLO => Side::Client,
            _ => Side::Server,
        };
        let (client, server) = if of == Side::Client { (source, destination) } else { (destination, source) };
        if self.all.len() >= self.most || self.open >= self.most_open {
            self.beyond_limit += 1;
            return None;
        }
        let index = self.all.len();
        self.all.push(Negotiation::new(client, server, seq, now));
        self.by_ends.remove(&(server, client));
        self.by_ends.insert((client, server), index);
        self.open += 1;
        payload.watch(source, destination);
        Some((index, of))
    }

    fn close(&mut self, i: usize, payload: &mut Payload) {
        self.all[i].close(&mut self.room);
        self.left(payload);
    }

    /// The one that the payload's connection had is followed no longer.
    fn left(&mut self, payload: &mut Payload) {
        if let Carrier::Segment { source, destination, .. } = *payload.carrier() {
            payload.leave(source, destination);
        }
        self.open -= 1;
    }

    /// Joins two that saw different connections of one capture, in the order of packet numbers.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.beyond_limit += other.beyond_limit;
        self.most += other.most;
        self.most_open += other.most_open;
        self.open += other.open;
        self.room.0 += other.room.0;
        self.all.extend(other.all);
        self.all.sort_by_key(|n| n.began.packet);
        let ends = self.all.iter().enumerate().map(|(i, n)| ((n.client, n.server), i));
        self.by_ends = ends.collect();
        self
    }

    /// Hellos beyond the limit.
    pub fn beyond_limit(&self) -> u64 {
        self.beyond_limit
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        Totals { handshakes: self.all.len() as u64, beyond_limit: self.beyond_limit }
    }

    /// Each handshake's client and server.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> + '_ {
        self.all.iter().map(|n| (n.client, n.server))
    }

    /// The client of a handshake, its first packet, and where that is in its direction.
    pub(crate) fn beginning(&self, i: usize) -> (SocketAddr, u64, SeqNumber) {
        let n = &self.all[i];
        (n.client, n.began.packet, n.seq)
    }
}
