//! Segments of many connections, put together by connection.
//!
//! Where a thousand connections take turns, the state of each has left the cache by the time its
//! next packet comes, and to fetch it takes longer than to follow the packet. So a batch of packets
//! is put together by connection first.

use hashbrown::HashTable;
use wire::Segment;

use crate::key::Key;

/// The packets of one connection in a batch.
#[derive(Debug)]
struct Train {
    key: Key,
    /// The place of its last packet in the batch.
    last: u32,
}

/// A batch's packets by connection: connections in the order of their first packet, and the packets
/// of each in their own order.
#[derive(Debug, Default)]
pub(crate) struct Trains {
    table: HashTable<u32>,
    trains: Vec<Train>,
    /// The first packet of each.
    first: Vec<u32>,
    /// For each packet of the batch the next of its connection, or [`END`].
    next: Vec<u32>,
}

/// A train ends.
const END: u32 = u32::MAX;

impl Trains {
    /// Puts together a batch; what was there before is forgotten.
    pub(crate) fn arrange(&mut self, batch: &[Segment], seed: [u64; 2]) {
        let Self { table, trains, first, next } = self;
        table.clear();
        trains.clear();
        first.clear();
        next.clear();
        // The latest packet's train: packets often follow one another.
        let (mut latest, mut ends) = (0, None);
        for (i, s) in (0u32..).zip(batch) {
            next.push(END);
            if ends != Some((s.source, s.destination)) {
                let key = Key::new(&s.source, &s.destination).0;
                let hash = key.hash(seed);
                ends = Some((s.source, s.destination));
                match table.find(hash, |&t| trains[t as usize].key == key) {
                    Some(found) => latest = *found as usize,
                    None => {
                        latest = trains.len();
                        table.insert_unique(hash, latest as u32, |&t| trains[t as usize].key.hash(seed));
                        trains.push(Train { key, last: i });
                        first.push(i);
                        continue;
                    }
                }
            }
            let last = std::mem::replace(&mut trains[latest].last, i);
            next[last as usize] = i;
        }
    }

    /// How many connections have packets in the batch.
    pub(crate) fn len(&self) -> usize {
        self.trains.len()
    }

    /// The places of the batch's packets, connection by connection.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let following = |at: &u32| Some(self.next[*at as usize]).filter(|next| *next != END);
        self.first.iter().flat_map(move |first| std::iter::successors(Some(*first), following)).map(|at| at as usize)
    }
}
