//! Amounts of kernel memory that a trace takes, known before anything is loaded. What takes them
//! says how many; [`crate::Config::memory`] adds them up.

use std::ops::Add;

/// The kernel memory that a trace takes, bytes. The programs themselves are not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What its maps hold from when they are made until the end.
    pub at_once: u64,
    /// What lies with the sockets, once as many connections are followed as may be.
    pub connections: u64,
    /// Entries of tables that fill on demand, once all of them are full: processes, owners of
    /// sockets, handshakes.
    pub tables: u64,
}

impl Memory {
    /// All of it together, the most that the trace can take.
    pub fn most(self) -> u64 {
        self.at_once + self.connections + self.tables
    }

    /// What is there at once and does not grow.
    pub(crate) fn fixed(at_once: u64) -> Self {
        Self { at_once, ..Self::default() }
    }

    /// A ring buffer: its bytes, two pointers to each page, as the kernel maps them twice in a row,
    /// and three pages more.
    pub(crate) fn of_ring(bytes: u32) -> Self {
        Self::fixed(u64::from(bytes) + u64::from(bytes / PAGE) * 16 + u64::from(3 * PAGE))
    }

    /// A hash table that fills on demand: its buckets, and each entry with 56 bytes of the
    /// kernel's. Of `entries`, `at_most` are there at a time.
    pub(crate) fn of_table<K, V>(entries: u64, at_most: u64) -> Self {
        let tables = at_most * block(56 + padded::<K>() + padded::<V>());
        Self { at_once: buckets(entries), connections: 0, tables }
    }

    /// A hash table that has all its entries at once, with 48 bytes of the kernel's each.
    pub(crate) fn of_whole_table(entries: u64, key: u64, value: u64) -> Self {
        Self::fixed(buckets(entries) + entries * (48 + key + value))
    }
}

impl Add for Memory {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            at_once: self.at_once + other.at_once,
            connections: self.connections + other.connections,
            tables: self.tables + other.tables,
        }
    }
}

const PAGE: u32 = 4096;

/// What a value takes that is kept with a socket: 72 bytes of the kernel's come before it, and a
/// block has one of the sizes of kmalloc().
pub(crate) fn storage_of<T>() -> u64 {
    block(72 + size_of::<T>() as u64)
}

fn padded<T>() -> u64 {
    size_of::<T>().next_multiple_of(8) as u64
}

fn buckets(entries: u64) -> u64 {
    entries.next_power_of_two() * 16
}

/// The block of kmalloc() that so many bytes are in, none of them below 96.
fn block(bytes: u64) -> u64 {
    match bytes {
        ..=96 => 96,
        129..=192 => 192,
        _ => bytes.next_power_of_two(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_its_buckets_at_once_and_blocks_for_its_entries() {
        let of = |at_once, tables| Memory { at_once, connections: 0, tables };
        assert_eq!(Memory::of_table::<u64, [u8; 20]>(131_072, 10), of(131_072 * 16, 10 * 96));
        assert_eq!(Memory::of_table::<u64, [u8; 65]>(64, 64), of(64 * 16, 64 * 192));
        // As Linux 6.18 says of one, but for 328 bytes.
        assert_eq!(Memory::of_ring(16 << 20), of(16_855_368 - 328, 0));
        assert_eq!(Memory::of_whole_table(4_096, 8, 8), of(4_096 * (16 + 64), 0));
    }

    #[test]
    fn a_value_with_a_socket_takes_a_block_of_the_kernel() {
        assert_eq!((storage_of::<u32>(), storage_of::<[u8; 24]>(), storage_of::<[u8; 25]>()), (96, 96, 128));
        assert_eq!((storage_of::<[u8; 120]>(), storage_of::<[u8; 121]>()), (192, 256));
    }
}
