//! How large the maps of a trace are, and the kernel memory that they take.

use record::{Ratio, Sampling};

use crate::config::Config;
use crate::error::{Error, within};
use crate::layout::{CHUNK, RawArrival, RawQueue, RawReceiveRow, RawRow, RawRowSeries, RawSlot, RawSocketInfo};

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
    /// How many can have more of them than a queue has room to name.
    pub directories: u32,
    pub ring: u32,
}

/// The most connections that a trace can be made to follow.
const MOST: u32 = 1 << 20;
/// Slots there are at least, where the connections can use them.
const LEAST_SLOTS: u32 = 16_384;
/// The ring buffer where every send is traced.
const RING: u32 = 16 << 20;
/// Of that, the least part where few are. A burst comes on connections that are looked at, so it has few records then.
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
        let slots = within("the number of slots of a connection", config.slots_per_connection, 1, 65_536)?;
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
        // A queue takes one for its third chunk; most of those that do have many more.
        Ok(Self { rows, queues, slots, chunks, directories: rows.min(chunks / 8 + 16), ring })
    }

    /// How many entries the directories have: of two places each.
    pub fn pairs_of_places(self) -> u64 {
        (u64::from(self.directories) * u64::from(self.slots / CHUNK)).div_ceil(2)
    }

    /// The kernel memory of rows, of the pools that they share, and of what lies with the sockets, bytes.
    pub fn memory(self) -> u64 {
        let row = size_of::<RawRow>() as u64 + NUMBER + storage_of::<RawSocketInfo>() + STORAGES;
        u64::from(self.rows) * row
            + u64::from(self.queues) * (size_of::<RawQueue>() as u64 + NUMBER)
            + u64::from(self.chunks) * (u64::from(CHUNK) * size_of::<RawSlot>() as u64 + NUMBER)
            + u64::from(self.directories) * NUMBER
            + self.pairs_of_places() * 8
    }
}

/// A number in a list of free ones.
const NUMBER: u64 = 4;
/// The kernel's `struct bpf_local_storage`, which a socket has once a program keeps anything with it: 16 pointers and some, in a block
/// of 192.
const STORAGES: u64 = 192;

/// What a value takes that is kept with a socket: 72 bytes of the kernel's come before it, and a block has one of the sizes of
/// kmalloc().
pub(crate) fn storage_of<T>() -> u64 {
    block(72 + size_of::<T>() as u64)
}

/// What a hash table takes that fills on demand: its buckets, and each entry with 56 bytes of the kernel's. Of `entries`, `at_most` are there at a
/// time.
pub(crate) fn table_of<K, V>(entries: u64, at_most: u64) -> u64 {
    let padded = |bytes: usize| bytes.next_multiple_of(8) as u64;
    entries.next_power_of_two() * 16 + at_most * block(56 + padded(size_of::<K>()) + padded(size_of::<V>()))
}

/// The block of kmalloc() that so many bytes are in, none of them below 96.
fn block(bytes: u64) -> u64 {
    match bytes {
        ..=96 => 96,
        129..=192 => 192,
        _ => bytes.next_power_of_two(),
    }
}

/// How many connections are looked at at a time, at most: twice as many as on average, for they are not looked at evenly.
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
    /// One in how many records of all come, as far as the ring buffer is sized by it: not every record is sampled.
    pub(crate) fn part_of_records(&self) -> u32 {
        match self.sampling {
            Sampling::Draws(ratio) | Sampling::Windows(ratio) if !(self.packets || self.udp || self.http) => {
                ratio.0.get().min(LEAST_RING)
            }
            _ => 1,
        }
    }

    /// The most connections for which this trace takes no more than `bytes` of kernel memory, the ring buffer and tables of fixed size
    /// not counted; at least one.
    pub fn connections_within(&self, bytes: u64) -> u32 {
        let memory = |rows: u32| {
            let sizes = Sizes::new(&Self { max_connections: rows, ..self.clone() }).ok()?;
            let beside = if self.receive { self.memory_of_receiver() } else { 0 }
                + if self.histograms.is_some() { size_of::<RawRowSeries>() as u64 } else { 0 };
            Some(sizes.memory() + u64::from(rows) * beside)
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

    /// What a followed connection takes for what it receives, bytes.
    pub(crate) fn memory_of_receiver(&self) -> u64 {
        let arrivals = u64::from(self.arrivals_per_connection.clamp(16, 65_536).next_power_of_two());
        size_of::<RawReceiveRow>() as u64 + NUMBER + storage_of::<u32>() + arrivals * size_of::<RawArrival>() as u64
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
        sizes.memory() + u64::from(sizes.ring)
    }

    #[test]
    fn a_hundred_thousand_connections_fit_into_what_is_said() {
        let every = Config { max_connections: 100_000, ..Config::default() };
        assert!(all(&every) <= 202 << 20, "{}", all(&every));
        let sampled = Config { sampling: windows(100), ..every };
        assert!(all(&sampled) <= 58 << 20, "{}", all(&sampled));
    }

    #[test]
    fn as_many_connections_as_memory_is_given_for() {
        let config = Config { sampling: windows(10), ..Config::default() };
        let fits = config.connections_within(64 << 20);
        let takes = |rows| {
            let rows = Config { max_connections: rows, ..config.clone() };
            Sizes::new(&rows).unwrap().memory()
        };
        assert!(takes(fits) <= 64 << 20 && takes(fits + 1) > 64 << 20, "{fits}");
        assert!(Config { receive: true, ..config.clone() }.connections_within(64 << 20) < fits / 8);
        assert_eq!((config.connections_within(0), config.connections_within(u64::MAX)), (1, MOST));
    }

    #[test]
    fn a_table_takes_its_buckets_and_blocks_for_its_entries() {
        assert_eq!(table_of::<u64, [u8; 20]>(131_072, 10), 131_072 * 16 + 10 * 96);
        assert_eq!(table_of::<u64, [u8; 65]>(64, 64), 64 * (16 + 192));
    }

    #[test]
    fn a_value_with_a_socket_takes_a_block_of_the_kernel() {
        assert_eq!((storage_of::<u32>(), storage_of::<[u8; 24]>(), storage_of::<[u8; 25]>()), (96, 96, 128));
        assert_eq!((storage_of::<[u8; 120]>(), storage_of::<[u8; 121]>()), (192, 256));
    }
}
