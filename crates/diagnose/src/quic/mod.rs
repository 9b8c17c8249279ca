//! QUIC of a capture: who spoke to whom by which name, how long each part of the handshake took,
//! and what can be seen of the rest, which is encrypted (RFC 9000, 9001, 9369).
//!
//! Datagrams with a long header come one by one, and those with a short one of servers that were
//! seen ([`Quic::take`]). A connection begins with an Initial packet that its own connection ID
//! opens. At the end, what was seen becomes rows, and findings are drawn.

mod analysis;
mod conversation;
mod crypto;
mod findings;
mod flow;
mod limit;
mod spin;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use hashbrown::HashTable;
use record::conversation::Side;
use record::{columns, inside};
use wire::packet::quic::{self, FIRST_DATAGRAM, Id, Kind, Packet, packets};
use wire::packet::{Icmp, Span};
use wire::{Carrier, Ecn, Payload};

use crate::key::Key;
use crate::tls::Moment;
use crate::unread;
pub use analysis::Analysis;
pub(crate) use analysis::{Beside, Reached};
use conversation::{Conversation, Datagram, Missing, Opening};

/// Connections kept at most: 550 MB with what is made of them at the end. Further ones are counted.
const MOST: usize = 200_000;
/// Connections whose beginning is read at the same time at most, the latest: 130 MB of pieces at
/// worst.
const OPEN: usize = 4_096;
/// A connection is found from another address by an ID of this many bytes or more: a shorter one
/// may be there by chance.
const TELLING: usize = 8;
/// Paths to servers that no connection is known to have taken, which are kept: the first.
const PATHS: usize = 4_096;

/// Counts over all of QUIC in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections found.
    pub connections: u64,
    /// Datagrams of them.
    pub datagrams: u64,
    /// Datagrams with a long header that are of none.
    pub other: u64,
    /// Datagrams with a short header to or from a server's port, of none whose beginning is there.
    pub without_beginning: u64,
    /// Datagrams with a long header of connections beyond the limit.
    pub beyond_limit: u64,
}

columns! {
    Totals: "quic totals", "", blank = Self::default();
    connections = connections, "connections found";
    datagrams = datagrams, "their datagrams";
    other = other, "datagrams that have a long header and are of no connection: of other versions or protocols, or damaged";
    without_beginning = without_beginning, "datagrams with a short header to or from the port of a server, of no connection whose beginning is in the capture";
    beyond_limit = beyond_limit, "datagrams with a long header of connections beyond 200,000";
}
inside!(Totals);

impl Totals {
    /// What was not followed, in words.
    pub fn not_read(&self) -> Vec<String> {
        unread::in_words(&[
            (self.without_beginning, "datagrams that may be of QUIC connections whose beginning is not in the capture"),
            (self.beyond_limit, "datagrams of QUIC connections beyond the limit"),
        ])
    }

    fn add(&mut self, other: &Self) {
        let Self { connections, datagrams, other: unknown, without_beginning, beyond_limit } = other;
        self.connections += connections;
        self.datagrams += datagrams;
        self.other += unknown;
        self.without_beginning += without_beginning;
        self.beyond_limit += beyond_limit;
    }
}

/// Where a pair of endpoints leads.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: Key,
    index: u32,
    /// The client is the lower end of the key.
    client_low: bool,
}

/// Datagrams with a short header between ends where no connection began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The ends of the first.
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) first: Moment,
}

/// Follows QUIC in a capture.
#[derive(Debug)]
pub struct Quic {
    most: usize,
    most_open: usize,
    seed: [u64; 2],
    all: Vec<Conversation>,
    /// The latest of each pair of endpoints.
    by_ends: HashTable<Place>,
    /// The place that was asked for last.
    latest: Option<Place>,
    /// By the IDs of servers, where those are long enough; and which lengths occur.
    by_id: HashMap<Id, u32>,
    lengths: u32,
    /// Where a connection may have gone on with an ID that nobody else can know as one of its own.
    paths: HashMap<[SocketAddr; 2], Path>,
    /// Those whose beginning was read last, the oldest first.
    open: VecDeque<u32>,
    room: Vec<u8>,
    totals: Totals,
    /// The latest packet.
    until: u64,
}

impl Quic {
    /// One of so many that share a capture, which has seen nothing. All of QUIC is the first one's,
    /// so that it has all the room. The seed is that of [`crate::Options`].
    pub fn new(seed: [u64; 2]) -> Self {
        Self {
            most: MOST,
            most_open: OPEN,
            seed,
            all: Vec::new(),
            by_ends: HashTable::new(),
            latest: None,
            by_id: HashMap::new(),
            lengths: 0,
            paths: HashMap::new(),
            open: VecDeque::new(),
            room: Vec::new(),
            totals: Totals::default(),
            until: 0,
        }
    }

    /// Takes what QUIC has to do with the next packet, in the order of the capture, and has what
    /// comes to and from a server kept from its first packet on.
    pub fn take(&mut self, payload: &mut Payload) {
        let now = Moment { at: payload.at().as_nanos(), packet: payload.number() };
        self.until = self.until.max(now.at);
        match *payload.carrier() {
            Carrier::Quic { source, destination, ecn } => {
                let known = self.all.len();
                self.datagram((source, destination), ecn, now, payload.span());
                if let Some(c) = self.all.get(known) {
                    payload.watch_server(c.server.port());
                }
            }
            Carrier::Error(icmp) => self.error(&icmp, now),
            Carrier::Datagram { .. } | Carrier::Segment { .. } => {}
        }
    }

    fn find(&mut self, key: &Key) -> Option<Place> {
        if let Some(place) = self.latest.filter(|place| place.key == *key) {
            return Some(place);
        }
        let place = *self.by_ends.find(key.hash(self.seed), |place| place.key == *key)?;
        self.latest = Some(place);
        Some(place)
    }

    /// These endpoints lead to this connection from here on.
    fn enter(&mut self, place: Place) {
        let (seed, hash) = (self.seed, place.key.hash(self.seed));
        match self.by_ends.find_mut(hash, |other| other.key == place.key) {
            Some(other) => *other = place,
            None => _ = self.by_ends.insert_unique(hash, place, |place| place.key.hash(seed)),
        }
        self.latest = None;
    }

    fn datagram(&mut self, ends: (SocketAddr, SocketAddr), ecn: Ecn, now: Moment, span: Span<'_>) {
        let (key, low) = Key::new(&ends.0, &ends.1);
        let is_short = quic::goes_on_short(span.data) == Some(true);
        let place = match self.find(&key) {
            Some(place) if is_short => Some(place),
            Some(place) => self.own_or_next(place, ends, low, now, span),
            None if is_short => self.moved(ends, (key, low), now, span),
            None => self.begin(ends, (key, low), now, span),
        };
        let Some(place) = place else { return };
        let side = if low == place.client_low { Side::Client } else { Side::Server };
        let c = &mut self.all[place.index as usize];
        let (is_known, was_open) = (c.server_id.is_some(), c.opening.is_some());
        let is_first = c.began == now;
        c.take(&Datagram { side, span, ecn, now }, &mut self.room);
        self.totals.datagrams += 1;
        if is_first && !c.begins() {
            c.missing = Some(Missing::Beginning);
            c.limit.confirm();
        }
        if let Some(id) = c.server_id.filter(|id| !is_known && id.len() >= TELLING) {
            self.lengths |= 1 << id.len();
            self.by_id.insert(id, place.index);
        }
        if !was_open && c.opening.is_some() {
            self.opened(place.index);
        }
    }

    /// The beginning of one more connection is read: that of the oldest gives way to it.
    fn opened(&mut self, index: u32) {
        self.open.push_back(index);
        if self.open.len() > self.most_open
            && let Some(oldest) = self.open.pop_front().filter(|oldest| *oldest != index)
        {
            self.all[oldest as usize].opening = None;
        }
    }

    /// A datagram with a long header between known ends: of the connection there, or of the next
    /// one.
    fn own_or_next(
        &mut self,
        place: Place,
        ends: (SocketAddr, SocketAddr),
        low: bool,
        now: Moment,
        span: Span<'_>,
    ) -> Option<Place> {
        let Some(first) = packets(span).next().and_then(Result::ok) else {
            self.totals.other += 1;
            return None;
        };
        let from_client = low == place.client_low;
        let c = &self.all[place.index as usize];
        // Of one whose beginning is missing, it is not certain who the client is.
        let may_begin = if from_client { !c.has(&first) } else { c.missing == Some(Missing::Beginning) };
        let is_initial = matches!(first.kind, Kind::Initial | Kind::OtherVersion);
        if may_begin && is_initial && !matches!(self.beginning(&first, span), None | Some(Beginning::Middle)) {
            return self.begin(ends, (place.key, low), now, span);
        }
        Some(place)
    }

    /// A datagram with a long header between ends that are not known: the client's first, or one of
    /// a connection whose beginning is not there.
    fn begin(
        &mut self,
        ends: (SocketAddr, SocketAddr),
        (key, low): (Key, bool),
        now: Moment,
        span: Span<'_>,
    ) -> Option<Place> {
        let found =
            packets(span).next().and_then(Result::ok).and_then(|first| Some((first, self.beginning(&first, span)?)));
        let Some((first, beginning)) = found else {
            self.totals.other += 1;
            return None;
        };
        if self.all.len() >= self.most {
            self.totals.beyond_limit += 1;
            return None;
        }
        let (from_client, missing) = match &beginning {
            Beginning::Opened(_) | Beginning::OtherVersion => (true, None),
            Beginning::Cut => (true, Some(Missing::Cut)),
            // The port of a server is the lower one, as a rule.
            Beginning::Middle => (ends.0.port() > ends.1.port(), Some(Missing::Beginning)),
        };
        let (client, server) = if from_client { ends } else { (ends.1, ends.0) };
        let mut c = Conversation::new(client, server, &first, now);
        c.missing = missing;
        if missing == Some(Missing::Beginning) {
            let (own, other) = (first.source, first.destination);
            (c.original, c.client_id) = if from_client { (other, own) } else { (Id::default(), other) };
            // What the server may send depends on what is missing.
            c.limit.confirm();
        }
        let index = self.all.len() as u32;
        if let Beginning::Opened(opening) = beginning {
            c.opening = Some(opening);
            self.all.push(c);
            self.opened(index);
        } else {
            self.all.push(c);
        }
        let place = Place { key, index, client_low: low == from_client };
        self.enter(place);
        Some(place)
    }

    /// What a first packet shows, as far as it is one of QUIC.
    fn beginning(&mut self, first: &Packet<'_>, span: Span<'_>) -> Option<Beginning> {
        let is_large = span.wire >= FIRST_DATAGRAM;
        match first.kind {
            Kind::Initial if !first.is_whole() && is_large => Some(Beginning::Cut),
            Kind::Initial => {
                let opening = Opening::new(first.version, first.destination)?;
                if opening.opens(first, &mut self.room) {
                    return Some(Beginning::Opened(opening));
                }
                Self::is_all_quic(span).then_some(Beginning::Middle)
            }
            Kind::Handshake => Self::is_all_quic(span).then_some(Beginning::Middle),
            Kind::OtherVersion if quic::is_reserved(first.version) && is_large => Some(Beginning::OtherVersion),
            _ => None,
        }
    }

    /// Whether a datagram is made of packets from its first to its last byte, but for padding,
    /// which others are not.
    fn is_all_quic(span: Span<'_>) -> bool {
        let mut bytes = 0;
        for packet in packets(span) {
            match packet {
                Ok(packet) if packet.kind != Kind::OtherVersion => bytes += packet.wire(),
                _ => return false,
            }
        }
        bytes > 0 && span.skip(bytes as usize).data.iter().all(|byte| *byte == 0)
    }

    /// A datagram with a short header between ends that are not known: of a client that goes on
    /// from another address, if the ID is one of a server's.
    fn moved(
        &mut self,
        (source, destination): (SocketAddr, SocketAddr),
        (key, low): (Key, bool),
        now: Moment,
        span: Span<'_>,
    ) -> Option<Place> {
        let packet = packets(span).next().and_then(Result::ok);
        let lengths = (TELLING..=20).filter(|length| self.lengths >> length & 1 == 1);
        let found = packet.and_then(|packet| {
            lengths.filter_map(|length| packet.id_of(length)).find_map(|id| self.by_id.get(&id).copied())
        });
        // Whoever makes up addresses makes no more places than two for each connection.
        let index =
            found.filter(|index| self.all[*index as usize].server == destination && self.by_ends.len() < 2 * self.most);
        let Some(index) = index else {
            // Without the fixed bit, it is of a known connection or of another protocol.
            if !quic::begins_short(span.data) {
                return None;
            }
            self.totals.without_beginning += 1;
            if self.paths.len() < PATHS {
                let ends = [source.min(destination), source.max(destination)];
                self.paths.entry(ends).or_insert(Path { from: source, to: destination, first: now });
            }
            return None;
        };
        self.all[index as usize].moves(source, now);
        let place = Place { key, index, client_low: low };
        self.enter(place);
        Some(place)
    }

    /// An error for a client's datagram.
    fn error(&mut self, icmp: &Icmp, now: Moment) {
        let is_unreachable = icmp.kind == if icmp.v6 { 1 } else { 3 };
        // Too large a datagram of version 4 is no end of it.
        let is_size = !icmp.v6 && icmp.code == 4;
        let Some(quoted) = icmp.quoted.filter(|_| is_unreachable && !is_size) else { return };
        let (key, low) = Key::new(&quoted.source, &quoted.destination);
        let Some(place) = self.find(&key).filter(|place| place.client_low == low) else { return };
        let c = &mut self.all[place.index as usize];
        if c.heard.is_none() {
            c.unreachable.get_or_insert(now);
        }
    }

    /// Joins two that saw different connections of one capture, in the order of packet numbers.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.totals.add(&other.totals);
        self.until = self.until.max(other.until);
        self.paths.extend(other.paths);
        if other.all.is_empty() {
            return self;
        }
        self.all.extend(other.all);
        self.all.sort_by_key(|c| c.began.packet);
        // Their numbers have changed: what comes from here on is of none of them.
        (self.by_ends, self.by_id, self.latest) = (HashTable::new(), HashMap::new(), None);
        self.open.clear();
        self
    }

    /// The latest packet.
    pub(crate) fn latest(&self) -> u64 {
        self.until
    }

    /// By its first packet, the path that each connection may have moved to: it begins where the
    /// connection ends here, and no other connection to the server ended so.
    pub(crate) fn may_have_moved(&self) -> HashMap<u64, Path> {
        let servers: HashSet<SocketAddr> = self.paths.values().map(|path| path.to).collect();
        let mut by_server: HashMap<SocketAddr, Vec<&Conversation>> = HashMap::new();
        for c in self.all.iter().filter(|c| servers.contains(&c.server)) {
            by_server.entry(c.server).or_default().push(c);
        }
        let mut paths: Vec<&Path> = self.paths.values().collect();
        paths.sort_by_key(|path| path.first.packet);
        let mut moved = HashMap::new();
        for path in paths {
            let of = by_server.get(&path.to).map(Vec::as_slice).unwrap_or_default();
            let mut may_be = of.iter().filter(|c| c.may_go_on(path.first));
            if let (Some(c), None) = (may_be.next(), may_be.next()) {
                moved.entry(c.began.packet).or_insert(*path);
            }
        }
        moved
    }

    /// Datagrams beyond the limit.
    pub fn beyond_limit(&self) -> u64 {
        self.totals.beyond_limit
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        Totals { connections: self.certain().count() as u64, ..self.totals }
    }

    /// Those that are certain to be of QUIC: a first packet of a reserved version, to which nothing
    /// came back, may be anything.
    fn certain(&self) -> impl Iterator<Item = &Conversation> + '_ {
        let is_certain = |c: &&Conversation| {
            quic::is_known(c.first_version) || c.negotiation.is_some() || c.heard.is_some() || c.unreachable.is_some()
        };
        self.all.iter().filter(is_certain)
    }
}

/// What a datagram shows that begins a connection here.
enum Beginning {
    /// The client's first Initial, which its own connection ID opens.
    Opened(Box<Opening>),
    /// One that the capture cut short.
    Cut,
    /// One of a reserved version, by which a client asks for the server's.
    OtherVersion,
    /// A later packet.
    Middle,
}
