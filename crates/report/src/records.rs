//! The figures of a set of records of one family, in bounded memory: their legs, the slowest of them, and each connection's share.

use record::{Instant, Monotonic};
use stats::{Distribution, Precision};

use crate::family::{Family, LegOf, Timed};
use crate::tally::Tallies;
use crate::whose::Whose;
use crate::{LegStats, Longest};

/// A record with the ends of its connection, where that was announced.
#[derive(Clone, Debug)]
pub struct Slow<T> {
    /// The record.
    pub record: T,
    /// Whose it is.
    pub whose: Whose,
}

/// The figures of a set of records.
#[derive(Clone, Debug)]
pub struct Records<T> {
    family: Family,
    /// How many.
    pub n: u64,
    /// Their bytes.
    pub bytes: u64,
    legs: Vec<LegStats>,
    /// The slowest, by their totals.
    pub slowest: Longest<Slow<T>>,
    /// When the first of them began.
    pub first: Option<Instant<Monotonic>>,
    /// The same by connection.
    pub tallies: Tallies,
}

impl<T: Timed> Records<T> {
    /// Nothing yet; keeps this many of the slowest, and figures of this many connections.
    pub fn new(family: Family, slowest: usize, connections: usize) -> Self {
        Self {
            family,
            n: 0,
            bytes: 0,
            legs: family.legs().iter().map(|_| LegStats::new(Precision::Fine)).collect(),
            slowest: Longest::new(slowest),
            first: None,
            tallies: Tallies::new(family, connections),
        }
    }

    /// Adds a record of a connection of which this is known.
    pub fn add(&mut self, record: &T, known: Whose) {
        self.n += 1;
        self.bytes = self.bytes.saturating_add(record.bytes());
        if let Some(began) = record.began() {
            self.first = Some(self.first.map_or(began, |first| first.min(began)));
        }
        for (i, stats) in self.legs.iter_mut().enumerate() {
            match record.time(i) {
                Ok(Some(time)) => stats.times.record(time.0),
                Ok(None) => stats.missing += 1,
                Err(_) => stats.disorder += 1,
            }
        }
        let whose = Whose { ends: record.ends().or(known.ends), owner: record.owner().or(known.owner) };
        self.tallies.add(record, whose);
        if let Ok(Some(total)) = record.time(self.family.total()) {
            self.slowest.offer(total, || Slow { record: record.clone(), whose });
        }
    }

    /// What they are.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The figures of a leg, by its number.
    pub fn leg(&self, leg: usize) -> &LegStats {
        &self.legs[leg.min(self.legs.len() - 1)]
    }

    /// Every leg with its times.
    pub fn times(&self) -> Vec<(&'static LegOf, &Distribution)> {
        self.family.legs().iter().zip(self.legs.iter().map(|stats| &stats.times)).collect()
    }

    /// How long they took in all.
    pub fn total(&self) -> &Distribution {
        &self.leg(self.family.total()).times
    }

    /// All time of all legs that add up to totals, nanoseconds.
    pub fn time(&self) -> u128 {
        self.family.parts().map(|(i, _)| self.leg(i).times.sum()).sum()
    }
}
