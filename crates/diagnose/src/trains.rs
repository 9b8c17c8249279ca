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
pub(crate) struct Train {
    pub(crate) key: Key,
    /// The places of its first and last packet in the batch.
    first: u32,
    last: u32,
    /// Which connection it is, where that was met before.
    pub(crate) known: Option<usize>,
}

impl Train {
    /// The place of its first packet in the batch.
    pub(crate) fn first(&self) -> usize {
        self.first as usize
    }
}

/// A packet of a batch.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The place of its connection's next packet, or [`END`].
    next: u32,
    /// Whether its source stands in the key's lower place.
    low: bool,
}

/// A batch's packets by connection: connections in the order of their first packet, and the packets
/// of each in their own order.
#[derive(Debug, Default)]
pub(crate) struct Trains {
    table: HashTable<u32>,
    /// Where trains may stand in the list, by [`Key::slot`]: found without a hash.
    places: Vec<u32>,
    trains: Vec<Train>,
    links: Vec<Link>,
}

/// 16 KiB of them.
const PLACES: usize = 4_096;

/// A train ends.
const END: u32 = u32::MAX;

impl Trains {
    /// Puts together a batch; what was there before is forgotten.
    pub(crate) fn arrange(&mut self, batch: &[Segment], seed: [u64; 2]) {
        let Self { table, places, trains, links } = self;
        table.clear();
        places.resize(PLACES, 0);
        trains.clear();
        links.clear();
        for (i, s) in (0u32..).zip(batch) {
            let (key, low) = Key::new(&s.source, &s.destination);
            links.push(Link { next: END, low });
            let place = &mut places[key.slot(PLACES)];
            let train = match trains.get(*place as usize) {
                Some(train) if train.key == key => *place as usize,
                _ => {
                    let hash = key.hash(seed);
                    match table.find(hash, |&t| trains[t as usize].key == key) {
                        Some(found) => {
                            *place = *found;
                            *found as usize
                        }
                        None => {
                            *place = trains.len() as u32;
                            table.insert_unique(hash, *place, |&t| trains[t as usize].key.hash(seed));
                            trains.push(Train { key, first: i, last: i, known: None });
                            continue;
                        }
                    }
                }
            };
            let last = std::mem::replace(&mut trains[train].last, i);
            links[last as usize].next = i;
        }
    }

    /// How many connections have packets in the batch.
    pub(crate) fn len(&self) -> usize {
        self.trains.len()
    }

    pub(crate) fn all(&self) -> &[Train] {
        &self.trains
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Train> {
        self.trains.iter_mut()
    }

    /// The places of a train's packets in the batch, and whether the source of each stands in the
    /// key's lower place.
    pub(crate) fn places(&self, train: &Train) -> impl Iterator<Item = (usize, bool)> {
        let mut at = train.first;
        std::iter::from_fn(move || {
            let link = self.links.get(at as usize)?;
            let place = std::mem::replace(&mut at, link.next) as usize;
            Some((place, link.low))
        })
    }
}
