//! From segments in capture order to connections.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::OnceLock;

use hashbrown::HashTable;
use record::conversation::Way;
use record::tls::Handshake as TlsHandshake;
use record::transaction::Transaction;
use wire::packet::{Arp, Icmp, Udp as Datagram};
use wire::{Packet, Payload, Protocol, Segment};

use crate::connection::Connection;
use crate::dns::{self, Dns};
use crate::fetch::{self, Fetch};
use crate::handshake::Handshake;
use crate::kept::Recorder;
use crate::key::Key;
use crate::network::{self, Network, NextHops};
use crate::quic::{self, Quic};
use crate::report::{self, Report};
use crate::tls::{self, Tls};
use crate::together::Paths;
use crate::trains::{Train, Trains};
use crate::transactions::{self, Call};
use crate::udp::{self, Udp};

/// What to follow, and how much may be kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of the table's hash. A program that reads captures from others passes a random one, so
    /// that no one can make all connections fall into one slot.
    pub seed: [u64; 2],
    /// Connections followed at most; packets of further ones are counted in
    /// [`Totals::beyond_limit`].
    pub connections: usize,
    /// Of which connections to keep packets.
    pub keep: Keep,
    /// Of so many followers of one capture this is one, each with its own connections: it keeps its
    /// share of what may be kept in all.
    pub shards: usize,
}

/// Of which connections to keep packets for a story, a dump, a comparison or a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// No one's.
    Nothing,
    /// The connection's with this number (from 1, by first packet), so many at most.
    Connection(usize, usize),
    /// The first connections' up to this number, so many packets at most of each.
    First(usize, usize),
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: [0, 0], connections: 2_000_000, keep: Keep::Nothing, shards: 1 }
    }
}

/// Counts over the whole capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Totals {
    /// Segments taken.
    pub segments: u64,
    /// Payload bytes in them.
    pub payload_bytes: u64,
    /// Segments of connections beyond the limit: seen, not analysed.
    pub beyond_limit: u64,
    /// Copies made by the capture itself.
    pub capture_copies: u64,
    /// Packets that were damaged on the way, by their TCP checksum.
    pub damaged: u64,
    /// Packets with a wrong TCP checksum that may or may not have been damaged.
    pub wrong_checksums: u64,
    /// Packets that have an earlier time than the one before them in their connection.
    pub backwards: u64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        let Self { segments, payload_bytes, beyond_limit, capture_copies, damaged, wrong_checksums, backwards } = other;
        self.damaged += damaged;
        self.wrong_checksums += wrong_checksums;
        self.segments += segments;
        self.payload_bytes += payload_bytes;
        self.beyond_limit += beyond_limit;
        self.capture_copies += capture_copies;
        self.backwards += backwards;
    }
}

/// A connection, as far as it has come.
#[derive(Debug)]
enum Held {
    Handshake(Handshake),
    Followed(Box<Connection>),
}

impl Held {
    fn key(&self) -> Key {
        match self {
            Self::Handshake(handshake) => handshake.key(),
            Self::Followed(c) => c.key,
        }
    }

    #[inline]
    fn is_of(&self, key: &Key) -> bool {
        match self {
            Self::Handshake(handshake) => handshake.key() == *key,
            Self::Followed(c) => c.key == *key,
        }
    }

    fn first_number(&self) -> u64 {
        match self {
            Self::Handshake(handshake) => handshake.first_number(),
            Self::Followed(c) => c.first_number,
        }
    }

    /// It as far as it was followed.
    #[inline(always)]
    fn followed(&self) -> Option<&Connection> {
        match self {
            Self::Handshake(_) => None,
            Self::Followed(c) => Some(c),
        }
    }

    /// With what its packets so far have shown.
    fn with<T>(&self, look: impl FnOnce(&Connection) -> T) -> T {
        match self {
            Self::Handshake(handshake) => look(&handshake.followed(None)),
            Self::Followed(c) => look(c),
        }
    }
}

/// Where the latest connections stand, to be found without their memory or the table's.
/// Each key has one place, which the latest of those that share it takes.
#[derive(Debug)]
struct Latest(Box<[Option<(Key, u32)>]>);

impl Latest {
    /// So many that few of a thousand connections share one. Of these 192 KiB, what they use stays
    /// beside the core.
    const PLACES: usize = 4_096;

    fn new() -> Self {
        Self(vec![None; Self::PLACES].into())
    }

    #[inline(always)]
    fn find(&self, key: &Key) -> Option<usize> {
        match &self.0[key.slot(self.0.len())] {
            Some((of, index)) if of == key => Some(*index as usize),
            _ => None,
        }
    }

    #[inline(always)]
    fn keep(&mut self, key: Key, index: usize) {
        let slot = key.slot(self.0.len());
        self.0[slot] = Some((key, index as u32));
    }

    fn forget(&mut self) {
        self.0.fill(None);
    }
}

/// Follows every connection of a capture.
#[derive(Debug)]
pub struct Follower {
    options: Options,
    table: HashTable<u32>,
    /// In boxes one by one: a list of a million that doubles its room would need three times its
    /// size for a moment.
    connections: Vec<Held>,
    latest: Latest,
    totals: Totals,
    trains: Trains,
    /// What connections did together, once that is asked for: no report is made without all of
    /// them, and there may be a million. A further packet makes it out of date.
    paths: OnceLock<Paths>,
    /// DNS, beside TCP.
    pub dns: Dns,
    /// TLS, beside TCP.
    pub tls: Tls,
    /// QUIC, beside TCP.
    pub quic: Quic,
    /// UDP, beside TCP.
    pub udp: Udp,
    /// What the network itself says.
    pub network: Network,
}

impl Follower {
    /// A follower that has seen nothing.
    pub fn new(options: Options) -> Self {
        let shards = options.shards.max(1);
        let options = Options { connections: options.connections.div_ceil(shards), ..options };
        Self {
            options,
            table: HashTable::new(),
            connections: Vec::new(),
            latest: Latest::new(),
            totals: Totals::default(),
            trains: Trains::default(),
            paths: OnceLock::new(),
            dns: Dns::new(options.connections, shards, options.seed),
            tls: Tls::new(shards),
            quic: Quic::new(options.seed),
            udp: Udp::new(options.connections, shards, options.seed),
            network: Network::new(shards),
        }
    }

    /// Takes the next segment, in the order of the capture.
    pub fn take(&mut self, s: &Segment) {
        self.count(s);
        let (key, low) = Key::new(&s.source, &s.destination);
        match self.known(&key) {
            Some(i) => _ = self.follow(i, &key, low, s),
            None => _ = self.meet(&key, low, s),
        }
    }

    /// Takes the next packet, whatever it is, in the order of the capture. What DNS, TLS or QUIC
    /// have to do with it is for [`Follower::take_payload`].
    pub fn take_packet(&mut self, packet: &Packet<impl Borrow<Segment>>) {
        match packet {
            Packet::Tcp(segment) => {
                let segment = segment.borrow();
                self.take(segment);
                self.dns.reaches(segment.at.as_nanos());
                if self.network.watches() {
                    self.network.sent(segment);
                }
            }
            Packet::Udp(datagram) => self.take_datagram(datagram),
            Packet::Icmp(icmp) => self.take_icmp(icmp),
            Packet::Arp(arp) => self.take_arp(arp),
        }
    }

    /// Takes what DNS, TLS or QUIC have to do with the next packet, in the order of the capture.
    pub fn take_payload(&mut self, payload: &mut Payload) {
        match payload.protocol() {
            Protocol::Dns => self.dns.take(payload),
            Protocol::Tls => self.tls.take(payload),
            Protocol::Quic => self.quic.take(payload),
        }
    }

    /// Takes the next message of ICMP, in the order of the capture.
    pub fn take_icmp(&mut self, icmp: &Icmp) {
        self.dns.reaches(icmp.at.as_nanos());
        self.network.icmp(icmp);
    }

    /// Takes the next message of ARP, in the order of the capture.
    pub fn take_arp(&mut self, arp: &Arp) {
        self.dns.reaches(arp.at.as_nanos());
        self.network.arp(arp);
    }

    /// Takes the next datagram, in the order of the capture.
    pub fn take_datagram(&mut self, datagram: &Datagram) {
        self.dns.reaches(datagram.at.as_nanos());
        self.udp.take(datagram);
        if self.network.watches() {
            self.network.sent_datagram(datagram);
        }
    }

    /// Takes the next segments, in the order of the capture: as [`Follower::take`] each of them,
    /// and faster where hundreds of connections take turns. Returns how many do. Their memory is
    /// fetched early `with` what can do that.
    pub fn take_batch(&mut self, batch: &[Segment], with: impl Fetch) -> usize {
        let most = self.options.connections.min(u32::MAX as usize);
        // The order of packets decides which connections there is room for, and of which packets
        // are kept.
        if self.options.keep != Keep::Nothing || self.connections.len() + batch.len() > most {
            batch.iter().for_each(|s| self.take(s));
            return 0;
        }
        let known = self.connections.len();
        let mut trains = std::mem::take(&mut self.trains);
        trains.arrange(batch, self.options.seed);
        trains.iter_mut().for_each(|train| train.known = self.known(&train.key));
        for (n, train) in trains.all().iter().enumerate() {
            self.fetch(&trains.all()[n + 1..], batch, with);
            let mut found = train.known;
            let mut places = trains.places(train).peekable();
            while let Some((at, low)) = places.next() {
                if let Some((next, _)) = places.peek() {
                    fetch::all(&batch[*next], with);
                }
                let s = &batch[at];
                self.count(s);
                found = match found {
                    Some(i) => self.follow(i, &train.key, low, s),
                    None => self.meet(&train.key, low, s),
                };
            }
        }
        let connections = trains.len();
        self.trains = trains;
        self.number(known);
        connections
    }

    /// Fetches what the next trains need, while this one's packets are taken: of the third the
    /// connection, of the second what that points to, and of the first what is farther away, and
    /// its first packet.
    #[inline(always)]
    fn fetch(&self, next: &[Train], batch: &[Segment], with: impl Fetch) {
        let connection = |n: usize| self.connections[next.get(n)?.known?].followed();
        fetch::each(connection(2), with);
        connection(1).into_iter().for_each(|c| c.fetch_boxes(with));
        connection(0).into_iter().for_each(|c| c.fetch_further(with));
        fetch::each(next.first().map(|train| &batch[train.first()]), with);
    }

    #[inline(always)]
    fn count(&mut self, s: &Segment) {
        if self.paths.get().is_some() {
            self.paths = OnceLock::new();
        }
        self.totals.segments += 1;
        self.totals.payload_bytes += u64::from(s.payload);
    }

    /// Brings the connections from `known` on into the order of their first packets: one that
    /// reuses the endpoints of an earlier one was met with the packets of that.
    fn number(&mut self, known: usize) {
        if self.connections[known..].is_sorted_by_key(Held::first_number) {
            return;
        }
        let (connections, seed) = (&self.connections, self.options.seed);
        for held in &connections[known..] {
            let key = held.key();
            if let Ok(entry) = self.table.find_entry(key.hash(seed), |&i| connections[i as usize].is_of(&key)) {
                entry.remove();
            }
        }
        self.connections[known..].sort_by_key(Held::first_number);
        (known..self.connections.len()).for_each(|index| self.enter(self.connections[index].key(), index));
        self.latest.forget();
    }

    /// Gives a segment to the connection that the table has for its key. Returns which has the next
    /// one of this key.
    #[inline(always)]
    fn follow(&mut self, i: usize, key: &Key, low: bool, s: &Segment) -> Option<usize> {
        let held = &mut self.connections[i];
        if let Held::Handshake(handshake) = held {
            if handshake.admits(s) {
                return Some(i);
            }
            *held = Held::Followed(handshake.followed(None));
        }
        let Held::Followed(c) = held else { return Some(i) };
        if c.followed_by_uncounted {
            self.totals.beyond_limit += 1;
            return Some(i);
        }
        let way = if low == c.client_low { Way::ToServer } else { Way::ToClient };
        if !c.is_reused_by(way, s) {
            c.take(way, s);
            return Some(i);
        }
        self.open_again(i, key, low, s)
    }

    /// A separate connection on the endpoints of an earlier one.
    #[cold]
    fn open_again(&mut self, i: usize, key: &Key, low: bool, s: &Segment) -> Option<usize> {
        // Where there is no room, what comes on this pair of endpoints belongs to the connection
        // that was not followed.
        if self.is_full()
            && let Held::Followed(c) = &mut self.connections[i]
        {
            c.followed_by_uncounted = true;
        }
        self.open(key, low, s).or(Some(i))
    }

    /// The connection that has a key.
    #[inline(always)]
    fn known(&mut self, key: &Key) -> Option<usize> {
        self.latest.find(key).or_else(|| self.find(key))
    }

    /// The connection that the table has for a key.
    #[inline(never)]
    fn find(&mut self, key: &Key) -> Option<usize> {
        let connections = &self.connections;
        let i = *self.table.find(key.hash(self.options.seed), |&i| connections[i as usize].is_of(key))? as usize;
        self.latest.keep(*key, i);
        Some(i)
    }

    /// A segment of no connection that is in the table. Returns which has the next one of its key.
    #[cold]
    fn meet(&mut self, key: &Key, low: bool, s: &Segment) -> Option<usize> {
        if self.table.is_empty() && !self.connections.is_empty() {
            (0..self.connections.len()).for_each(|index| self.enter(self.connections[index].key(), index));
            return match self.find(key) {
                Some(i) => self.follow(i, key, low, s),
                None => self.open(key, low, s),
            };
        }
        self.open(key, low, s)
    }

    /// Puts a connection into the table, in place of an earlier one on the same endpoints.
    fn enter(&mut self, key: Key, index: usize) {
        let (connections, seed) = (&self.connections, self.options.seed);
        let hash = key.hash(seed);
        match self.table.find_mut(hash, |&i| connections[i as usize].is_of(&key)) {
            Some(slot) => *slot = index as u32,
            None => {
                self.table.insert_unique(hash, index as u32, |&i| connections[i as usize].key().hash(seed));
            }
        }
    }

    /// Returns the connection that begins, where there is room for it.
    #[cold]
    fn open(&mut self, key: &Key, low: bool, s: &Segment) -> Option<usize> {
        let (key, index) = (*key, self.connections.len());
        if self.is_full() {
            self.totals.beyond_limit += 1;
            return None;
        }
        let recorder = match self.options.keep {
            Keep::Connection(n, limit) if n == index + 1 => Some(limit),
            Keep::First(n, limit) if index < n => Some(limit),
            _ => None,
        };
        let held = match Handshake::new(s).filter(|_| recorder.is_none()) {
            Some(handshake) => Held::Handshake(handshake),
            None => {
                let recorder = recorder.map(|limit| Box::new(Recorder::new(limit)));
                let mut c = Box::new(Connection::new(key, low, s, recorder));
                let way = if low == c.client_low { Way::ToServer } else { Way::ToClient };
                c.take_first(way, s);
                Held::Followed(c)
            }
        };
        self.connections.push(held);
        self.enter(key, index);
        self.latest.keep(key, index);
        Some(index)
    }

    fn is_full(&self) -> bool {
        // Numbers of 32 bits stand in the table.
        self.connections.len() >= self.options.connections.min(u32::MAX as usize)
    }

    /// Joins two followers that saw different connections of one capture, in the order of packet
    /// numbers. The outcome is as if one had seen all, unless either came to its limit.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.options.connections = self.options.connections.saturating_add(other.options.connections);
        self.paths = OnceLock::new();
        self.totals.add(&other.totals);
        self.dns = self.dns.join(other.dns);
        self.tls = self.tls.join(other.tls);
        self.quic = self.quic.join(other.quic);
        self.udp = self.udp.join(other.udp);
        self.network = self.network.join(other.network);
        // Filled again should another segment come: mostly that was the last.
        self.table = HashTable::new();
        // The numbers are taken out first: a sort that looks for each of them in another place of
        // memory waits for that each time.
        let numbered = |c: Held| (c.first_number(), c);
        let mut all: Vec<(u64, Held)> = self.connections.into_iter().chain(other.connections).map(numbered).collect();
        // Both are in order, which is what this sort finds and merges.
        all.sort_by_key(|(number, _)| *number);
        self.connections = all.into_iter().map(|(_, c)| c).collect();
        self.latest.forget();
        self
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// What lies beyond a limit: segments of further connections, messages of DNS, hellos of TLS,
    /// datagrams of QUIC and of all UDP, what the network said.
    pub fn beyond_limit(&self) -> u64 {
        let beside = self.dns.beyond_limit() + self.tls.beyond_limit() + self.quic.beyond_limit();
        self.totals.beyond_limit + beside + self.udp.beyond_limit() + self.network.beyond_limit()
    }

    /// What hosts did to reach a name, from the lookup to the answer.
    pub fn transactions(
        &self,
        dns: &dns::Analysis<'_>,
        tls: &tls::Analysis<'_>,
        quic: &quic::Analysis<'_>,
    ) -> Vec<Transaction> {
        // What is asked for in a flood of questions leads to no connection.
        let mut ends: HashSet<IpAddr> = HashSet::new();
        for key in self.connections.iter().filter(|_| !dns.is_empty()).map(Held::key) {
            ends.extend([true, false].map(|low| key.end(low).ip()));
        }
        ends.extend(quic.connections().flat_map(|c| [c.client.ip(), c.server.ip()]));
        let resolved = dns.resolved(&ends);
        let given = transactions::given(&resolved);
        let handshakes: HashMap<u64, &TlsHandshake> =
            tls.handshakes().filter(|h| h.connection > 0).map(|h| (h.connection, h)).collect();
        if given.is_empty() && handshakes.is_empty() && quic.connections().len() == 0 {
            return Vec::new();
        }
        let is_given = |held: &Held| {
            let key = held.key();
            [true, false].into_iter().any(|low| given.contains_key(&key.end(low).ip()))
        };
        let numbered = (1..).zip(&self.connections);
        let wanted = numbered.filter(|(number, held)| handshakes.contains_key(&(*number as u64)) || is_given(held));
        let calls = wanted.map(|(number, held)| held.with(|c| Call::new(number, c)));
        let calls = calls.chain(quic.reached().map(Call::over_quic)).collect();
        let ends = self.connections.iter().flat_map(|held| [true, false].map(|low| held.key().end(low).ip()));
        let others = self.network.echoed().chain(self.udp.hosts()).chain(self.dns.servers());
        let hops = NextHops::new(self.network.next_hops(), ends.chain(others));
        transactions::gather(calls, &handshakes, (&resolved, &given), &hops)
    }

    /// What all of QUIC means, beside the TCP connections that clients fell back to.
    pub fn quic_analysis(&self) -> quic::Analysis<'_> {
        let silent: HashSet<IpAddr> = self.quic.silent().collect();
        let beside = |(number, held): (u64, &Held)| {
            held.with(|c| quic::Beside {
                number,
                client: c.client().ip(),
                server: c.server().ip(),
                start: c.first_syn_at.map_or(c.first_at, NonZeroU64::get),
                is_answered: c.halves[Way::ToClient].count.packets > 0,
            })
        };
        let is_silent =
            |held: &Held| [true, false].map(|low| held.key().end(low).ip()).iter().any(|ip| silent.contains(ip));
        let wanted = (1..).zip(&self.connections).filter(|(_, held)| !silent.is_empty() && is_silent(held));
        let beside: Vec<quic::Beside> = wanted.map(beside).collect();
        quic::Analysis::new(&self.quic, &self.dns, &beside)
    }

    /// What all of UDP means, beside the connections of QUIC.
    pub fn udp_analysis(&self, quic: &quic::Analysis<'_>) -> udp::Analysis<'_> {
        udp::Analysis::new(&self.udp, &self.dns, quic.connections())
    }

    /// What the network said, beside the connections of TCP and the conversations of UDP.
    pub fn network_analysis(&self, udp: &udp::Analysis<'_>) -> network::Analysis {
        let (seed, ends) = (self.options.seed, self.network.tcp_ends());
        let wanted: HashSet<u64> = ends.iter().map(|[a, b]| Key::new(a, b).0.hash(seed)).collect();
        let is_wanted = |held: &Held| wanted.contains(&held.key().hash(seed));
        let numbered = (1..).zip(&self.connections).filter(|(_, held)| !wanted.is_empty() && is_wanted(held));
        let beside = |(number, held): (u64, &Held)| held.with(|c| network::Beside::new(number, c));
        let beside: Vec<network::Beside> = numbered.map(beside).collect();
        network::Analysis::new(&self.network, &beside, udp.conversations(), self.dns.latest().max(self.quic.latest()))
    }

    /// What all of TLS means, beside its connections.
    pub fn tls_analysis(&self) -> tls::Analysis<'_> {
        let seed = self.options.seed;
        let mut wanted: HashMap<u64, Vec<(Key, usize)>> = HashMap::new();
        for (i, (client, server)) in self.tls.ends().enumerate() {
            let key = Key::new(&client, &server).0;
            wanted.entry(key.hash(seed)).or_default().push((key, i));
        }
        let mut beside = vec![None; self.tls.ends().count()];
        let followed = self.connections.iter().enumerate().filter(|_| !wanted.is_empty());
        for (number, held) in followed {
            let Held::Followed(c) = held else { continue };
            for (_, i) in wanted.get(&c.key.hash(seed)).into_iter().flatten().filter(|(key, _)| *key == c.key) {
                let (client, packet, seq) = self.tls.beginning(*i);
                // A later connection on the same endpoints began after it.
                if c.first_number <= packet {
                    beside[*i] = Some(tls::Beside::new(number + 1, c, client, seq));
                }
            }
        }
        tls::Analysis::new(&self.tls, &beside)
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals;
        let more = |held: &&Held| !matches!(held, Held::Handshake(handshake) if handshake.counts_for_nothing());
        for held in self.connections.iter().filter(more) {
            held.with(|c| {
                totals.backwards += c.steps.as_ref().map_or(0, |s| u64::from(s.backwards));
                for h in &c.halves {
                    totals.capture_copies += h.anomalies.capture_copies;
                    totals.damaged += h.anomalies.damage.as_ref().map_or(0, |d| u64::from(d.count));
                    totals.wrong_checksums += h.anomalies.damage.as_ref().map_or(0, |d| u64::from(d.unclear));
                }
            });
        }
        totals
    }

    /// The report on a connection by its number, from 1 in the order of first packets.
    pub fn report(&self, number: usize) -> Option<Report> {
        let held = self.connections.get(number.checked_sub(1)?)?;
        Some(held.with(|c| self.report_on(number, c)))
    }

    fn report_on(&self, number: usize, c: &Connection) -> Report {
        let report = report::make(number, c, self.paths());
        let is_silent = self.network.has_errors() && c.halves[Way::ToClient].count.packets == 0;
        match is_silent.then(|| self.network.refusal(c.client(), c.server())).flatten() {
            Some(refusal) => refusal.told(report),
            None => report,
        }
    }

    /// The reports on all connections, one made at a time.
    pub fn reports(&self) -> impl Iterator<Item = Report> {
        self.connections.iter().enumerate().map(|(i, held)| held.with(|c| self.report_on(i + 1, c)))
    }

    /// The paths that something is transferred over.
    fn paths(&self) -> &Paths {
        self.paths.get_or_init(|| {
            Paths::of(self.connections.iter().filter_map(|held| match held {
                Held::Followed(c) => Some(&**c),
                Held::Handshake(_) => None,
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn a_connection_leaves_room_for_its_lists_below_two_kibibytes() {
        // Beside it: two lists of two segments in flight (80 bytes each) and two of RTT samples,
        // with the allocator's overhead.
        assert!(size_of::<Connection>() <= 1_856, "{} bytes", size_of::<Connection>());
    }

    #[test]
    fn a_connection_that_was_only_asked_for_takes_a_twentieth_of_one_that_is_followed() {
        let bytes = size_of::<Held>() + size_of::<crate::handshake::PlainSyn>();
        assert!(bytes <= 96, "{bytes}");
    }

    #[test]
    fn a_batch_comes_to_the_same_as_its_segments_one_by_one() {
        let server = SocketAddr::from(([192, 0, 2, 1], 443));
        // 20 connections by turns, each opened again with another sequence number after 15 packets
        // of which the last is not its own.
        let segment = |n: u64| {
            let client = SocketAddr::from(([10, 0, 0, 1], 40_000 + (n % 20) as u16));
            let (round, from_client) = (n / 20, !n.is_multiple_of(3));
            let (source, destination) = if from_client { (client, server) } else { (server, client) };
            let opens = round % 15 == n % 5;
            let flags = if opens { wire::Flags::SYN } else { wire::Flags::ACK };
            let seq = record::SeqNumber((round / 15 * 1_000_000 + round * 100) as u32);
            let payload = if opens { 0 } else { 100 };
            Segment {
                seq,
                flags,
                payload,
                ..Segment::new(n + 1, record::Instant::from_nanos(n * 1_000), source, destination)
            }
        };
        let segments: Vec<Segment> = (0..6_000).map(segment).collect();
        let told = |follower: &Follower| {
            let mut lines = Vec::new();
            follower.reports().for_each(|r| r.write_json(&mut lines));
            (follower.len(), follower.totals(), lines)
        };
        let mut one_by_one = Follower::new(Options::default());
        segments.iter().for_each(|s| one_by_one.take(s));
        assert!(one_by_one.len() > 100, "{}", one_by_one.len());
        for size in [1, 7, 500, 6_000] {
            let mut batches = Follower::new(Options::default());
            segments.chunks(size).for_each(|batch| assert!(batches.take_batch(batch, ()) <= size.min(20)));
            assert!(told(&batches) == told(&one_by_one), "batches of {size}");
        }
        let few = Options { connections: 50, ..Options::default() };
        let (mut batches, mut limited) = (Follower::new(few), Follower::new(few));
        segments.chunks(300).for_each(|batch| _ = batches.take_batch(batch, ()));
        segments.iter().for_each(|s| limited.take(s));
        assert!(batches.beyond_limit() > 0 && told(&batches) == told(&limited));
    }

    #[test]
    fn a_segment_after_joining_finds_its_connection() {
        let server = SocketAddr::from(([192, 0, 2, 1], 443));
        let of = |number: u64| {
            let client = SocketAddr::from(([10, 0, 0, 1], 40_000 + number as u16));
            Segment::new(number, record::Instant::from_nanos(number), client, server)
        };
        let (mut odd, mut even) = (Follower::new(Options::default()), Follower::new(Options::default()));
        (1..=100).for_each(|n| if n % 2 == 1 { odd.take(&of(n)) } else { even.take(&of(n)) });
        let mut joined = odd.join(even);
        (1..=100).for_each(|n| joined.take(&of(n)));
        assert_eq!((joined.len(), joined.totals().segments), (100, 200));
        assert!((1..=100).all(|n| joined.report(n).is_some_and(|r| r.client.port() == 40_000 + n as u16)));
    }
}
