//! The figures of received bytes, in bounded memory.

use crate::kind::TimedKind;
use record::{Receive, ReceiveLeg};

use crate::attribution::Attribution;
use crate::figures::TimedFigures;
use crate::{LegFigures, Limits};

/// The figures of a set of receives.
#[derive(Clone, Debug)]
pub struct ReceiveFigures {
    /// Received segments, or frames of them, with their times.
    pub records: TimedFigures<Receive>,
    /// Segments on the wire.
    pub segments: u64,
    /// Those that came before bytes that precede them.
    pub out_of_order: u64,
    /// Those that were not read.
    pub unread: u64,
    /// The most bytes that waited in a socket to be read when others arrived.
    pub most_queued: u32,
}

impl ReceiveFigures {
    /// Nothing yet.
    pub fn new(limits: &Limits) -> Self {
        Self {
            records: TimedFigures::new(TimedKind::Receives, limits.slowest, limits.connections),
            segments: 0,
            out_of_order: 0,
            unread: 0,
            most_queued: 0,
        }
    }

    /// Adds a receive on a connection of which this is known.
    pub fn add(&mut self, receive: &Receive, known: Attribution) {
        self.records.add(receive, known);
        self.segments += u64::from(receive.segments);
        self.out_of_order += u64::from(receive.out_of_order);
        self.unread += u64::from(receive.stamps.read.is_none());
        self.most_queued = self.most_queued.max(receive.queued);
    }

    /// The figures of a leg.
    pub fn leg(&self, leg: ReceiveLeg) -> &LegFigures {
        self.records.leg(ReceiveLeg::ALL.iter().position(|&l| l == leg).unwrap_or(0))
    }
}
