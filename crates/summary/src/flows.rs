//! The records of one kind by connection, in bounded memory.

use std::net::SocketAddr;

use record::{ConnectionId, LegPlace, Owner};
use stats::{Distribution, Precision};

use crate::attribution::Attribution;
use crate::kind::{LEGS, TimedKind};
use crate::largest::{Figures, Largest};
use crate::timed::Timed;

/// What one connection's records, or one peer's of a socket, come to.
#[derive(Clone, Debug)]
pub struct FlowFigures {
    /// The connection or socket.
    pub flow: ConnectionId,
    /// Local and remote end, where they are known.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The process that owns it, where that is known.
    pub owner: Option<Owner>,
    /// Records.
    pub n: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What [`TimedKind::counted`] counts.
    pub counts: [u64; 2],
    /// The time of each leg, nanoseconds.
    pub sums: [u128; LEGS],
    /// How long they took in all.
    pub total: Distribution,
    /// The time that stands beside the total, where the kind has one.
    pub beside: Distribution,
}

impl FlowFigures {
    fn new(flow: ConnectionId, whose: Attribution) -> Self {
        Self {
            flow,
            ends: whose.ends,
            owner: whose.owner,
            n: 0,
            bytes: 0,
            counts: [0; 2],
            sums: [0; LEGS],
            total: Distribution::new(Precision::Coarse),
            beside: Distribution::new(Precision::Coarse),
        }
    }

    /// Adds the records of another.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.sums.iter_mut().zip(other.sums).for_each(|(mine, theirs)| *mine += theirs);
        self.total.merge(&other.total);
        self.beside.merge(&other.beside);
    }

    /// The time of the legs that add up to totals, nanoseconds.
    pub fn time(&self, kind: TimedKind) -> u128 {
        kind.adding().map(|(i, _)| self.sums[i]).sum()
    }
}

impl Figures for FlowFigures {
    fn of_others() -> Self {
        Self::new(ConnectionId::default(), Attribution::default())
    }

    fn n(&self) -> u64 {
        self.n
    }

    fn add_all(&mut self, other: &Self) {
        self.merge(other);
    }
}

/// Connections, or peers of a socket, with the most records.
#[derive(Clone, Debug)]
pub struct FlowTable {
    kind: TimedKind,
    flows: Largest<(ConnectionId, Option<SocketAddr>), FlowFigures>,
}

impl FlowTable {
    /// None yet; keeps at most this many, and at least half as many.
    pub(crate) fn new(kind: TimedKind, keep: usize) -> Self {
        Self { kind, flows: Largest::new(keep) }
    }

    pub(crate) fn add<T: Timed>(&mut self, record: &T, whose: Attribution) {
        // A socket of UDP has many peers, a connection of TCP one: its ends may be known later than
        // its first record.
        let peer = match self.kind {
            TimedKind::DatagramsSent | TimedKind::DatagramsReceived => whose.ends.map(|e| e.1),
            _ => None,
        };
        let tally = self.flows.of((record.flow(), peer), || FlowFigures::new(record.flow(), whose));
        tally.ends = tally.ends.or(whose.ends);
        tally.owner = tally.owner.or(whose.owner);
        tally.n += 1;
        tally.bytes = tally.bytes.saturating_add(record.bytes());
        tally.counts.iter_mut().zip(record.counts()).for_each(|(sum, n)| *sum += n);
        for ((leg, sum), time) in self.kind.legs().iter().zip(&mut tally.sums).zip(record.times()) {
            let Some(time) = time else { continue };
            *sum += u128::from(time);
            match leg.place {
                LegPlace::Total => tally.total.record(time),
                LegPlace::Beside => tally.beside.record(time),
                LegPlace::Adds => {}
            }
        }
    }

    /// Those with separate figures, the most records first.
    pub fn sorted(&self) -> Vec<&FlowFigures> {
        let mut all: Vec<_> = self.flows.each().map(|(_, figures)| figures).collect();
        all.sort_by_key(|t| (std::cmp::Reverse((t.n, t.bytes)), t.flow, t.ends));
        all
    }

    /// Those that were put together because there were too many, and how many they were.
    pub fn others(&self) -> Option<(&FlowFigures, u64)> {
        self.flows.others()
    }
}
