//! How large the maps of a trace are, and the kernel memory that they take.

use record::{Ratio, Sampling};

use crate::config::Config;
use crate::error::{Error, within};
use crate::layout::{
    CHUNK, PLACES, RING_SLOTS, RawArrival, RawQueue, RawReceiveRow, RawRow, RawRowSeries, RawSlot, RawSocketInfo,
};
use crate::memory::{Memory, storage_of};

/// How large the maps are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The most connections that are followed at a time.
    pub rows: u32,
    /// The most of them that are looked at at a time.
    pub queues: u32,
    /// The most sends of one connection that are on their way at a time.
    pub slots: u32,
    /// How many chunks of slots there are for all of them together.
    pub chunks: u32,
    /// How many directories there are, for those that have more of them than a queue can name.
    pub directories: u32,
    pub ring: u32,
}

/// The most connections that a trace can be made to follow.
const MOST: u32 = 1 << 20;
/// Slots there are at least, where the connections can use them.
const LEAST_SLOTS: u32 = 16_384;
/// The ring buffer where every send is traced.
const RING: u32 = 16 << 20;
/// Of that, the least part where few are. A burst comes on connections that are looked at, so it
/// has few records then.
const LEAST_RING: u32 = 4;

impl Sizes {
    /// Of programs that follow no sends.
    pub fn of_ring(ring: u32) -> Self {
        Self { rows: 0, queues: 0, slots: 0, chunks: 0, directories: 0, ring }
    }

    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn new(config: &Config) -> Result<Self, Error> {
        let rows = within("the number of connections", config.max_connections, 1, MOST)?;
        let slots = within("the number of slots of a connection", config.slots_per_connection, 1, RING_SLOTS)?;
        let slots = slots.next_power_of_two().max(16);
        let ring = config.ring_bytes.unwrap_or(RING / config.part_of_records());
        let ring = within("the size of the ring buffer", ring, 4096, 1 << 30)?.next_power_of_two();
        let in_all = match config.slots_in_all {
            Some(slots) => within("the number of slots of all connections", slots, CHUNK, 1 << 26)?.div_ceil(CHUNK),
            None => chunks_for(rows, config.sampling),
        };
        let usable = u64::from(rows) * u64::from(slots / CHUNK);
        let chunks = usable.min(u64::from(in_all)) as u32;
        let queues = match config.sampling {
            Sampling::Windows(ratio) => looked_at(rows, ratio).max(LEAST_SLOTS / CHUNK).min(rows),
            Sampling::Every | Sampling::Draws(_) => rows,
        };
        // A queue takes two or three with its third chunk; most of those that do have many more.
        Ok(Self { rows, queues, slots, chunks, directories: chunks / 8 + 32, ring })
    }

    /// How many entries the directories have: of two numbers each.
    pub fn pairs_of_places(self) -> u64 {
        u64::from(self.directories) * u64::from(PLACES / 2)
    }

    /// The kernel memory of rows, of the pools that they share, and of what lies with the sockets.
    pub fn memory(self) -> Memory {
        let at_once = u64::from(self.rows) * (size_of::<RawRow>() as u64 + NUMBER)
            + u64::from(self.queues) * (size_of::<RawQueue>() as u64 + NUMBER)
            + u64::from(self.chunks) * (u64::from(CHUNK) * size_of::<RawSlot>() as u64 + NUMBER)
            + u64::from(self.directories) * NUMBER
            + self.pairs_of_places() * 8;
        let connections = u64::from(self.rows) * (storage_of::<RawSocketInfo>() + STORAGES);
        Memory { at_once, connections, tables: 0 }
    }
}

/// A number in a list of free ones.
pub(crate) const NUMBER: u64 = 4;
/// The kernel's `struct bpf_local_storage`, which a socket has once a program keeps anything with
/// it: 16 pointers and some, in a block of 192.
const STORAGES: u64 = 192;

/// How many connections are looked at at a time, at most: twice as many as on average, for they are
/// not looked at evenly.
fn looked_at(rows: u32, ratio: Ratio) -> u32 {
    (rows / ratio.0.get()).saturating_mul(2).clamp(rows / 32, rows)
}

/// How many chunks connections need: each that is looked at may have one on its way.
fn chunks_for(rows: u32, sampling: Sampling) -> u32 {
    let chunks = match sampling {
        Sampling::Every => rows,
        Sampling::Draws(ratio) | Sampling::Windows(ratio) => looked_at(rows, ratio),
    };
    chunks.max(LEAST_SLOTS / CHUNK)
}

impl Config {
    /// One in how many records of all come, as far as the ring buffer is sized by it: not every
    /// record is sampled.
    pub(crate) fn part_of_records(&self) -> u32 {
        match self.sampling {
            Sampling::Draws(ratio) | Sampling::Windows(ratio) if !(self.packets || self.udp || self.http) => {
                ratio.0.get().min(LEAST_RING)
            }
            _ => 1,
        }
    }

    /// The most connections for which this trace takes no more than `bytes` of kernel memory, the
    /// ring buffer and tables of fixed size not counted; at least one.
    pub fn connections_within(&self, bytes: u64) -> u32 {
        let memory = |rows: u32| {
            let sizes = Sizes::new(&Self { max_connections: rows, ..self.clone() }).ok()?;
            let receivers = if self.receive { self.memory_of_receivers(sizes) } else { Memory::default() };
            let series = if self.histograms.is_some() { size_of::<RawRowSeries>() as u64 } else { 0 };
            Some((sizes.memory() + receivers).most() + u64::from(rows) * series)
        };
        let (mut fits, mut beyond) = (1, MOST + 1);
        while fits + 1 < beyond {
            let middle = fits + (beyond - fits) / 2;
            match memory(middle) {
                Some(needs) if needs <= bytes => fits = middle,
                _ => beyond = middle,
            }
        }
        fits
    }

    /// What the connections take for what they receive.
    pub(crate) fn memory_of_receivers(&self, sizes: Sizes) -> Memory {
        let rows = u64::from(sizes.rows);
        let arrivals = u64::from(self.arrivals_per_connection.clamp(16, 65_536).next_power_of_two());
        let row = size_of::<RawReceiveRow>() as u64 + NUMBER + arrivals * size_of::<RawArrival>() as u64;
        Memory { at_once: rows * row, connections: rows * storage_of::<u32>(), tables: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(every: u32) -> Sampling {
        Sampling::Windows(Ratio(every.try_into().unwrap()))
    }

    /// All of a trace of so many connections, but the tables that fill on demand.
    fn all(config: &Config) -> u64 {
        let sizes = Sizes::new(config).unwrap();
        sizes.memory().most() + u64::from(sizes.ring)
    }

    #[test]
    fn a_hundred_thousand_connections_fit_into_what_is_said() {
        let every = Config { max_connections: 100_000, ..Config::default() };
        assert!(all(&every) <= 224 << 20, "{}", all(&every));
        let sampled = Config { sampling: windows(100), ..every };
        assert!(all(&sampled) <= 60 << 20, "{}", all(&sampled));
    }

    #[test]
    fn as_many_connections_as_memory_is_given_for() {
        let config = Config { sampling: windows(10), ..Config::default() };
        let fits = config.connections_within(64 << 20);
        let takes = |rows| {
            let rows = Config { max_connections: rows, ..config.clone() };
            Sizes::new(&rows).unwrap().memory().most()
        };
        assert!(takes(fits) <= 64 << 20 && takes(fits + 1) > 64 << 20, "{fits}");
        assert!(Config { receive: true, ..config.clone() }.connections_within(64 << 20) < fits / 8);
        assert_eq!((config.connections_within(0), config.connections_within(u64::MAX)), (1, MOST));
    }
}
