//! What could not be read, counted by kind, with the first few places of each.

use std::collections::BTreeMap;
use std::fmt;

/// Where in a capture: the packet's number from 1 (0 before the first) and the byte offset in the
/// decompressed stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The packet's number, or for a text dump the line's.
    pub packet: u64,
    /// Bytes from the start of the decompressed stream.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {}, byte {}", self.packet, self.offset)
    }
}

/// The three ways of not being read, which call for different answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Bytes are missing: the capture or the file was cut short.
    Truncated,
    /// The bytes contradict their own format.
    Malformed,
    /// Well-formed, as far as is known, but not something that this crate reads.
    Unsupported,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Truncated => "cut short",
            Self::Malformed => "malformed",
            Self::Unsupported => "not supported",
        })
    }
}

/// One kind's count and first places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub count: u64,
    /// The first of them, at most [`Tally::PLACES`].
    pub first: Vec<Place>,
}

/// Counts by kind. Its memory is bounded: a kind too many is counted under [`Tally::other_kinds`].
#[derive(Clone, Debug)]
pub struct Tally<K> {
    kinds: BTreeMap<K, Count>,
    other_kinds: u64,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self { kinds: BTreeMap::new(), other_kinds: 0 }
    }
}

impl<K: Ord + Copy> Tally<K> {
    /// How many places of each kind are kept.
    pub const PLACES: usize = 4;
    /// How many kinds are distinguished.
    pub const KINDS: usize = 1024;

    /// Counts one more of `kind`.
    pub fn add(&mut self, kind: K, place: Place) {
        if self.kinds.len() >= Self::KINDS && !self.kinds.contains_key(&kind) {
            self.other_kinds += 1;
            return;
        }
        let entry = self.kinds.entry(kind).or_default();
        entry.count += 1;
        if entry.first.len() < Self::PLACES {
            entry.first.push(place);
        }
    }

    /// The kinds seen, in their own order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &Count)> {
        self.kinds.iter().map(|(kind, count)| (*kind, count))
    }

    /// How many of `kind`.
    pub fn count(&self, kind: K) -> u64 {
        self.kinds.get(&kind).map_or(0, |entry| entry.count)
    }

    /// How many were of kinds beyond the [`Tally::KINDS`] distinguished.
    pub fn other_kinds(&self) -> u64 {
        self.other_kinds
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.kinds.values().map(|entry| entry.count).sum::<u64>() + self.other_kinds
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_is_counted_but_few_places_and_kinds_are_kept() {
        let mut tally = Tally::default();
        for n in 0..10 {
            tally.add(7u32, Place { packet: n, offset: n * 10 });
        }
        for kind in 0..2_000u32 {
            tally.add(kind, Place::default());
        }
        assert_eq!(tally.count(7), 11);
        assert_eq!(tally.iter().find(|(k, _)| *k == 7).map(|(_, c)| c.first.len()), Some(4));
        assert_eq!((tally.total(), tally.other_kinds()), (2_010, 2_000 - 1_024));
    }
}
