//! The figures of a set of records of one kind, in bounded memory: their legs, the slowest of them,
//! and each connection's share.

use crate::kind::TimedKind;
use crate::timed::Timed;
use record::{Instant, Monotonic, TimedLeg};
use stats::{Distribution, Precision};

use crate::attribution::Attribution;
use crate::flows::FlowTable;
use crate::{LegFigures, Longest};

/// A record with the ends of its connection, where that was announced.
#[derive(Clone, Debug)]
pub struct Slow<T> {
    /// The record.
    pub record: T,
    /// The process and connection that it belongs to.
    pub whose: Attribution,
}

/// The figures of a set of records.
#[derive(Clone, Debug)]
pub struct TimedFigures<T> {
    kind: TimedKind,
    /// How many.
    pub n: u64,
    /// Their bytes.
    pub bytes: u64,
    legs: Vec<LegFigures>,
    /// The slowest, by their totals.
    pub slowest: Longest<Slow<T>>,
    /// When the first of them began.
    pub first: Option<Instant<Monotonic>>,
    /// The same by connection.
    pub tallies: FlowTable,
}

impl<T: Timed> TimedFigures<T> {
    /// Nothing yet; keeps this many of the slowest, and figures of this many connections.
    pub fn new(kind: TimedKind, slowest: usize, connections: usize) -> Self {
        Self {
            kind,
            n: 0,
            bytes: 0,
            legs: kind.legs().iter().map(|_| LegFigures::new(Precision::Fine)).collect(),
            slowest: Longest::new(slowest),
            first: None,
            tallies: FlowTable::new(kind, connections),
        }
    }

    /// Adds a record of a connection of which this is known.
    pub fn add(&mut self, record: &T, known: Attribution) {
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
        let whose = Attribution { ends: record.ends().or(known.ends), owner: record.owner().or(known.owner) };
        self.tallies.add(record, whose);
        if let Ok(Some(total)) = record.time(self.kind.total()) {
            self.slowest.offer(total, || Slow { record: record.clone(), whose });
        }
    }

    /// What they are.
    pub fn kind(&self) -> TimedKind {
        self.kind
    }

    /// The figures of a leg, by its number.
    pub fn leg(&self, leg: usize) -> &LegFigures {
        &self.legs[leg.min(self.legs.len() - 1)]
    }

    /// Every leg with its times.
    pub fn times(&self) -> Vec<(&'static TimedLeg, &Distribution)> {
        self.kind.legs().iter().zip(self.legs.iter().map(|stats| &stats.times)).collect()
    }

    /// How long they took in all.
    pub fn total(&self) -> &Distribution {
        &self.leg(self.kind.total()).times
    }

    /// All time of all legs that add up to totals, nanoseconds.
    pub fn time(&self) -> u128 {
        self.kind.adding().map(|(i, _)| self.leg(i).times.sum()).sum()
    }
}
