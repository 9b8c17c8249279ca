//! UDP of a capture: who spoke to whom, how much, how long answers took, and what was lost of
//! streams whose datagrams are numbered.
//!
//! Datagrams come one by one ([`Udp::take`]); those of DNS are left to [`crate::dns`]. A
//! conversation of one datagram takes little memory, as a scan has hundreds of thousands of them.

mod analysis;
mod conversation;
mod findings;
mod flow;
mod numbers;
mod turns;

use std::net::IpAddr;

use hashbrown::HashTable;
use record::{Instant, columns, inside};
use wire::packet::{Head, Udp as Datagram};

use crate::key::Key;
pub use analysis::Analysis;
use conversation::Conversation;

/// Conversations kept at most; those of one datagram take 150 bytes, others 1 to 6 KB. Datagrams of
/// further ones are counted.
const MOST: usize = 200_000;

/// Counts over all of UDP in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Datagrams, those of DNS among them.
    pub datagrams: u64,
    /// Their payload, in bytes.
    pub bytes: u64,
    /// Datagrams on the ports of DNS.
    pub of_dns: u64,
    /// Datagrams of conversations beyond the limit.
    pub beyond_limit: u64,
}

columns! {
    Totals: "udp totals", "", blank = Self::default();
    datagrams = datagrams, "datagrams, those of DNS and QUIC among them";
    bytes = bytes, "their payload";
    of_dns = of_dns, "datagrams on the ports of DNS, multicast DNS and LLMNR, whose conversations are the lookups";
    beyond_limit = beyond_limit, "datagrams of conversations beyond 200,000, or beyond the connections that are followed if those are fewer";
}
inside!(Totals);

impl Totals {
    /// What was not followed, in words.
    pub fn not_read(&self) -> Vec<String> {
        crate::unread::in_words(&[(self.beyond_limit, "datagrams of UDP conversations beyond the limit")])
    }

    fn add(&mut self, other: &Self) {
        let Self { datagrams, bytes, of_dns, beyond_limit } = other;
        self.datagrams += datagrams;
        self.bytes += bytes;
        self.of_dns += of_dns;
        self.beyond_limit += beyond_limit;
    }
}

/// A conversation, as far as it has come.
#[derive(Debug)]
enum Held {
    /// Its only datagram.
    One(Box<One>),
    More(Box<Conversation>),
}

/// The only datagram of a conversation so far.
#[derive(Debug)]
struct One {
    key: Key,
    low: bool,
    number: u64,
    at: u64,
    payload: u32,
    hops: u8,
    head: Head,
}

impl One {
    fn conversation(&self) -> Conversation {
        let (source, destination) = (self.key.end(self.low), self.key.end(!self.low));
        let (at, network) = (Instant::from_nanos(self.at), wire::Network { ttl: self.hops, ..Default::default() });
        let Self { number, payload, head, .. } = *self;
        let in_fragments = false;
        let datagram = Datagram { number, at, source, destination, payload, network, in_fragments, head };
        Conversation::new(self.key, self.low, &datagram)
    }
}

impl Held {
    fn key(&self) -> Key {
        match self {
            Self::One(one) => one.key,
            Self::More(c) => c.key,
        }
    }

    fn first_packet(&self) -> u64 {
        match self {
            Self::One(one) => one.number,
            Self::More(c) => c.first_packet,
        }
    }
}

/// Follows UDP in a capture.
#[derive(Debug)]
pub struct Udp {
    most: usize,
    seed: [u64; 2],
    all: Vec<Held>,
    by_ends: HashTable<u32>,
    /// The one that was met last.
    latest: Option<(Key, u32)>,
    totals: Totals,
    /// The latest packet.
    until: u64,
}

impl Udp {
    /// One of so many that share a capture, which has seen nothing; it keeps so many conversations,
    /// and its share of 200,000 at most. The seed is that of [`crate::Options`].
    pub fn new(most: usize, shards: usize, seed: [u64; 2]) -> Self {
        Self {
            most: most.min(MOST.div_ceil(shards.max(1))),
            seed,
            all: Vec::new(),
            by_ends: HashTable::new(),
            latest: None,
            totals: Totals::default(),
            until: 0,
        }
    }

    /// Takes the next datagram, in the order of the capture.
    pub fn take(&mut self, udp: &Datagram) {
        self.totals.datagrams += 1;
        self.totals.bytes += u64::from(udp.payload);
        if wire::is_dns(udp.source, udp.destination) {
            self.totals.of_dns += 1;
            return;
        }
        self.until = self.until.max(udp.at.as_nanos());
        let (key, low) = Key::new(&udp.source, &udp.destination);
        let Some(i) = self.find(&key) else { return self.open(key, low, udp) };
        match &mut self.all[i] {
            Held::More(c) => c.take(low, udp),
            held @ Held::One(_) => {
                let Held::One(one) = held else { return };
                let mut c = Box::new(one.conversation());
                c.take(low, udp);
                *held = Held::More(c);
            }
        }
    }

    fn find(&mut self, key: &Key) -> Option<usize> {
        if let Some((of, i)) = &self.latest
            && of == key
        {
            return Some(*i as usize);
        }
        let all = &self.all;
        let i = *self.by_ends.find(key.hash(self.seed), |&i| all[i as usize].key() == *key)?;
        self.latest = Some((*key, i));
        Some(i as usize)
    }

    fn open(&mut self, key: Key, low: bool, udp: &Datagram) {
        if self.all.len() >= self.most {
            self.totals.beyond_limit += 1;
            return;
        }
        let Datagram { number, payload, head, .. } = *udp;
        let (at, hops) = (udp.at.as_nanos(), udp.network.ttl);
        let index = self.all.len() as u32;
        self.all.push(Held::One(Box::new(One { key, low, number, at, payload, hops, head })));
        let (all, seed) = (&self.all, self.seed);
        self.by_ends.insert_unique(key.hash(seed), index, |&i| all[i as usize].key().hash(seed));
        self.latest = Some((key, index));
    }

    /// Joins two that saw different conversations of one capture, in the order of packet numbers.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.most = self.most.saturating_add(other.most);
        self.totals.add(&other.totals);
        self.until = self.until.max(other.until);
        self.all.extend(other.all);
        self.all.sort_by_key(Held::first_packet);
        // Their numbers have changed: what comes from here on is of none of them.
        (self.by_ends, self.latest) = (HashTable::new(), None);
        self
    }

    /// The hosts of all conversations.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.all.iter().flat_map(|held| [true, false].map(|low| held.key().end(low).ip()))
    }

    /// Datagrams beyond the limit.
    pub fn beyond_limit(&self) -> u64 {
        self.totals.beyond_limit
    }

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}
