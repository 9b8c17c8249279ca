//! From segments in capture order to connections.

use hashbrown::HashTable;
use wire::Segment;

use crate::connection::{Connection, TO_CLIENT, TO_SERVER};
use crate::kept::Recorder;
use crate::key::Key;
use crate::report::{self, Report};

/// What to follow, and how much may be kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of the table's hash. A program that reads captures from others passes a random one, so that no one can make
    /// all connections fall into one slot.
    pub seed: [u64; 2],
    /// Connections followed at most; packets of further ones are counted in [`Totals::beyond_limit`].
    pub connections: usize,
    /// Of which connections to keep packets.
    pub keep: Keep,
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
        Self { seed: [0, 0], connections: 2_000_000, keep: Keep::Nothing }
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
    /// Packets that have an earlier time than the one before them in their connection.
    pub backwards: u64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        let Self { segments, payload_bytes, beyond_limit, capture_copies, backwards } = other;
        self.segments += segments;
        self.payload_bytes += payload_bytes;
        self.beyond_limit += beyond_limit;
        self.capture_copies += capture_copies;
        self.backwards += backwards;
    }
}

/// Follows every connection of a capture.
#[derive(Debug)]
pub struct Follower {
    options: Options,
    table: HashTable<u32>,
    /// Boxed one by one: a list of a million that doubles its room would need three times its size for a moment.
    #[expect(clippy::vec_box, reason = "growing must not copy the connections")]
    connections: Vec<Box<Connection>>,
    last: usize,
    totals: Totals,
}

impl Follower {
    /// A follower that has seen nothing.
    pub fn new(options: Options) -> Self {
        Self { options, table: HashTable::new(), connections: Vec::new(), last: usize::MAX, totals: Totals::default() }
    }

    /// Takes the next segment, in the order of the capture.
    pub fn take(&mut self, s: &Segment) {
        self.totals.segments += 1;
        self.totals.payload_bytes += u64::from(s.payload);
        let (key, low) = Key::new(&s.source, &s.destination);
        // Packets come in trains: the last connection is the likeliest.
        let i = match self.connections.get(self.last).filter(|c| c.key == key) {
            Some(_) => Some(self.last),
            None => {
                let (connections, seed) = (&self.connections, self.options.seed);
                self.table.find(key.hash(seed), |&i| connections[i as usize].key == key).map(|&i| i as usize)
            }
        };
        if let Some(i) = i {
            let c = &mut self.connections[i];
            if c.followed_by_uncounted {
                self.totals.beyond_limit += 1;
                return;
            }
            let dir = if low == c.client_low { TO_SERVER } else { TO_CLIENT };
            if !c.is_reused_by(dir, s) {
                self.last = i;
                c.take(dir, s);
                return;
            }
            if self.is_full() {
                // What comes on this pair of endpoints belongs to the connection that there is no room for.
                self.connections[i].followed_by_uncounted = true;
            }
        }
        self.open(key, low, s);
    }

    #[cold]
    fn open(&mut self, key: Key, low: bool, s: &Segment) {
        let index = self.connections.len();
        if self.is_full() {
            self.totals.beyond_limit += 1;
            return;
        }
        let recorder = match self.options.keep {
            Keep::Connection(n, limit) if n == index + 1 => Some(limit),
            Keep::First(n, limit) if index < n => Some(limit),
            _ => None,
        };
        let mut c = Box::new(Connection::new(key, low, s, recorder.map(|limit| Box::new(Recorder::new(limit)))));
        let dir = if low == c.client_low { TO_SERVER } else { TO_CLIENT };
        c.take(dir, s);
        self.connections.push(c);
        let (connections, seed) = (&self.connections, self.options.seed);
        let hash = key.hash(seed);
        match self.table.find_mut(hash, |&i| connections[i as usize].key == key) {
            Some(slot) => *slot = index as u32,
            None => {
                self.table.insert_unique(hash, index as u32, |&i| connections[i as usize].key.hash(seed));
            }
        }
        self.last = index;
    }

    fn is_full(&self) -> bool {
        self.connections.len() >= self.options.connections.min(u32::MAX as usize)
    }

    /// Joins two followers that saw different connections of one capture, in the order of packet numbers. The
    /// outcome is as if one had seen all, unless either came to its limit.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.options.connections = self.options.connections.saturating_add(other.options.connections);
        self.totals.add(&other.totals);
        self.connections.extend(other.connections);
        // Both are in order, which is what this sort finds and merges.
        self.connections.sort_by_key(|c| c.first_number);
        let (connections, seed) = (&self.connections, self.options.seed);
        self.table.clear();
        for (index, c) in connections.iter().enumerate() {
            let hash = c.key.hash(seed);
            match self.table.find_mut(hash, |&i| connections[i as usize].key == c.key) {
                Some(slot) => *slot = index as u32,
                None => {
                    self.table.insert_unique(hash, index as u32, |&i| connections[i as usize].key.hash(seed));
                }
            }
        }
        self.last = usize::MAX;
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

    /// Counts over everything.
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals;
        for c in &self.connections {
            totals.backwards += c.backwards;
            totals.capture_copies += c.halves.iter().map(|h| h.rare.capture_copies).sum::<u64>();
        }
        totals
    }

    /// The report on a connection by its number, from 1 in the order of first packets.
    pub fn report(&self, number: usize) -> Option<Report> {
        self.connections.get(number.checked_sub(1)?).map(|c| report::make(number, c))
    }

    /// The reports on all connections, one made at a time.
    pub fn reports(&self) -> impl Iterator<Item = Report> {
        self.connections.iter().enumerate().map(|(i, c)| report::make(i + 1, c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_leaves_room_for_its_lists_below_two_kibibytes() {
        // Beside it: two lists of two segments in flight (80 bytes each) and two of RTT samples, with the allocator's overhead.
        assert!(size_of::<Connection>() <= 1_840, "{} bytes", size_of::<Connection>());
    }
}
